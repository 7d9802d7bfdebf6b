// A pod: where it stands, why, what would help, and every attempt as a table of nodes by plugins.

import { html, useState } from "../lib.js";
import { get, podPath, post } from "../api.js";
import { enter, refresh, set, useData, useShared } from "../state.js";
import { amount, count, plural, time, unit } from "../format.js";
import { Opinion } from "./events.js";
import { Badge, Card, Loading, NodeLink, Pager, PodLink, Problem, SearchField, Table, usePages, useStill } from "../parts.js";

const LIMIT = 50;

export function PodsView() {
  const [text, setText] = useState("");
  const [state, setState] = useState("");
  const [offset, setOffset] = useState(0);
  const asked = useStill(text, 250);
  const { data, error } = useData("pods", { q: asked, state, offset, limit: LIMIT });
  return html`<section class="card" aria-label="All pods"><div class="controls">
      <${SearchField} id="pod-filter" name="q" label="Name" value=${text} onInput=${(/** @type {string} */ t) => { setText(t); setOffset(0); }} placeholder="part of namespace/name" />
      <div class="field"><label for="pod-state">State</label><select id="pod-state" value=${state} onChange=${(/** @type {any} */ e) => { setState(e.target.value); setOffset(0); }}>
        <option value="">all</option><option value="pending">pending</option><option value="placed">placed</option></select></div></div>
    <${Problem} error=${error} />
    ${data ? html`<${Table} caption="Pods" rows=${data.rows} columns=${[
        { key: "pod", label: "Pod", cell: (/** @type {any} */ row) => html`<${PodLink} name=${row.pod} />` },
        { key: "node", label: "Node", cell: (/** @type {any} */ row) => html`<${NodeLink} name=${row.node} />` },
        { key: "phase", label: "Phase", cell: (/** @type {any} */ row) => html`<${Badge} kind=${row.node ? "good" : "warn"}>${row.phase}<//>` },
        { key: "priority", label: "Priority", num: true, cell: (/** @type {any} */ row) => count(row.priority) },
      ]} /><${Pager} page=${data} limit=${LIMIT} go=${setOffset} what="pods" />` : html`<${Loading} />`}</section>`;
}

/** @param {{name: string}} props */
export function PodView({ name }) {
  const { about } = useShared();
  const { data, error } = useData(podPath(name));
  const [chosen, setChosen] = useState(/** @type {number | null} */ (null));
  if (error && !data) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Loading} />`;
  const last = data.attempts.length - 1;
  const position = chosen === null || chosen > last ? last : chosen;
  const attempt = data.attempts[position];
  return html`<${Standing} pod=${data} />
    ${about?.kind === "beside" ? html`<${SecondOpinion} pod=${data} />` : null}
    ${data.node || data.ours ? null : html`<${Why} name=${name} />`}
    ${data.attempts.length ? html`<${Card} title="Attempts" id="attempts">
      <ol class="attempts">${data.attempts.map((/** @type {any} */ each) => html`<li key=${each.position}><button type="button" class="attempt" aria-pressed=${each.position === position ? "true" : "false"} onClick=${() => setChosen(each.position)}>
        <span class="attempt-n">${each.attempt || each.position + 1}</span><span>${each.node ? html`placed on <span class="mono">${each.node}</span>` : each.nominated ? html`makes room on <span class="mono">${each.nominated}</span>` : each.gated ? "held back" : "no node"}</span><span class="dim">${time(each.time)}</span></button></li>`)}</ol>
      <${Attempt} attempt=${attempt} />
      ${attempt.gated ? null : html`<${DecisionTable} key=${position} name=${name} position=${position} attempt=${attempt} />`}<//>`
      : html`<p class="note">There is no decision on this pod here: it came with its node, or nobody has tried it.</p>`}
    <${WhyNot} name=${name} placed=${Boolean(data.node)} />
    <${Manifest} kind="Pod" name=${name} />`;
}

/** Beside the cluster's own scheduler: what ours says. @param {{pod: any}} props */
function SecondOpinion({ pod }) {
  const { data } = useData("opinions", { pod: pod.pod });
  const judged = data?.rows[0];
  return html`<${Card} title="Second opinion" id="opinion"><p>${pod.node
    ? judged ? html`Its scheduler put it on <${NodeLink} name=${judged.node} />; ours: <${Opinion} row=${judged} />` : "It was placed before this page's server began to watch: there is no opinion on it."
    : pod.ours ? html`It waits in the cluster. Ours would put it on <${NodeLink} name=${pod.ours} />, as the attempt below shows.` : "Ours finds no node for it either."}</p><//>`;
}

/** @param {{pod: any}} props */
function Standing({ pod }) {
  const places = { active: "waits for its turn", backoff: "waits before the next try", unschedulable: "fits nowhere", gated: `is held back by ${pod.gatedBy}`, permit: "waits at Permit", bound: "is placed", "in flight": "is being decided" };
  return html`<section class="card facts" aria-label="Where it stands">
    <div><span class="label">State</span><${Badge} kind=${pod.node ? "good" : "warn"}>${pod.node ? pod.phase : "Pending"}<//> <span>${/** @type {any} */ (places)[pod.place] || "is not this scheduler's"}</span></div>
    <div><span class="label">Node</span><${NodeLink} name=${pod.node || pod.nominated} />${pod.nominated && !pod.node ? html` <span class="dim">nominated</span>` : null}</div>
    ${pod.position ? html`<div><span class="label">In the queue</span>number ${count(pod.position)}</div>` : null}
    <div><span class="label">Requests</span>${Object.entries(pod.requests).map(([resource, value]) => `${resource} ${amount(resource, /** @type {number} */ (value))} ${unit(resource)}`.trim()).join(", ") || "nothing"}</div>
    <div><span class="label">Priority</span>${count(pod.priority)}</div>
    <div><span class="label">Scheduler</span><span class="mono">${pod.profile}</span></div></section>`;
}

/** @param {{name: string}} props */
function Why({ name }) {
  const { world } = useShared();
  const quick = useData(`${podPath(name)}/why`, { fixes: 0 }, { once: true });
  const [asked, setAsked] = useState(true);
  const fixes = useData(asked ? `${podPath(name)}/why` : null, {}, { once: true });
  const [busy, setBusy] = useState("");
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  /** @param {any} fix */
  async function apply(fix) {
    setBusy(fix.title);
    setProblem(null);
    try {
      const id = world || (await post("worlds")).id;
      await post(`worlds/${id}/changes`, { verb: "fix", pod: name, title: fix.title });
      await enter(id);
      location.hash = "#/what-if";
    } catch (error) {
      setProblem(error);
      await refresh();
    }
    setBusy("");
  }
  return html`<${Card} title="Why it has no node" id="why">
      <${Problem} error=${quick.error} />
      ${quick.data ? html`<p class="lead">${quick.data.message}</p><ul class="causes">${quick.data.causes.map((/** @type {any} */ cause) => html`<li key=${cause.plugin + cause.reason + cause.detail}>
        <div><${Badge}>${cause.plugin}<//> ${cause.nodesCount ? html`turns down <strong>${plural(cause.nodesCount, "node")}</strong>: ` : null}${cause.reason}</div>
        ${cause.detail ? html`<div>${cause.detail}</div>` : null}
        ${cause.nearMissesCount ? html`<div class="dim">Only this stands in the way on ${cause.nearMisses.slice(0, 3).map((/** @type {string} */ node, /** @type {number} */ n) => html`${n ? ", " : ""}<${NodeLink} key=${node} name=${node} />`)}${cause.nearMissesCount > 3 ? ` and ${count(cause.nearMissesCount - 3)} more` : ""}.</div>` : null}</li>`)}</ul>`
        : quick.error ? null : html`<${Loading} />`}<//>
    <${Card} title="What would help" id="help" actions=${fixes.data ? html`<button type="button" onClick=${fixes.reload}>Ask again</button>` : null}>
      ${asked ? null : html`<button type="button" onClick=${() => setAsked(true)}>Find out</button>`}
      <${Problem} error=${fixes.error || problem} />
      ${asked && !fixes.data && !fixes.error ? html`<${Loading} text="Trying changes on forks…" />` : null}
      ${fixes.data ? fixes.data.fixes.length
        ? html`<p class="dim">Each was tried on a fork and seen to work; the cluster itself is not changed.</p><ol class="fixes">${fixes.data.fixes.map((/** @type {any} */ fix) => html`<li key=${fix.title}><div class="fix-text"><strong>${fix.title}</strong>
          <div>then it goes to <span class="mono">${fix.node}</span>${fix.evicts.length ? html`, and evicts ${fix.evicts.join(", ")}` : ""}</div>
          ${fix.moves.length ? html`<ul class="dim">${fix.moves.slice(0, 5).map((/** @type {string} */ move) => html`<li key=${move}>${move}</li>`)}</ul>` : null}</div>
          <button type="button" class="primary" disabled=${busy !== ""} onClick=${() => apply(fix)} aria-label=${`Try it in a fork: ${fix.title}`}>${busy === fix.title ? "Forking…" : "Try it in a fork"}</button></li>`)}</ol>`
        : html`<p>None of the changes that were tried helps${fixes.data.tried.length ? `: ${fixes.data.tried.slice(0, 5).join("; ")}` : ""}.</p>` : null}<//>`;
}

/** @param {any[]} parts */
const listed = (parts) => parts.map((part, n) => html`${n ? ", " : ""}${part}`);

/** @param {{attempt: any}} props */
function Attempt({ attempt }) {
  return html`<div class="attempt-told">
    ${attempt.message ? html`<p>${attempt.message}</p>` : null}
    ${attempt.score !== null ? html`<p>The chosen node has ${count(attempt.score)} points.</p>` : null}
    ${attempt.preemption || attempt.victims.length ? html`<div class="note"><strong>Preemption</strong>
      ${attempt.victims.length ? html`<p>Evicted to make room on <${NodeLink} name=${attempt.nominated} />: ${listed(attempt.victims.map((/** @type {any} */ each) => each.isThere ? html`<${PodLink} name=${each.pod} />` : html`<span class="mono">${each.pod}</span>`))}.</p>
        <p>Spared there, though of less priority: ${attempt.sparedCount ? listed(attempt.spared.map((/** @type {any} */ each) => html`<${PodLink} name=${each.pod} /> (${count(each.priority)})`)) : "nobody"}${attempt.sparedCount > attempt.spared.length ? ` and ${count(attempt.sparedCount - attempt.spared.length)} more` : ""}.</p>` : null}
      ${attempt.preemption ? html`<p>${attempt.preemption}</p>` : null}</div>` : null}</div>`;
}

/** @param {{name: string, position: number, attempt: any}} props */
function DecisionTable({ name, position, attempt }) {
  const pages = usePages("", "desc", LIMIT);
  const [text, setText] = useState("");
  const [form, setForm] = useState("weighted");
  const asked = useStill(text, 250);
  const { data, error, loading } = useData(attempt.hasDetail ? `${podPath(name)}/attempts/${position}` : null, { ...pages.query, q: asked, form }, { once: true });
  if (!attempt.hasDetail) return html`<p class="note">What every plugin said is not remembered any more for this attempt.</p>`;
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Loading} />`;
  const scores = data.plugins.map((/** @type {string} */ plugin, /** @type {number} */ n) => ({
    key: plugin,
    label: html`<span class="plugin-head">${plugin.split(/(?=[A-Z][a-z])/).map((word) => html`${word}<wbr />`)}<span class="dim"> ×${data.weights[plugin]}</span></span>`,
    num: true,
    sorts: true,
    cell: (/** @type {any} */ row) => (row.scores.length ? count(row.scores[n]) : ""),
  }));
  return html`<div class="decision" aria-busy=${loading ? "true" : "false"}>
    <h3>Nodes by plugins</h3>
    <p>${count(data.passed)} of ${count(data.passed + data.rejected)} nodes passed every filter.${Object.keys(data.byPlugin).length ? html` Turned down by ${Object.entries(data.byPlugin).map(([plugin, n], at) => html`${at ? ", " : ""}<strong>${plugin}</strong> ${count(/** @type {number} */ (n))}`)}.` : null}</p>
    <div class="controls">
      <${SearchField} id="decision-filter" name="q" label="Show only" value=${text} onInput=${(/** @type {string} */ t) => { setText(t); pages.go(0); }} placeholder="node, plugin or reason" />
      ${data.plugins.length ? html`<div class="field"><label for="score-form">Scores</label><select id="score-form" value=${form} onChange=${(/** @type {any} */ e) => setForm(e.target.value)}>
        <option value="weighted">weighted</option><option value="normalised">normalised</option><option value="raw">raw</option></select></div>` : null}</div>
    <${Table} caption="Nodes by plugins" shape=${data.plugins.length ? "wide" : "stacks"} rows=${data.rows} sort=${pages.sort || "total"} order=${pages.order} onSort=${pages.onSort}
      mark=${(/** @type {any} */ row) => (row.chosen ? "chosen" : row.plugin ? "rejected" : "")} columns=${[
        { key: "node", label: "Node", sorts: true, cell: (/** @type {any} */ row) => html`<${NodeLink} name=${row.node} />${row.chosen ? html` <${Badge} kind="good">chosen<//>` : null}` },
        { key: "plugin", label: "Turned down by", sorts: true, cell: (/** @type {any} */ row) => row.plugin ? html`<${Badge} kind="warn">${row.plugin}<//>` : html`<span class="dim">nobody</span>` },
        { key: "reasons", label: "Why", sorts: true, cell: (/** @type {any} */ row) => row.reasons.join(", ") },
        ...(data.plugins.length ? [{ key: "total", label: "Total", num: true, sorts: true, cell: (/** @type {any} */ row) => (row.total === null ? "" : html`<strong>${count(row.total)}</strong>`) }, ...scores] : []),
      ]} />
    <${Pager} page=${data} limit=${LIMIT} go=${pages.go} what="nodes" /></div>`;
}

/** @param {{name: string, placed: boolean}} props */
function WhyNot({ name, placed }) {
  const { world } = useShared();
  const [node, setNode] = useState("");
  const [told, setTold] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  const names = useData("nodes", { limit: 200, q: useStill(node, 250) }, { once: true });
  /** @param {Event} event */
  async function ask(event) {
    event.preventDefault();
    setBusy(true);
    setError(null);
    setTold(null);
    try {
      setTold({ node, ...(await get(`${podPath(name)}/why-not/${encodeURIComponent(node.trim())}`, { world })), asked: node.trim() });
    } catch (problem) {
      setError(problem);
    }
    setBusy(false);
  }
  return html`<${Card} title="Why not this node?" id="why-not">
    <form class="controls" onSubmit=${ask}><div class="field"><label for="other">Node</label><input id="other" list="other-nodes" value=${node} required autocomplete="off" onInput=${(/** @type {any} */ e) => setNode(e.target.value)} />
      <datalist id="other-nodes">${(names.data?.rows || []).map((/** @type {any} */ each) => html`<option key=${each.name} value=${each.name}></option>`)}</datalist></div>
      <button type="submit" disabled=${busy || !node.trim()}>${busy ? "Asking…" : "Ask"}</button></form>
    <${Problem} error=${error} />
    <div aria-live="polite">${told ? placed
      ? html`<pre class="told">${told.text.join("\n")}</pre>${Object.keys(told.compared?.scores || {}).length ? html`<${Compared} told=${told} />` : null}`
      : told.objections.length
        ? html`<p>Asked one by one, these turn down <${NodeLink} name=${told.asked} />:</p><ul>${told.objections.map((/** @type {any} */ each) => html`<li key=${each.plugin}><${Badge} kind="warn">${each.plugin}<//> ${each.reasons.join(", ")}</li>`)}</ul>`
        : html`<p>Nobody turns down <${NodeLink} name=${told.asked} /> as it is now.</p>` : null}</div><//>`;
}

/** @param {{told: any}} props */
function Compared({ told }) {
  const [mine, others] = [told.compared.scores[told.compared ? told.node : ""], told.compared.scores[told.compared.node]];
  if (!mine || !others) return null;
  return html`<${Table} caption="Scores side by side" shape="small" rows=${Object.keys(mine).map((plugin) => ({ plugin, mine: mine[plugin], others: others[plugin] }))} columns=${[
    { key: "plugin", label: "Plugin" },
    { key: "mine", label: told.node, num: true },
    { key: "others", label: told.compared.node, num: true },
  ]} />`;
}

/** @param {{kind: string, name: string}} props */
export function Manifest({ kind, name }) {
  const [open, setOpen] = useState(false);
  const { data, error } = useData(open ? "manifest" : null, { kind, name }, { once: true });
  function edit() {
    set({ draft: { verb: "edit", text: data.text } });
    location.hash = "#/what-if";
  }
  return html`<${Card} title="Manifest" id="manifest" actions=${html`<button type="button" aria-expanded=${open ? "true" : "false"} onClick=${() => setOpen(!open)}>${open ? "Hide" : "Show"}</button>`}>
    <${Problem} error=${error} />
    ${open && data ? html`<pre class="code" tabindex="0" aria-label=${`Manifest of ${name}`}>${data.text}</pre><button type="button" onClick=${edit}>Edit it in a fork</button>` : null}<//>`;
}
