// Time: throughput, latency, who waits and how full, over the last minutes; each also as a table.

import { html } from "../lib.js";
import { Chart } from "../chart.js";
import { useData, useShared } from "../state.js";
import { brief, count, plural, share } from "../format.js";
import { Badge, Card, Loading, Problem, Table } from "../parts.js";

const CHARTS = [
  ["throughput", "Throughput", "a second"],
  ["latency", "How long a decision takes", "ms"],
  ["causes", "Pending, by who turns them down", "pods"],
  ["lanes", "Pending, by lane", "pods"],
  ["fill", "How full", "%"],
];

const WAITING_POINTS = ["Bind", "PreBind", "PostBind", "Permit"];

export function TimeView() {
  const { about } = useShared();
  const { data, error } = useData("time");
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Loading} />`;
  return html`${about && !about.live ? html`<p class="note">Nothing runs here: a dump has no minutes. There is one sample, of the moment when everything was decided.</p>` : null}
    <div class="charts">${CHARTS.filter(([key]) => key !== "throughput" || about?.live).map(([key, title, unit]) => html`<${Chart} key=${key} id=${key} title=${title} unit=${unit} times=${data.time} series=${data[key]} />`)}</div>
    <${Spent} times=${data.times} />`;
}

/** Where the time goes: phases, and plugins in one cycle of ten. @param {{times: any}} props */
function Spent({ times }) {
  if (!times.phases?.length) return null;
  /** Whoever binds waits for the API server, beside the next pods: that is no work of the scheduler's. @param {any} row */
  const works = (row) => !WAITING_POINTS.includes(row.point);
  const all = times.plugins.filter(works).reduce((/** @type {number} */ sum, /** @type {any} */ row) => sum + row.sum_s, 0);
  return html`<${Card} title="Where the time goes, per plugin" id="plugins"><p class="dim">In one cycle of ten, in the last ${plural(Math.max(1, Math.round(times.seconds / 60)), "minute")}. Shares are of the time that decisions take; waiting for the API server is not part of it.</p>
      <${Table} caption="Time per plugin" rows=${times.plugins} empty="Fewer than ten decisions so far: none was timed plugin by plugin." columns=${[
        { key: "plugin", label: "Plugin" },
        { key: "point", label: "At" },
        { key: "count", label: "Timed", num: true, cell: (/** @type {any} */ row) => count(row.count) },
        { key: "sum_s", label: "In all", num: true, cell: (/** @type {any} */ row) => brief(row.sum_s) },
        { key: "share", label: "Share", num: true, cell: (/** @type {any} */ row) => (works(row) ? share(all ? row.sum_s / all : 0) : "waits") },
        { key: "p95_s", label: "95 % below", num: true, cell: (/** @type {any} */ row) => brief(row.p95_s) },
      ]} /><//>
    <${Card} title="Where the time goes, per phase" id="phases"><p class="dim">Every decision; a phase that is slower than it should be is marked.</p>
      <${Table} caption="Time per phase" rows=${times.phases} columns=${[
        { key: "name", label: "Phase", cell: (/** @type {any} */ row) => html`${row.name}${row.severity ? html` <${Badge} kind="warn">slow: ${row.severity.toLowerCase()}<//>` : null}` },
        { key: "count", label: "Count", num: true, cell: (/** @type {any} */ row) => count(row.count) },
        { key: "p50_s", label: "Median", num: true, cell: (/** @type {any} */ row) => brief(row.p50_s) },
        { key: "p95_s", label: "95 % below", num: true, cell: (/** @type {any} */ row) => brief(row.p95_s) },
        { key: "max_s", label: "Most", num: true, cell: (/** @type {any} */ row) => brief(row.max_s) },
      ]} /><//>`;
}
