// The map: every node as a cell, filled by what is requested of it; and the same as a table.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib.js";
import { get } from "../api.js";
import { CORDONED, PODS_FROM, Picture, TAINTED } from "../canvas.js";
import { say, useData, useShared } from "../state.js";
import { listen } from "../stream.js";
import { amount, count, plural, share, unit } from "../format.js";
import { Badge, Card, Loading, NodeLink, Pager, Problem, SearchField, Table, nodeHref, usePages, useStill } from "../parts.js";

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

  async function load() {
    const asked = { ...wanted.current };
    try {
      const query = { resource: asked.resource, world: asked.world, ...(asked.group === null ? {} : { group: asked.group || " " }) };
      setData(await get("map", query));
      setError(null);
    } catch (problem) {
      setError(problem);
    }
  }
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
      <${Drawing} data=${data} filter=${filter} zoom=${ZOOMS[zoom]} world=${world} picture=${picture} />
    </section>
    <${NodeTable} filter=${filter} />`;
}

const Legend = () => html`<ul class="legend" aria-label="Colours">${LEGEND.map(([name, text]) => html`<li key=${name}><span class=${`key ${name}`} aria-hidden="true"></span>${text}</li>`)}</ul>`;

/** @param {{data: any, filter: string, zoom: number, world: string, picture: {current: Picture | null}}} props */
function Drawing({ data, filter, zoom, world, picture }) {
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  const [hint, setHint] = useState(/** @type {any} */ (null));
  const asked = useStill(filter, 200);
  function size() {
    const width = Math.max(200, (frame.current?.clientWidth || 300) - 2);
    return { width, height: Math.max(280, Math.min(innerHeight - 330, 900)) };
  }
  useLayoutEffect(() => {
    if (!canvas.current) return undefined;
    const made = new Picture(canvas.current);
    picture.current = made;
    return () => {
      made.stop();
      picture.current = null;
    };
  }, []);
  useLayoutEffect(() => {
    const { width, height } = size();
    picture.current?.show(data, width, height, zoom);
    loadInside();
  }, [data, zoom]);
  useEffect(() => {
    const again = () => {
      const { width, height } = size();
      if (picture.current?.data) picture.current.show(picture.current.data, width, height, zoom);
    };
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    addEventListener("resize", again);
    scheme.addEventListener("change", again);
    return () => {
      removeEventListener("resize", again);
      scheme.removeEventListener("change", again);
    };
  }, [zoom]);
  useEffect(() => {
    if (!asked.trim()) {
      if (picture.current) {
        picture.current.found = null;
        picture.current.repaint();
      }
      return undefined;
    }
    const stop = new AbortController();
    get("search", { q: asked, world }, stop.signal)
      .then((found) => {
        if (!picture.current) return;
        picture.current.found = new Set(found.nodes);
        picture.current.repaint();
        say(`${plural(found.nodes.length, "node")} found`);
      })
      .catch(() => {});
    return () => stop.abort();
  }, [asked, data]);
  async function loadInside() {
    const drawn = picture.current;
    if (!drawn || drawn.cell < PODS_FROM || !drawn.data || !frame.current) return;
    const top = frame.current.scrollTop - drawn.cell;
    const bottom = top + frame.current.clientHeight + 2 * drawn.cell;
    const rows = [...drawn.data.names.keys()].filter((row) => drawn.y[row] >= top && drawn.y[row] <= bottom);
    const names = rows.map((row) => /** @type {any} */ (drawn.data).names[row]).filter((name) => !drawn.inside.has(name)).slice(0, 300);
    if (!names.length) return;
    try {
      const found = await get("map/pods", { nodes: names.join(","), resource: drawn.data.resource, world });
      for (const [name, pods] of Object.entries(found.nodes)) drawn.inside.set(name, pods);
      drawn.repaint();
    } catch {
      // The picture is right without them.
    }
  }
  /** @param {number} row @param {boolean} [aloud] */
  function describe(row, aloud = false) {
    const drawn = picture.current?.data;
    if (!drawn || row < 0) {
      setHint(null);
      return;
    }
    const told = { name: drawn.names[row], used: drawn.used[row], whole: drawn.whole[row], pods: drawn.pods[row], flags: drawn.flags[row] };
    setHint(told);
    if (aloud) say(`${told.name}: ${share(told.whole ? told.used / told.whole : 0)} of ${drawn.resource}, ${plural(told.pods, "pod")}`);
  }
  /** @param {MouseEvent} event */
  const over = (event) => picture.current?.at(event.offsetX, event.offsetY) ?? -1;
  /** @param {KeyboardEvent} event */
  function press(event) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    const drawn = picture.current;
    if (!drawn?.data) return;
    if (step) {
      event.preventDefault();
      drawn.moveTo(drawn.next(step[0], step[1]));
      describe(drawn.cursor, true);
    } else if (event.key === "Enter" && drawn.cursor >= 0) {
      location.hash = nodeHref(drawn.data.names[drawn.cursor]);
    }
  }
  const total = data.whole.reduce((/** @type {number} */ a, /** @type {number} */ b) => a + b, 0);
  const used = data.used.reduce((/** @type {number} */ a, /** @type {number} */ b) => a + b, 0);
  const label = `Map of ${plural(data.names.length, "node")}: ${share(total ? used / total : 0)} of ${data.resource} requested. Arrows move, Enter opens a node; the table below says the same.`;
  return html`<div class="map" ref=${frame} onScroll=${loadInside}>
      <canvas ref=${canvas} tabindex="0" role="application" aria-label=${label}
        onMouseMove=${(/** @type {MouseEvent} */ e) => describe(over(e))} onMouseLeave=${() => describe(-1)} onKeyDown=${press}
        onClick=${(/** @type {MouseEvent} */ e) => { const row = over(e); if (row >= 0 && picture.current?.data) location.hash = nodeHref(picture.current.data.names[row]); }}></canvas></div>
    <p class="hint" aria-hidden="true">${hint
      ? html`<strong class="mono">${hint.name}</strong> ${amount(data.resource, hint.used)} of ${amount(data.resource, hint.whole)} ${unit(data.resource)} (${share(hint.whole ? hint.used / hint.whole : 0)}), ${plural(hint.pods, "pod")}
          ${hint.flags & CORDONED ? html`<${Badge}>cordoned<//>` : null} ${hint.flags & TAINTED ? html`<${Badge}>tainted<//>` : null}`
      : html`<span class="dim">${share(total ? used / total : 0)} of ${amount(data.resource, total)} ${unit(data.resource)} ${data.resource} requested on ${count(data.names.length)} nodes. Point at a cell to read it, click to open it.</span>`}</p>`;
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
