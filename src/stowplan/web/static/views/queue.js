// The queue: a lane for each place where pods wait, why each waits, and what would wake it.

import { html, useState } from "../lib.js";
import { useData, useShared } from "../state.js";
import { count, duration } from "../format.js";
import { Badge, Card, Loading, NodeLink, Pager, PodLink, Problem, Table } from "../parts.js";

const LANES = [
  ["active", "Active", "ready to be tried, in this order"],
  ["backoff", "Backoff", "failed a moment ago, waits before the next try"],
  ["unschedulable", "Unschedulable", "no node takes it; waits for a change that may help"],
  ["gated", "Gated", "held back before any node is looked at"],
  ["in flight", "In flight", "being decided or bound right now"],
  ["permit", "At Permit", "has a node, and waits until a plugin allows it"],
];

const LIMIT = 50;

export function QueueView() {
  const { about } = useShared();
  const [lane, setLane] = useState("");
  const [offset, setOffset] = useState(0);
  const { data, error } = useData("queue", lane ? { lane, offset, limit: LIMIT } : {});
  const overview = useData("queue", {});
  const causes = useData("pending", {}, { once: true });
  if (error) return html`<${Problem} error=${error} />`;
  if (!data || !overview.data) return html`<${Loading} />`;
  const shown = LANES.filter(([name]) => (lane ? name === lane : data.lanes[name]?.total));
  return html`<ul class="lanes" aria-label="Lanes">
      ${LANES.map(([name, title, what]) => html`<li key=${name}><button type="button" class="lane" aria-pressed=${lane === name ? "true" : "false"}
        onClick=${() => { setLane(lane === name ? "" : name); setOffset(0); }}>
        <span class="lane-count">${count(overview.data.lanes[name].total)}</span><span class="lane-title">${title}</span><span class="lane-what">${what}</span></button></li>`)}</ul>
    ${about?.kind === "beside" ? html`<${WouldPlace} />` : null}
    <${Causes} answer=${causes} />
    ${shown.map(([name, title]) => data.lanes[name] ? html`<${Card} key=${name} title=${title} id=${`lane-${name.replace(" ", "-")}`}>
      <${LaneTable} rows=${data.lanes[name].rows} now=${data.now} title=${title} />
      ${lane
        ? html`<${Pager} page=${data.lanes[name]} limit=${LIMIT} go=${setOffset} what="pods" />`
        : data.lanes[name].total > data.lanes[name].rows.length
          ? html`<p class="pager"><button type="button" onClick=${() => { setLane(name); setOffset(0); }}>Show all ${count(data.lanes[name].total)}</button></p>`
          : null}<//>` : null)}
    ${shown.length === 0 ? html`<p class="note good">No pod waits.</p>` : null}`;
}

/** Beside another scheduler: what waits there, and ours would place. */
function WouldPlace() {
  const { data } = useData("opinions", { limit: 50 });
  if (!data) return null;
  return html`<${Card} title="Second opinion" id="opinion"><p>Of the pods that wait in the cluster, ours would place <strong>${count(data.wouldPlaceCount)}</strong>, and <strong>${count(data.fitsNowhere)}</strong> fit nowhere. The lanes show those.</p>
    ${data.wouldPlace.length ? html`<${Table} caption="What ours would place" rows=${data.wouldPlace} columns=${[
      { key: "pod", label: "Pod", cell: (/** @type {any} */ row) => html`<${PodLink} name=${row.pod} />` },
      { key: "node", label: "Ours would take", cell: (/** @type {any} */ row) => html`<${NodeLink} name=${row.node} />` },
    ]} />` : null}<//>`;
}

/** @param {{answer: any}} props */
function Causes({ answer }) {
  if (answer.error) return html`<${Problem} error=${answer.error} />`;
  if (!answer.data) return html`<${Card} title="Why they wait, together" id="causes"><${Loading} text="Asking a fork…" /><//>`;
  const groups = answer.data.pending;
  if (!groups.length) return null;
  return html`<${Card} title="Why they wait, together" id="causes" actions=${html`<button type="button" onClick=${answer.reload}>Ask again</button>`}>
    <ul class="causes">${groups.map((/** @type {any} */ group) => html`<li key=${group.message}>
      <div><strong>${count(group.pods.length)}</strong> ${group.pods.length === 1 ? "pod" : "pods"}: ${group.pods.slice(0, 3).map((/** @type {string} */ pod, /** @type {number} */ n) => html`${n ? ", " : ""}<${PodLink} key=${pod} name=${pod} />`)}${group.pods.length > 3 ? ` and ${count(group.pods.length - 3)} more` : ""}</div>
      <div class="dim">${group.message}</div>
      ${group.fix ? html`<div>Would place ${count(group.helps)}: <strong>${group.fix.title}</strong></div>` : html`<div class="dim">No single change that was tried helps.</div>`}</li>`)}</ul><//>`;
}

/** @param {{rows: any[], now: number, title: string}} props */
function LaneTable({ rows, now, title }) {
  return html`<${Table} caption=${`Pods: ${title}`} rows=${rows} columns=${[
    { key: "pod", label: "Pod", cell: (/** @type {any} */ row) => html`<${PodLink} name=${row.pod} />` },
    { key: "since", label: "For", num: true, cell: (/** @type {any} */ row) => (row.since === null ? "–" : duration(Math.max(0, now - row.since))) },
    { key: "attempts", label: "Tries", num: true, cell: (/** @type {any} */ row) => count(row.attempts) },
    { key: "priority", label: "Priority", num: true, cell: (/** @type {any} */ row) => count(row.priority) },
    { key: "why", label: "Why it waits", cell: (/** @type {any} */ row) => html`<div class="why">${row.why || "it has not been tried yet"}</div><div>${row.plugins.map((/** @type {string} */ name) => html`<${Badge} key=${name}>${name}<//> `)}${row.node ? html`on <${NodeLink} name=${row.node} />` : null}</div>` },
    { key: "wakes", label: "What would wake it", cell: (/** @type {any} */ row) => html`<span class="dim">${row.until && row.until > now ? `its backoff ends in ${duration(row.until - now)}` : row.wakes.join("; ") || "–"}</span>` },
  ]} />`;
}
