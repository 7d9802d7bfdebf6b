// A chart: lines over time on a canvas, their colours named, and a table of the same.

import { html, useEffect, useRef } from "./lib.js";
import uPlot from "./vendor/uplot.mjs";
import { clock, duration, number, time } from "./format.js";
import { Card, Table } from "./parts.js";

const TABLE_ROWS = 12;
/** Seconds, minutes, hours and days between two marks of virtual time. */
const VIRTUAL_STEPS = [[1, 1, 2, 5, 10, 20, 30], [60, 1, 2, 5, 10, 20, 30], [3600, 1, 2, 3, 6, 12], [86400, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]].flatMap(([unit, ...steps]) => steps.map((n) => n * unit));

/**
 * Lines over time, and the last of their points as a table.
 * @typedef {object} ChartProps
 * @property {string} id
 * @property {string} title
 * @property {string} unit
 * @property {number[]} times
 * @property {Record<string, (number | null)[]>} series
 * @property {number} [at] a moment of virtual time that is marked; the lines are then of virtual time
 * @property {number} [high] how far the scale reaches at least
 */

/** @param {ChartProps} props */
export function Chart({ id, title, unit, times, series, at, high = 0 }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const marked = useRef(at);
  marked.current = at;
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
        // The last label of the axis stands half beyond it.
        padding: [null, 32, null, null],
        legend: { show: false },
        cursor: { y: false },
        scales: {
          x: { time: at === undefined },
          y: { range: (/** @type {any} */ _u, /** @type {number} */ _low, /** @type {number} */ most) => [0, Math.max(most || 0, high * scale) * 1.1 || 1] },
        },
        axes: [at === undefined ? { ...axis, space: 90, values: (/** @type {any} */ _u, /** @type {number[]} */ splits) => splits.map(clock) } : { ...axis, incrs: VIRTUAL_STEPS, values: (/** @type {any} */ _u, /** @type {number[]} */ splits) => splits.map((split) => (split ? duration(split) : "0")) }, { ...axis, size: 56 }],
        hooks: { draw: [(/** @type {any} */ drawn) => markMoment(drawn, marked.current, color("--text"))] },
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
  }, [shape, times.length < 2, high]);
  useEffect(() => {
    plot.current?.setData(/** @type {any} */ (values));
  }, [times]);
  useEffect(() => {
    plot.current?.redraw(false);
  }, [at]);
  const until = at === undefined ? times.length : Math.max(1, times.filter((each) => each <= at + 0.0005).length);
  if (times.length < 2) return html`<${Single} id=${id} title=${title} unit=${unit} values=${names.map((name) => [name, series[name][0], scale])} />`;
  const rows = times.slice(0, until).map((moment, n) => ({ at: moment, ...Object.fromEntries(names.map((name) => [name, series[name][n]])) })).slice(-TABLE_ROWS).reverse();
  const latest = names.map((name) => { const value = series[name][until - 1]; return `${name} ${value === null || value === undefined ? "–" : number(value * scale)}`; }).join(", ");
  return html`<${Card} title=${`${title} (${unit})`} id=${id}>
    <ul class="legend" aria-label=${`Lines of ${title}`}>${names.map((name, n) => html`<li key=${name}><span class=${`key series-${n % 8}`} aria-hidden="true"></span>${name}</li>`)}</ul>
    <div ref=${box} class="chart" role="img" aria-label=${`${title}, ${at === undefined ? "the latest" : `after ${duration(at)}`}: ${latest || "nothing yet"}`}></div>
    <details><summary>As a table</summary><${Table} shape="wide" caption=${title} rows=${rows} columns=${[
      { key: "at", label: "Time", cell: (/** @type {any} */ row) => (at === undefined ? time(row.at) : duration(row.at)) },
      ...names.map((name) => ({ key: name, label: name, num: true, cell: (/** @type {any} */ row) => (row[name] === null || row[name] === undefined ? "–" : number(row[name] * scale)) })),
    ]} /></details><//>`;
}

/** One sample makes no line. @param {{id: string, title: string, unit: string, values: [string, number | null, number][]}} props */
function Single({ id, title, unit, values }) {
  const rows = values.filter(([, value]) => value !== null && value !== undefined);
  return html`<${Card} title=${`${title} (${unit})`} id=${id}>${rows.length
    ? html`<${Table} shape="small" caption=${title} rows=${rows} columns=${[
        { key: "name", label: "What", cell: (/** @type {any} */ row) => row[0] },
        { key: "value", label: "Now", num: true, cell: (/** @type {any} */ row) => number(row[1] * row[2]) },
      ]} />`
    : html`<p class="dim">Nothing yet.</p>`}<//>`;
}

/** A line from top to bottom. @param {any} drawn @param {number | undefined} at @param {string} color */
function markMoment(drawn, at, color) {
  if (at === undefined) return;
  const x = drawn.valToPos(at, "x", true);
  const { ctx, bbox } = drawn;
  if (x < bbox.left || x > bbox.left + bbox.width) return;
  ctx.save();
  ctx.strokeStyle = color;
  ctx.lineWidth = 2;
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.restore();
}
