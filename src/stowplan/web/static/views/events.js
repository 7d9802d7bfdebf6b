// Events and log: what was reported, and what the scheduler decided and wrote, the newest first.

import { html, useState } from "../lib.js";
import { useData, useShared } from "../state.js";
import { count, stamp, time } from "../format.js";
import { Badge, Loading, NodeLink, Pager, PodLink, Problem, SearchField, Table, useStill } from "../parts.js";

const LIMIT = 100;

export function EventsView() {
  const { about } = useShared();
  return html`${about?.kind === "beside" ? html`<${Opinions} />` : null}<${Events} />${about?.kind === "beside" ? null : html`<${LogLines} />`}`;
}

const OUTCOMES = /** @type {Record<string, [string, string]>} */ ({ same: ["the same node", "good"], equal: ["equally good", "good"], different: ["different", "warn"] });

/** Beside another scheduler: where ours would have put what that one placed. */
function Opinions() {
  const [offset, setOffset] = useState(0);
  const { data, error } = useData("opinions", { offset, limit: LIMIT });
  return html`<section class="card" aria-labelledby="opinions-title"><h2 id="opinions-title">Second opinion on what was placed</h2>
    <${Problem} error=${error} />
    ${data ? html`<p>${Object.keys(OUTCOMES).map((name) => html`<span key=${name} class="nowrap"><strong>${count(data.counts[name] || 0)}</strong> ${OUTCOMES[name][0]}  </span>`)}</p>
      <${Table} caption="Decisions of the cluster's scheduler, and ours" rows=${data.rows} empty="Nothing was placed since this page's server began to watch." columns=${[
        { key: "time", label: "Time", cell: (/** @type {any} */ row) => html`<span class="nowrap">${time(row.time)}</span>` },
        { key: "pod", label: "Pod", cell: (/** @type {any} */ row) => html`<${PodLink} name=${row.pod} />` },
        { key: "node", label: "Went to", cell: (/** @type {any} */ row) => html`<${NodeLink} name=${row.node} />` },
        { key: "outcome", label: "Ours", cell: (/** @type {any} */ row) => html`<${Opinion} row=${row} />` },
      ]} /><${Pager} page=${data} limit=${LIMIT} go=${setOffset} what="decisions" />` : html`<${Loading} />`}</section>`;
}

/** @param {{row: any}} props */
export function Opinion({ row }) {
  const [text, kind] = OUTCOMES[row.outcome];
  return html`<${Badge} kind=${kind}>${text}<//> ${row.outcome === "equal" ? html`one of ${count(row.bestCount)}` : null}${row.outcome === "different"
    ? html`${row.ours ? html`<${NodeLink} name=${row.ours} />` : row.problem}${row.reason ? html`<div class="why dim">${row.reason.cause}: ${row.reason.text}</div>` : null}` : null}`;
}

function Events() {
  const [text, setText] = useState("");
  const [offset, setOffset] = useState(0);
  const asked = useStill(text, 250);
  const { data, error } = useData("events", { q: asked, offset, limit: LIMIT });
  return html`<section class="card" aria-labelledby="events-title"><h2 id="events-title">Events</h2><div class="controls">
      <${SearchField} id="event-filter" name="q" label="Show only" value=${text} onInput=${(/** @type {string} */ t) => { setText(t); setOffset(0); }} placeholder="pod, node, reason or words" /></div>
    <${Problem} error=${error} />
    ${data ? html`<${Table} caption="Events, the newest first" rows=${data.rows} columns=${[
        { key: "time", label: "Time", cell: (/** @type {any} */ row) => html`<span class="nowrap">${stamp(row.time)}</span>` },
        { key: "reason", label: "Reason", cell: (/** @type {any} */ row) => html`<${Badge} kind=${row.type === "Warning" ? "warn" : ""}>${row.reason}<//>` },
        { key: "object", label: "Object", cell: (/** @type {any} */ row) => row.kind === "Pod" ? html`<${PodLink} name=${row.object} />` : row.kind === "Node" ? html`<${NodeLink} name=${row.object} />` : html`<span class="mono">${row.kind} ${row.object}</span>` },
        { key: "node", label: "Node", cell: (/** @type {any} */ row) => (row.node ? html`<${NodeLink} name=${row.node} />` : "") },
        { key: "note", label: "What happened", cell: (/** @type {any} */ row) => html`<div class="why">${row.note}</div>` },
      ]} /><${Pager} page=${data} limit=${LIMIT} go=${setOffset} what="events" />` : html`<${Loading} />`}</section>`;
}

function LogLines() {
  const [text, setText] = useState("");
  const [offset, setOffset] = useState(0);
  const asked = useStill(text, 250);
  const { data, error } = useData("log", { q: asked, offset, limit: LIMIT });
  return html`<section class="card" aria-labelledby="log-title"><h2 id="log-title">Log of the scheduler</h2>
    <p class="dim">Its latest decisions, and the lines it wrote.</p><div class="controls">
      <${SearchField} id="log-filter" name="log" label="Show only lines with" value=${text} onInput=${(/** @type {string} */ t) => { setText(t); setOffset(0); }} placeholder="pod, node or words" /></div>
    <${Problem} error=${error} />
    ${data ? html`<${Table} caption="Lines of the log, the newest first" rows=${data.rows} empty="Nothing yet." columns=${[
        { key: "time", label: "Time", cell: (/** @type {any} */ row) => html`<span class="nowrap">${time(row.time)}</span>` },
        { key: "pod", label: "Pod", cell: (/** @type {any} */ row) => (row.pod ? html`<${PodLink} name=${row.pod} />` : "") },
        { key: "node", label: "Node", cell: (/** @type {any} */ row) => (row.node ? html`<${NodeLink} name=${row.node} />` : "") },
        { key: "text", label: "What it says", cell: (/** @type {any} */ row) => html`<div class="why">${row.severity === "I" ? null : html`<${Badge} kind="warn">${row.severity === "E" ? "error" : "warning"}<//> `}${row.text}</div>` },
      ]} /><${Pager} page=${data} limit=${LIMIT} go=${setOffset} what="lines" />` : html`<${Loading} />`}</section>`;
}
