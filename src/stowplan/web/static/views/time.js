// Time: throughput, latency, who waits and how full, over the last minutes; each also as a table.

import { html, useEffect, useRef } from "../lib.js";
import uPlot from "../vendor/uplot.mjs";
import { useData, useShared } from "../state.js";
import { number, time } from "../format.js";
import { Card, Loading, Problem, Table } from "../parts.js";

const CHARTS = [
  ["throughput", "Throughput", "a second"],
  ["latency", "How long a decision takes", "ms"],
  ["causes", "Pending, by who turns them down", "pods"],
  ["lanes", "Pending, by lane", "pods"],
  ["fill", "How full", "%"],
];
const TABLE_ROWS = 12;

export function TimeView() {
  const { about } = useShared();
  const { data, error } = useData("time");
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Loading} />`;
  return html`${about && !about.live ? html`<p class="note">Nothing runs here: a dump has no minutes. There is one sample, of the moment when everything was decided.</p>` : null}
    <div class="charts">${CHARTS.map(([key, title, unit]) => html`<${Chart} key=${key} id=${key} title=${title} unit=${unit} times=${data.time} series=${data[key]} />`)}</div>
    <${Plugins} times=${data.plugins} />`;
}

/** @param {{times: any[] | undefined}} props */
function Plugins({ times }) {
  if (!times || !times.length) return null;
  return html`<${Card} title="Where the time goes" id="plugins"><${Table} caption="Time of plugins, sampled" rows=${times} columns=${[
    { key: "name", label: "Plugin and point" },
    { key: "count", label: "Samples", num: true },
    { key: "mean", label: "Mean, ms", num: true, cell: (/** @type {any} */ row) => number(row.mean * 1000) },
    { key: "p95", label: "95 %, ms", num: true, cell: (/** @type {any} */ row) => number(row.p95 * 1000) },
    { key: "share", label: "Share", num: true, cell: (/** @type {any} */ row) => `${number(row.share * 100)} %` },
  ]} /><//>`;
}

/** @param {{id: string, title: string, unit: string, times: number[], series: Record<string, (number | null)[]>}} props */
function Chart({ id, title, unit, times, series }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const plot = useRef(/** @type {uPlot | null} */ (null));
  const all = Object.keys(series);
  // Lanes in which nobody ever was say nothing.
  const names = all.filter((name) => series[name].some((value) => value)) .concat(all.filter((name) => !series[name].some((value) => value)).slice(0, id === "lanes" || id === "causes" ? 0 : undefined));
  const scale = unit === "%" ? 100 : 1;
  const values = [times, ...names.map((name) => series[name].map((value) => (value === null ? null : value * scale)))];
  const shape = names.join();
  useEffect(() => {
    if (!box.current || times.length < 2) return undefined;
    const style = getComputedStyle(box.current);
    /** @param {string} name */
    const color = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: color("--dim"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line"), width: 1 } };
    const made = new uPlot(
      {
        width: box.current.clientWidth,
        height: 200,
        legend: { show: false },
        cursor: { y: false },
        scales: { y: { range: (/** @type {any} */ _u, /** @type {number} */ _low, /** @type {number} */ high) => [0, high > 0 ? high * 1.1 : 1] } },
        axes: [axis, { ...axis, size: 56 }],
        series: [{}, ...names.map((name, n) => ({ label: name, stroke: color(`--series-${n % 8}`), width: 2, points: { show: false } }))],
      },
      /** @type {any} */ (values),
      box.current,
    );
    plot.current = made;
    const resize = () => box.current && made.setSize({ width: box.current.clientWidth, height: 200 });
    addEventListener("resize", resize);
    return () => {
      removeEventListener("resize", resize);
      made.destroy();
      plot.current = null;
    };
  }, [shape, times.length < 2]);
  useEffect(() => {
    plot.current?.setData(/** @type {any} */ (values));
  }, [times]);
  const rows = times.map((at, n) => ({ at, ...Object.fromEntries(names.map((name) => [name, series[name][n]])) })).slice(-TABLE_ROWS).reverse();
  const latest = names.map((name) => { const value = series[name][series[name].length - 1]; return `${name} ${value === null ? "–" : number(value * scale)}`; }).join(", ");
  return html`<${Card} title=${`${title} (${unit})`} id=${id}>
    <ul class="legend" aria-label=${`Lines of ${title}`}>${names.map((name, n) => html`<li key=${name}><span class=${`key series-${n % 8}`} aria-hidden="true"></span>${name}</li>`)}</ul>
    <div ref=${box} class="chart" role="img" aria-label=${`${title}, the latest: ${latest || "nothing yet"}`}></div>
    ${times.length < 2 ? html`<p class="dim">${latest || "Nothing yet."}</p>` : null}
    <details><summary>As a table</summary><${Table} caption=${title} rows=${rows} columns=${[
      { key: "at", label: "Time", cell: (/** @type {any} */ row) => time(row.at) },
      ...names.map((name) => ({ key: name, label: name, num: true, cell: (/** @type {any} */ row) => (row[name] === null || row[name] === undefined ? "–" : number(row[name] * scale)) })),
    ]} /></details><//>`;
}
