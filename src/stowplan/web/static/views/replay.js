// A simulation played: a slider over the whole run, the nodes at that moment, the series; two runs side by side.

import { html, useEffect, useMemo, useRef, useState } from "../lib.js";
import { Chart } from "../chart.js";
import { AWAY, Picture } from "../canvas.js";
import { Drawing } from "../drawing.js";
import { useData } from "../state.js";
import { count, number, plural, share } from "../format.js";
import { Card, Loading, NodeLink, Pager, Problem, SearchField, Table, usePages, useStill } from "../parts.js";

const STEPS_MAX = 2000;
const TICK_MS = 100;
/** A run is played in so many ticks. */
const TICKS = 200;
const RUNS_MAX = 500;
const ROWS = 25;
const NONE = -1;

/** @typedef {{run: number, config: string, seed: number, nodes: number, samples: number, begin: number, end: number, resources: string[]}} Run */
/** @typedef {{a: number, b: number, at: number | null, resource: string}} Play `at`: null before anybody chose */

/** @type {Play} the same in all views, and in the address, so that a moment can be shared */
let chosen = { a: 0, b: NONE, at: null, resource: "" };

/** @returns {Play} */
function fromAddress() {
  const query = new URLSearchParams(location.hash.split("?")[1] || "");
  /** @param {string} name @param {number} other */
  const whole = (name, other) => (/^\d{1,6}$/.test(query.get(name) || "") ? Number(query.get(name)) : other);
  const at = Number.parseFloat(query.get("at") || "");
  return {
    a: whole("a", chosen.a),
    b: whole("b", chosen.b),
    at: Number.isFinite(at) && at >= 0 ? at : chosen.at,
    resource: query.get("resource") || chosen.resource,
  };
}

/** @returns {[Play, (changes: Partial<Play>) => void]} */
function usePlay() {
  const [play, setPlay] = useState(fromAddress);
  /** @param {Partial<Play>} changes */
  function change(changes) {
    chosen = { ...chosen, ...changes };
    const query = new URLSearchParams({ a: String(chosen.a) });
    if (chosen.b !== NONE) query.set("b", String(chosen.b));
    if (chosen.at !== null) query.set("at", String(chosen.at));
    if (chosen.resource) query.set("resource", chosen.resource);
    history.replaceState(null, "", `${location.hash.split("?")[0] || "#/map"}?${query}`);
    setPlay(chosen);
  }
  useEffect(() => change(play), []);
  return [play, change];
}

/** What every view of a simulation begins with: the runs, and the moment. @param {{view: any, name?: string}} props */
function Played({ view, name }) {
  const [play, change] = usePlay();
  const { data, error } = useData("runs", { limit: RUNS_MAX }, { once: true });
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Loading} />`;
  /** @type {Run[]} */
  const all = data.rows;
  const runs = [play.a, play.b].filter((n) => n !== NONE && n < all.length).map((n) => all[n]);
  if (!runs.length) runs.push(all[0]);
  const begin = Math.min(...runs.map((run) => run.begin));
  const end = Math.max(...runs.map((run) => run.end));
  const at = Math.min(end, Math.max(begin, play.at ?? (begin + end) / 2));
  return html`<${Player} all=${all} total=${data.total} runs=${runs} play=${play} change=${change} begin=${begin} end=${end} at=${at} />
    <${view} runs=${runs} at=${at} resource=${resourceOf(runs, play.resource)} name=${name} />`;
}

/** @param {Run[]} runs @param {string} wanted */
const resourceOf = (runs, wanted) => (runs[0].resources.includes(wanted) ? wanted : runs[0].resources[0] || "");

/** @param {Run} run */
const title = (run) => `${run.config}, seed ${run.seed}`;

/** @param {{all: Run[], total: number, runs: Run[], play: Play, change: (changes: Partial<Play>) => void, begin: number, end: number, at: number}} props */
function Player({ all, total, runs, play, change, begin, end, at }) {
  const [plays, setPlays] = useState(false);
  const samples = Math.max(2, ...runs.map((run) => run.samples));
  const step = (end - begin) / Math.min(STEPS_MAX, samples - 1) || 1;
  const now = useRef(at);
  now.current = at;
  useEffect(() => {
    if (!plays) return undefined;
    const timer = setInterval(() => {
      const next = Math.min(end, now.current + Math.max(step, (end - begin) / TICKS));
      change({ at: next });
      if (next >= end) setPlays(false);
    }, TICK_MS);
    return () => clearInterval(timer);
  }, [plays, begin, end]);
  function toggle() {
    if (!plays && at >= end) change({ at: begin });
    setPlays(!plays);
  }
  /** @param {"a" | "b"} name @param {string} label */
  const choice = (name, label) => html`<div class="field"><label for=${`run-${name}`}>${label}</label>
    <select id=${`run-${name}`} value=${String(play[name])} onChange=${(/** @type {any} */ e) => change({ [name]: Number(e.target.value) })}>
      ${name === "b" ? html`<option value=${String(NONE)}>none</option>` : null}
      ${all.map((run) => html`<option key=${run.run} value=${String(run.run)}>${title(run)}</option>`)}</select></div>`;
  return html`<section class="card" aria-labelledby="player-title">
    <h2 id="player-title" class="hidden">The moment</h2>
    <div class="controls">${choice("a", "Run")}${choice("b", "Beside it")}
      <div class="field"><label for="resource">Resource</label><select id="resource" value=${resourceOf(runs, play.resource)} onChange=${(/** @type {any} */ e) => change({ resource: e.target.value })}>
        ${runs[0].resources.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}</select></div></div>
    <div class="player"><button type="button" class="primary" onClick=${toggle}>${plays ? "Pause" : "Play"}</button>
      <label class="hidden" for="moment">Moment of the run</label>
      <input id="moment" type="range" min=${begin} max=${end} step="any" value=${at} aria-valuetext=${`${moment(at)} of ${moment(end)}`}
        onInput=${(/** @type {any} */ e) => change({ at: Number(e.target.value) })}
        onKeyDown=${(/** @type {KeyboardEvent} */ e) => stepBy(e, at, step, begin, end, change)} />
      <output for="moment"><strong>${moment(at)}</strong> <span class="dim">of ${moment(end)}</span></output></div>
    ${total > all.length ? html`<p class="dim">The first ${count(all.length)} of ${count(total)} runs can be chosen.</p>` : null}</section>`;
}

/** One sample at a time, where a range of its own would move by whatever it thinks right.
 * @param {KeyboardEvent} event @param {number} at @param {number} step @param {number} begin @param {number} end @param {(changes: Partial<Play>) => void} change */
function stepBy(event, at, step, begin, end, change) {
  const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 }[event.key];
  if (by === undefined) return;
  event.preventDefault();
  change({ at: Math.min(end, Math.max(begin, begin + (Math.round((at - begin) / step) + by) * step)) });
}

/** A moment of virtual time. @param {number} seconds */
function moment(seconds) {
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const days = Math.floor(whole / 86400);
  const clock = [Math.floor((whole % 86400) / 3600), Math.floor((whole % 3600) / 60)].map((n) => String(n).padStart(2, "0")).join(":");
  return days ? `day ${count(days)}, ${clock}` : `${clock} h`;
}

export const ReplayMap = () => html`<${Played} view=${Maps} />`;
export const ReplayTime = () => html`<${Played} view=${Times} />`;
/** @param {{name: string}} props */
export const ReplayNode = ({ name }) => html`<${Played} view=${OneNode} name=${name} />`;

/** @param {{runs: Run[], at: number, resource: string}} props */
function Maps({ runs, at, resource }) {
  const [filter, setFilter] = useState("");
  return html`<div class="columns">${runs.map((run, n) => html`<${Heat} key=${`${n} ${run.run}`} run=${run} at=${at} resource=${resource} filter=${filter} />`)}</div>
    <div class="controls"><${SearchField} id="filter" name="filter" label="Show only" value=${filter} onInput=${setFilter} placeholder="a part of a node's name" /></div>
    <div class="columns">${runs.map((run, n) => html`<${Nodes} key=${`${n} ${run.run}`} id=${`nodes-${n}`} run=${run} at=${at} filter=${filter} />`)}</div>`;
}

const Legend = () => html`<ul class="legend" aria-label="Colours"><li><span class="key ramp" aria-hidden="true"></span>0 to 95 %</li>
  <li><span class="key full" aria-hidden="true"></span>full</li><li><span class="key away" aria-hidden="true"></span>away</li></ul>`;

/** @param {{run: Run, at: number, resource: string, filter: string}} props */
function Heat({ run, at, resource, filter }) {
  const picture = useRef(/** @type {Picture | null} */ (null));
  const { data: told, error } = useData(`runs/${run.run}/map`, { resource, at });
  const data = useMemo(() => told && { ...told, heat: true }, [told]);
  /** @param {number} row */
  const words = (row) => (data.flags[row] & AWAY ? "away" : `${share(data.used[row] / 100)} of ${data.resource}`);
  return html`<${Card} title=${title(run)} id=${`heat-${run.run}`} actions=${html`<${Legend} />`}>
    <${Problem} error=${error} />
    ${data ? html`<${Drawing} data=${data} zoom=${1} picture=${picture} filter=${filter} room=${300}
      label=${`Map of ${plural(data.names.length, "node")} after ${moment(data.at)}: ${share(data.mean / 100)} of ${data.resource} requested on average. Arrows move, Enter opens a node; the table below says the same.`}
      find=${async (/** @type {string} */ text) => [...data.names.keys()].filter((row) => data.names[row].toLowerCase().includes(text.trim().toLowerCase()))}
      spoken=${(/** @type {number} */ row) => `${data.names[row]}: ${words(row)}`}
      hint=${(/** @type {number} */ row) => html`<strong class="mono">${data.names[row]}</strong> ${words(row)}`}
      rest=${html`<span class="dim">${share(data.mean / 100)} of ${data.resource} requested on average, on ${plural(data.there, "node")}.</span>`} />` : html`<${Loading} />`}<//>`;
}

/** @param {{run: Run, at: number, filter: string, id: string}} props */
function Nodes({ run, at, filter, id }) {
  const pages = usePages("name", "asc", ROWS);
  const asked = useStill(filter, 200);
  const { data, error } = useData(`runs/${run.run}/nodes`, { ...pages.query, q: asked, at });
  return html`<${Card} title=${`As a table: ${title(run)}`} id=${id}>
    <${Problem} error=${error} />
    ${data ? html`<${Table} shape="wide" caption=${`Nodes of ${title(run)}`} sort=${pages.sort} order=${pages.order} onSort=${pages.onSort} rows=${data.rows} columns=${[
        { key: "name", label: "Node", sorts: true, cell: (/** @type {any} */ row) => html`<${NodeLink} name=${row.name} />` },
        ...run.resources.map((name) => ({ key: name, label: name, sorts: true, num: true, cell: (/** @type {any} */ row) => (row[name] === null ? "away" : share(row[name] / 100)) })),
      ]} /><${Pager} page=${data} limit=${ROWS} go=${pages.go} what=${`nodes of ${title(run)}`} />` : html`<${Loading} />`}<//>`;
}

const CHARTS = [
  ["fill", "How full", "%"],
  ["pods", "Pods", "pods"],
  ["causes", "Pending, by who turns them down", "pods"],
  ["fragmentation", "Left over where no usual pod fits", "%"],
  ["nodes", "Nodes", "nodes"],
  ["cost", "Cost", "an hour"],
];

/** @param {{runs: Run[], at: number}} props */
function Times({ runs, at }) {
  const first = useData(`runs/${runs[0].run}`, {}, { once: true });
  const second = useData(runs[1] ? `runs/${runs[1].run}` : null, {}, { once: true });
  const told = [first, ...(runs[1] ? [second] : [])];
  const error = told.find((each) => each.error)?.error;
  if (error) return html`<${Problem} error=${error} />`;
  if (told.some((each, n) => !each.data || each.data.run !== runs[n].run)) return html`<${Loading} />`;
  const shown = told.map((each) => each.data);
  /** The highest point in either run: only the same scale can be compared. @param {string} key */
  const high = (key) => shown.reduce((most, run) => Object.values(run.charts[key] || {}).flat().reduce((/** @type {number} */ a, b) => Math.max(a, Number(b)), most), 0);
  return html`${CHARTS.filter(([key]) => shown.some((run) => run.charts[key])).map(([key, name, unit]) => html`<div class="columns" key=${key}>
      ${shown.map((run, n) => html`<${Chart} key=${`${n} ${run.run}`} id=${`${key}-${n}`} title=${runs[1] ? `${name}: ${title(run)}` : name} unit=${unit} times=${run.time} series=${run.charts[key] || {}} at=${at} high=${high(key)} />`)}</div>`)}
    <${Figures} shown=${shown} />`;
}

/** @param {{shown: any[]}} props */
function Figures({ shown }) {
  const names = [...new Set(shown.flatMap((run) => Object.keys(run.figures)))];
  /** @param {any} value */
  const cell = (value) => (value === undefined ? "–" : number(value));
  const rows = names.map((name) => ({ name, values: shown.map((run) => run.figures[name]) }));
  return html`<${Card} title="Figures of the whole run" id="figures"><${Table} shape="wide" caption="Figures" rows=${rows} columns=${[
    { key: "name", label: "Figure" },
    ...shown.map((run, n) => ({ key: `run-${n}`, label: title(run), num: true, cell: (/** @type {any} */ row) => cell(row.values[n]) })),
    ...(shown[1] ? [{ key: "difference", label: "Difference", num: true, cell: (/** @type {any} */ row) => cell(row.values[0] === undefined || row.values[1] === undefined ? undefined : row.values[1] - row.values[0]) }] : []),
  ]} /><//>`;
}

/** @param {{runs: Run[], at: number, name: string}} props */
function OneNode({ runs, at, name }) {
  return html`<div class="columns">${runs.map((run, n) => html`<${NodeFill} key=${`${n} ${run.run}`} id=${`fill-${n}`} run=${run} at=${at} name=${name} />`)}</div>
    <p><a href="#/map">Back to the map</a></p>`;
}

/** @param {{run: Run, at: number, name: string, id: string}} props */
function NodeFill({ run, at, name, id }) {
  const { data, error } = useData(`runs/${run.run}/nodes/${encodeURIComponent(name)}`, {}, { once: true });
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Loading} />`;
  const parts = Object.fromEntries(Object.entries(data.fill).map(([resource, values]) => [resource, values.map((/** @type {number | null} */ value) => (value === null ? null : value / 100))]));
  return html`<${Chart} id=${id} title=${`How full: ${title(run)}`} unit="%" times=${data.time} series=${parts} at=${at} high=${1} />`;
}
