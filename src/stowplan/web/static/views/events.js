// Events: what the scheduler and the controllers reported, the newest first.

import { html, useState } from "../lib.js";
import { useData } from "../state.js";
import { stamp } from "../format.js";
import { Badge, Loading, NodeLink, Pager, PodLink, Problem, SearchField, Table, useStill } from "../parts.js";

const LIMIT = 100;

export function EventsView() {
  const [text, setText] = useState("");
  const [offset, setOffset] = useState(0);
  const asked = useStill(text, 250);
  const { data, error } = useData("events", { q: asked, offset, limit: LIMIT });
  return html`<section class="card" aria-label="All events"><div class="controls">
      <${SearchField} id="event-filter" name="q" label="Show only" value=${text} onInput=${(/** @type {string} */ t) => { setText(t); setOffset(0); }} placeholder="pod, node, reason or words" /></div>
    <${Problem} error=${error} />
    ${data ? html`<${Table} caption="Events" rows=${data.rows} columns=${[
        { key: "time", label: "Time", cell: (/** @type {any} */ row) => html`<span class="nowrap">${stamp(row.time)}</span>` },
        { key: "reason", label: "Reason", cell: (/** @type {any} */ row) => html`<${Badge} kind=${row.type === "Warning" ? "warn" : ""}>${row.reason}<//>` },
        { key: "object", label: "Object", cell: (/** @type {any} */ row) => row.kind === "Pod" ? html`<${PodLink} name=${row.object} />` : row.kind === "Node" ? html`<${NodeLink} name=${row.object} />` : html`<span class="mono">${row.kind} ${row.object}</span>` },
        { key: "note", label: "What happened", cell: (/** @type {any} */ row) => html`<div class="why">${row.note}</div>` },
      ]} /><${Pager} page=${data} limit=${LIMIT} go=${setOffset} what="events" />` : html`<${Loading} />`}</section>`;
}
