// A node: sums, pods, taints and labels, who was turned away, and what could be done to it in a fork.

import { html, useState } from "../lib.js";
import { post } from "../api.js";
import { enter, refresh, useData, useShared } from "../state.js";
import { amount, count } from "../format.js";
import { Badge, Card, Loading, Meter, Pager, PodLink, Problem, Table } from "../parts.js";
import { Manifest } from "./pod.js";

const LIMIT = 50;

/** @param {{name: string}} props */
export function NodeView({ name }) {
  const [offset, setOffset] = useState(0);
  const { data, error } = useData(`nodes/${encodeURIComponent(name)}`, { offset, limit: LIMIT });
  if (error && !data) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Loading} />`;
  return html`<div class="columns">
      <${Card} title="Requested" id="sums">${data.amounts.map((/** @type {any} */ each) => html`<${Meter} key=${each.resource} ...${each} />`)}<//>
      <${Card} title="Taints and labels" id="labels">
        <p>${data.cordoned ? html`<${Badge} kind="warn">cordoned<//> ` : null}${data.taints.length ? data.taints.map((/** @type {string} */ taint) => html`<${Badge} key=${taint} kind="warn">${taint}<//> `) : data.cordoned ? null : html`<span class="dim">no taints</span>`}</p>
        <dl class="labels">${Object.entries(data.labels).map(([key, value]) => html`<div key=${key}><dt class="mono">${key}</dt><dd class="mono">${String(value)}</dd></div>`)}</dl><//></div>
    <${Deeds} node=${data} />
    <${Card} title="Pods" id="pods"><${Table} caption="Pods on this node" rows=${data.pods.rows} empty="No pod runs here." columns=${[
        { key: "pod", label: "Pod", cell: (/** @type {any} */ row) => html`<${PodLink} name=${row.pod} />` },
        { key: "cpu", label: "CPU", num: true, cell: (/** @type {any} */ row) => amount("cpu", row.cpu) },
        { key: "memory", label: "Memory", num: true, cell: (/** @type {any} */ row) => amount("memory", row.memory) },
        { key: "priority", label: "Priority", num: true, cell: (/** @type {any} */ row) => count(row.priority) },
        { key: "phase", label: "Phase" },
      ]} /><${Pager} page=${data.pods} limit=${LIMIT} go=${setOffset} what="pods" /><//>
    <${Card} title="Who was turned away" id="away"><${Table} caption="Pending pods that this node was looked at for" empty="No pending pod was turned away here." rows=${data.turnedAway} columns=${[
        { key: "pod", label: "Pod", cell: (/** @type {any} */ row) => html`<${PodLink} name=${row.pod} />` },
        { key: "plugin", label: "By", cell: (/** @type {any} */ row) => html`<${Badge} kind="warn">${row.plugin}<//>` },
        { key: "reasons", label: "Why", cell: (/** @type {any} */ row) => row.reasons.join(", ") },
      ]} /><//>
    <${Manifest} kind="Node" name=${name} />`;
}

/** @param {{node: any}} props */
function Deeds({ node }) {
  const { world } = useShared();
  const [error, setError] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState("");
  /** @param {string} verb @param {object} more */
  async function change(verb, more = {}) {
    setBusy(verb);
    setError(null);
    try {
      const id = world || (await post("worlds")).id;
      await post(`worlds/${id}/changes`, { verb, node: node.name, ...more });
      await enter(id);
      location.hash = "#/what-if";
    } catch (problem) {
      setError(problem);
      await refresh();
    }
    setBusy("");
  }
  const deeds = [
    [node.cordoned ? "uncordon" : "cordon", node.cordoned ? "Uncordon" : "Cordon", {}],
    ["drain", "Drain", {}],
    ["remove", "Remove", {}],
    ["addNodes", "Add one like it", { like: node.name, count: 1 }],
  ];
  return html`<${Card} title="What if…" id="deeds"><p class="dim">In ${world ? "this fork" : "a new fork"}: the cluster itself is not changed.</p>
    <div class="buttons">${deeds.map(([verb, text, more]) => html`<button type="button" key=${verb} disabled=${busy !== ""} onClick=${() => change(String(verb), /** @type {object} */ (more))}>${busy === verb ? "Forking…" : text}</button>`)}</div>
    <${Problem} error=${error} /><//>`;
}
