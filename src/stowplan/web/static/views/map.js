// The map: every node as a cell, filled by what is requested of it; and the same as a table.

import { html, useEffect, useRef, useState } from "../lib.js";
import { get } from "../api.js";
import { CORDONED, Picture, TAINTED } from "../canvas.js";
import { Drawing } from "../drawing.js";
import { useData, useShared } from "../state.js";
import { listen } from "../stream.js";
import { amount, count, plural, share, unit } from "../format.js";
import { Badge, Card, Loading, NodeLink, Pager, Problem, SearchField, Table, usePages, useStill } from "../parts.js";

const LEGEND = [
  ["used", "requested"],
  ["full", "full (95 % and more)"],
  ["tainted", "tainted"],
  ["cordoned", "cordoned"],
  ["chosen", "just chosen"],
];
const ZOOMS = [1, 1.5, 2, 3, 5, 8];

export function MapView() {
  const [resource, setResource] = useState("cpu");
  const [group, setGroup] = useState(/** @type {string | null} */ (null));
  const [filter, setFilter] = useState("");
  const [zoom, setZoom] = useState(0);
  const [data, setData] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const { world, version } = useShared();
  const wanted = useRef({ resource, group, world });
  wanted.current = { resource, group, world };
  const picture = useRef(/** @type {Picture | null} */ (null));

  const loading = useRef("");
  /** One at a time: what comes meanwhile is asked for afterwards, so that the latest answer is the one that stays. */
  async function load() {
    if (loading.current) {
      loading.current = "again";
      return;
    }
    loading.current = "once";
    const asked = { ...wanted.current };
    try {
      const query = { resource: asked.resource, world: asked.world, ...(asked.group === null ? {} : { group: asked.group || " " }) };
      setData(await get("map", query));
      setError(null);
    } catch (problem) {
      setError(problem);
    }
    const again = loading.current === "again";
    loading.current = "";
    if (again) load();
  }
  const soon = useRef(0);
  /** Devices are not part of the stream: they are asked for again, once a second at most. */
  function loadSoon() {
    soon.current ||= setTimeout(() => {
      soon.current = 0;
      load();
    }, 1000);
  }
  useEffect(() => () => clearTimeout(soon.current), []);
  useEffect(() => {
    load();
  }, [resource, group, world]);
  useEffect(() => {
    if (world) load();
  }, [version]);
  useEffect(
    () =>
      listen((event, message) => {
        if (wanted.current.world) return;
        if (event === "reload" || event === "again") load();
        if (event === "nodes" && picture.current) {
          const used = message.used[wanted.current.resource];
          if (used) picture.current.change(message.rows, used, message.used.pods, message.chosen);
          else if (message.rows.length) loadSoon();
        }
      }),
    [],
  );
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Loading} text="Drawing the cluster…" />`;
  return html`<section class="card" aria-labelledby="map-title">
      <div class="card-head"><h2 id="map-title">Requested against allocatable</h2><${Legend} /></div>
      <div class="controls">
        <div class="field"><label for="resource">Resource</label><select id="resource" value=${resource} onChange=${(/** @type {any} */ e) => setResource(e.target.value)}>
          ${data.resources.map((/** @type {string} */ name) => html`<option key=${name} value=${name}>${name}</option>`)}</select></div>
        <div class="field"><label for="group">Group by</label><select id="group" value=${data.groupedBy.trim()} onChange=${(/** @type {any} */ e) => setGroup(e.target.value)}>
          <option value="">nothing</option>${data.groupKeys.map((/** @type {string} */ key) => html`<option key=${key} value=${key}>${key}</option>`)}</select></div>
        <${SearchField} id="filter" name="filter" label="Show only" value=${filter} onInput=${setFilter} placeholder="name, key=value, taint, pod" />
        <div class="field zoom"><span class="label" id="zoom-label">Size</span><div role="group" aria-labelledby="zoom-label">
          <button type="button" aria-label="Smaller" disabled=${zoom === 0} onClick=${() => setZoom(zoom - 1)}>−</button>
          <button type="button" aria-label="Larger" disabled=${zoom === ZOOMS.length - 1} onClick=${() => setZoom(zoom + 1)}>+</button></div></div>
      </div>
      <${Cluster} data=${data} filter=${filter} zoom=${ZOOMS[zoom]} world=${world} picture=${picture} />
    </section>
    ${data.shared.length ? html`<${SharedDevices} rows=${data.shared} />` : null}
    <${NodeTable} filter=${filter} />`;
}

const Legend = () => html`<ul class="legend" aria-label="Colours">${LEGEND.map(([name, text]) => html`<li key=${name}><span class=${`key ${name}`} aria-hidden="true"></span>${text}</li>`)}</ul>`;

/** @param {{data: any, filter: string, zoom: number, world: string, picture: {current: Picture | null}}} props */
function Cluster({ data, filter, zoom, world, picture }) {
  const total = data.whole.reduce((/** @type {number} */ a, /** @type {number} */ b) => a + b, 0);
  const used = data.used.reduce((/** @type {number} */ a, /** @type {number} */ b) => a + b, 0);
  const { resource } = data;
  /** @param {number} row */
  const part = (row) => share(data.whole[row] ? data.used[row] / data.whole[row] : 0);
  return html`<${Drawing} data=${data} zoom=${zoom} picture=${picture} filter=${filter}
    label=${`Map of ${plural(data.names.length, "node")}: ${share(total ? used / total : 0)} of ${resource} requested. Arrows move, Enter opens a node; the table below says the same.`}
    find=${async (/** @type {string} */ q, /** @type {AbortSignal} */ signal) => (await get("search", { q, world }, signal)).nodes}
    inside=${async (/** @type {string[]} */ names) => (await get("map/pods", { nodes: names.join(","), resource, world })).nodes}
    spoken=${(/** @type {number} */ row) => `${data.names[row]}: ${part(row)} of ${resource}, ${plural(data.pods[row], "pod")}`}
    hint=${(/** @type {number} */ row) => html`<strong class="mono">${data.names[row]}</strong> ${amount(resource, data.used[row])} of ${amount(resource, data.whole[row])} ${unit(resource)} (${part(row)}), ${plural(data.pods[row], "pod")}
      ${data.flags[row] & CORDONED ? html` <${Badge}>cordoned<//>` : null}${data.flags[row] & TAINTED ? html` <${Badge}>tainted<//>` : null}`}
    rest=${html`<span class="dim">${share(total ? used / total : 0)} of ${resource} requested: ${amount(resource, used)} of ${amount(resource, total)} ${unit(resource)} on ${count(data.names.length)} nodes. Point at a cell to read it, click to open it.</span>`} />`;
}

/** Devices that are no part of any cell. @param {{rows: any[]}} props */
function SharedDevices({ rows }) {
  return html`<${Card} title="Devices that belong to no single node" id="shared">
    <${Table} caption="Devices that belong to no single node" rows=${rows} columns=${[
      { key: "pool", label: "Pool", cell: (/** @type {any} */ row) => html`<span class="mono">${row.pool}</span>` },
      { key: "from", label: "Reached from", cell: (/** @type {any} */ row) => html`${row.from} <span class="dim">(${plural(row.nodes, "node")})</span>` },
      { key: "whole", label: "Devices", num: true, cell: (/** @type {any} */ row) => count(row.whole) },
      { key: "used", label: "Allocated", num: true, cell: (/** @type {any} */ row) => count(row.used) },
      { key: "claims", label: "To claims", cell: (/** @type {any} */ row) => html`<span class="mono">${row.claims.join(", ") || "–"}</span>` },
    ]} /><//>`;
}

/** @param {{filter: string}} props */
function NodeTable({ filter }) {
  const pages = usePages("cpu", "desc", 50);
  const asked = useStill(filter, 300);
  const { data, error } = useData("nodes", { ...pages.query, q: asked });
  return html`<${Card} title="The same as a table" id="nodes-table">
    <${Problem} error=${error} />
    ${data ? html`<${Table} caption="Nodes" sort=${pages.sort} order=${pages.order} onSort=${pages.onSort} rows=${data.rows} columns=${[
        { key: "name", label: "Node", sorts: true, cell: (/** @type {any} */ row) => html`<${NodeLink} name=${row.name} />` },
        { key: "zone", label: "Zone", sorts: true },
        { key: "cpu", label: "CPU", sorts: true, num: true, cell: (/** @type {any} */ row) => share(row.cpu) },
        { key: "memory", label: "Memory", sorts: true, num: true, cell: (/** @type {any} */ row) => share(row.memory) },
        { key: "pods", label: "Pods", sorts: true, num: true, cell: (/** @type {any} */ row) => count(row.pods) },
        { key: "taints", label: "Taints and cordon", cell: (/** @type {any} */ row) => html`${row.cordoned ? html`<${Badge} kind="warn">cordoned<//> ` : null}${row.taints.map((/** @type {string} */ taint) => html`<${Badge} key=${taint}>${taint}<//> `)}` },
      ]} /><${Pager} page=${data} limit=${50} go=${pages.go} what="nodes" />` : html`<${Loading} />`}<//>`;
}
