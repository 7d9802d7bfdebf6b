// Time: throughput, latency, who waits and how full, over the last minutes; each also as a table.

import { html } from "../lib.js";
import { Chart } from "../chart.js";
import { useData, useShared } from "../state.js";
import { count, number } from "../format.js";
import { Badge, Card, Loading, Problem, Table } from "../parts.js";

const CHARTS = [
  ["throughput", "Throughput", "a second"],
  ["latency", "How long a decision takes", "ms"],
  ["causes", "Pending, by who turns them down", "pods"],
  ["lanes", "Pending, by lane", "pods"],
  ["fill", "How full", "%"],
];

export function TimeView() {
  const { about } = useShared();
  const { data, error } = useData("time");
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Loading} />`;
  return html`${about && !about.live ? html`<p class="note">Nothing runs here: a dump has no minutes. There is one sample, of the moment when everything was decided.</p>` : null}
    <div class="charts">${CHARTS.filter(([key]) => key !== "throughput" || about?.live).map(([key, title, unit]) => html`<${Chart} key=${key} id=${key} title=${title} unit=${unit} times=${data.time} series=${data[key]} />`)}</div>
    <${Spent} times=${data.times} />`;
}

/** @param {number} seconds */
const ms = (seconds) => `${number(seconds * 1000)} ms`;

/** Where the time goes: phases, and plugins in one cycle of ten. @param {{times: any}} props */
function Spent({ times }) {
  if (!times.phases?.length) return null;
  const all = times.plugins.reduce((/** @type {number} */ sum, /** @type {any} */ row) => sum + row.sum_s, 0);
  return html`<div class="columns">
    <${Card} title="Where the time goes, per plugin" id="plugins"><p class="dim">In one cycle of ten, in the last ${count(Math.max(1, Math.round(times.seconds / 60)))} min.</p>
      <${Table} caption="Time per plugin" rows=${times.plugins} empty="Fewer than ten decisions so far: none was timed plugin by plugin." columns=${[
        { key: "plugin", label: "Plugin" },
        { key: "point", label: "At" },
        { key: "count", label: "Timed", num: true, cell: (/** @type {any} */ row) => count(row.count) },
        { key: "sum_s", label: "In all", num: true, cell: (/** @type {any} */ row) => ms(row.sum_s) },
        { key: "share", label: "Share", num: true, cell: (/** @type {any} */ row) => `${number(all ? (100 * row.sum_s) / all : 0)} %` },
        { key: "p95_s", label: "95 % below", num: true, cell: (/** @type {any} */ row) => ms(row.p95_s) },
      ]} /><//>
    <${Card} title="Where the time goes, per phase" id="phases"><p class="dim">Every decision; a phase that is slower than it should be is marked.</p>
      <${Table} caption="Time per phase" rows=${times.phases} columns=${[
        { key: "name", label: "Phase", cell: (/** @type {any} */ row) => html`${row.name}${row.severity ? html` <${Badge} kind="warn">${row.severity}<//>` : null}` },
        { key: "count", label: "Count", num: true, cell: (/** @type {any} */ row) => count(row.count) },
        { key: "p50_s", label: "Median", num: true, cell: (/** @type {any} */ row) => ms(row.p50_s) },
        { key: "p95_s", label: "95 % below", num: true, cell: (/** @type {any} */ row) => ms(row.p95_s) },
        { key: "max_s", label: "Most", num: true, cell: (/** @type {any} */ row) => ms(row.max_s) },
      ]} /><//></div>`;
}
