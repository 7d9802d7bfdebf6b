// The shell: heading, navigation, the world that is looked at, search, help, and the view.

import { Fragment, html, render, useEffect, useRef, useState } from "./lib.js";
import { get } from "./api.js";
import { connect } from "./stream.js";
import { enter, refresh, useData, useShared } from "./state.js";
import { clock, count, plural, time } from "./format.js";
import { Badge, Loading, nodeHref, podHref, useStill } from "./parts.js";
import { MapView } from "./views/map.js";
import { QueueView } from "./views/queue.js";
import { PodView, PodsView } from "./views/pod.js";
import { NodeView } from "./views/node.js";
import { WhatIfView } from "./views/what-if.js";
import { TimeView } from "./views/time.js";
import { EventsView } from "./views/events.js";
import { ReplayMap, ReplayNode, ReplayTime } from "./views/replay.js";

const VIEWS = [
  { at: "map", title: "Map", key: "m" },
  { at: "queue", title: "Queue", key: "q" },
  { at: "pods", title: "Pods", key: "p" },
  { at: "what-if", title: "What if", key: "w" },
  { at: "time", title: "Time", key: "t" },
  { at: "events", title: "Events", key: "e" },
];

const TITLES = Object.fromEntries(VIEWS.map((each) => [each.at, each.title]));
const SIMULATION = "simulation";

/** @returns {string[]} the parts of the address after `#/` */
function place() {
  const parts = location.hash.replace(/^#\/?/, "").split("?")[0].split("/").filter(Boolean).map(decode);
  return parts.length ? parts : ["map"];
}

/** @param {string} part */
function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Of a simulation, which has no queue and no decisions. @param {string[]} at */
function replayAt([view, first]) {
  if (view === "map") return { title: "Map", body: html`<${ReplayMap} />` };
  if (view === "time") return { title: "Time", body: html`<${ReplayTime} />` };
  if (view === "nodes" && first) return { title: `Node ${first}`, body: html`<${ReplayNode} key=${first} name=${first} />` };
  return { title: "Not found", body: html`<p>There is no such view of a simulation. <a href="#/map">Go to the map</a>.</p>` };
}

/** @param {string[]} at @param {any} about */
function viewAt(at, about) {
  if (!about) return { title: TITLES[at[0]] || "Stowplan", body: html`<${Loading} />` };
  if (about.kind === SIMULATION) return replayAt(at);
  const [view, first, second] = at;
  if (view === "map") return { title: "Map", body: html`<${MapView} />` };
  if (view === "queue") return { title: "Queue", body: html`<${QueueView} />` };
  if (view === "pods" && second) return { title: `Pod ${first}/${second}`, body: html`<${PodView} key=${`${first}/${second}`} name=${`${first}/${second}`} />` };
  if (view === "pods") return { title: "Pods", body: html`<${PodsView} />` };
  if (view === "nodes" && first) return { title: `Node ${first}`, body: html`<${NodeView} key=${first} name=${first} />` };
  if (view === "what-if") return { title: "What if", body: html`<${WhatIfView} />` };
  if (view === "time") return { title: "Time", body: html`<${TimeView} />` };
  if (view === "events") return { title: "Events", body: html`<${EventsView} />` };
  return { title: "Not found", body: html`<p>There is no such view. <a href="#/map">Go to the map</a>.</p>` };
}

function App() {
  const [at, setAt] = useState(place);
  const [help, setHelp] = useState(false);
  const heading = useRef(/** @type {HTMLElement | null} */ (null));
  const shared = useShared();
  const first = useRef(true);
  useEffect(() => {
    const move = () => setAt(place());
    addEventListener("hashchange", move);
    return () => removeEventListener("hashchange", move);
  }, []);
  const about = shared.about;
  const view = viewAt(at, about);
  const views = VIEWS.filter((each) => !about || about.views.includes(each.at));
  useEffect(() => {
    document.title = `${view.title} · Stowplan`;
  }, [view.title]);
  useEffect(() => {
    // On a narrow screen the views scroll.
    document.querySelector("nav.views [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (!first.current) {
      heading.current?.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
    first.current = false;
  }, [at.join("/")]);
  useEffect(() => {
    /** @param {KeyboardEvent} event */
    function press(event) {
      const target = /** @type {HTMLElement} */ (event.target);
      const writes = target.matches("input, textarea, select");
      if (event.key === "Escape" && help) setHelp(false);
      if (writes || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "/") {
        event.preventDefault();
        document.getElementById("search")?.focus();
      } else if (event.key === "?") {
        setHelp(true);
      } else {
        const named = views.find((each) => each.key === event.key);
        if (named) location.hash = `#/${named.at}`;
      }
    }
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [help, about?.kind]);
  return html`<div class=${`page ${shared.world ? "other-world" : ""}`}>
    <a class="skip" href="#main" onClick=${(/** @type {Event} */ e) => { e.preventDefault(); heading.current?.focus(); }}>Skip to the content</a>
    <header>
      <a class="brand" href="#/map"><img src="icon.svg" alt="" width="28" height="28" /><span>Stowplan</span></a>
      ${about?.kind === SIMULATION ? html`<div class="search"></div>` : html`<${Search} />`}
      <div class="source">
        <span class="source-name" title=${about?.note || ""}>${about ? about.name : "…"}</span>
        <${Connection} shared=${shared} />
        <button type="button" class="plain" aria-label="Help: keys and words" onClick=${() => setHelp(true)}>?</button>
      </div>
    </header>
    <nav class="views" aria-label="Views"><ul>${views.map((each) => html`<li key=${each.at}><a href=${`#/${each.at}`}
      aria-current=${at[0] === each.at || (each.at === "map" && at[0] === "nodes") ? "page" : undefined}>${each.title}</a></li>`)}</ul></nav>
    ${shared.world ? html`<${WorldBanner} shared=${shared} />` : null}
    <main id="main">
      ${shared.problem ? html`<div class="note bad" role="alert">${shared.since ? `What is shown was last heard of at ${time(shared.since)}; it is tried again. ` : null}${shared.problem}</div>` : null}
      <div class="title"><h1 ref=${heading} tabindex="-1">${view.title}</h1><${Summary} about=${about} /></div>
      ${view.body}
    </main>
    <div class="hidden" role="status" aria-live="polite">${shared.said}</div>
    ${help ? html`<${Help} close=${() => setHelp(false)} about=${about} />` : null}
  </div>`;
}

/** @param {{about: any}} props */
function Summary({ about }) {
  if (!about) return null;
  if (about.kind === SIMULATION) {
    return html`<ul class="summary" aria-label="The simulation"><li><strong>${count(about.runs)}</strong> ${about.runs === 1 ? "run" : "runs"}</li>
      <li>${about.configs.join(", ")}</li></ul>`;
  }
  const waiting = Object.values(about.lanes).reduce((sum, n) => sum + n, 0);
  return html`<ul class="summary" aria-label="The cluster now">
    <li><strong>${count(about.nodes)}</strong> nodes</li>
    <li><strong>${count(about.running)}</strong> pods placed</li>
    <li class=${waiting ? "attention" : ""}>${waiting ? html`<a href="#/queue"><strong>${count(waiting)}</strong> waiting</a>` : html`<strong>0</strong> waiting`}</li>
    ${about.live ? html`<li class="dim">${time(about.now)}</li>` : null}</ul>`;
}

/** @param {{shared: import("./state.js").State}} props */
function Connection({ shared }) {
  const live = shared.since ? `Not live since ${clock(shared.since)}` : shared.about?.live ? "Live" : "Loaded";
  const words = { connecting: "Connecting…", open: live, lost: "Connection lost, trying again…" };
  const kind = { connecting: "", open: shared.since ? "bad" : "good", lost: "bad" }[shared.connection];
  return html`<span role="status"><${Badge} kind=${kind}>${words[shared.connection]}<//></span>`;
}

/** @param {{shared: import("./state.js").State}} props */
function WorldBanner({ shared }) {
  const world = shared.about?.worlds?.find((/** @type {any} */ each) => each.id === shared.world);
  return html`<aside class="world" aria-label="Another world">
    <strong>You are looking at ${world ? world.name : shared.world}, not at the cluster.</strong>
    <span>${plural(world ? world.changes.length : 0, "change")}</span>
    <a href="#/what-if">Changes and difference</a>
    <button type="button" onClick=${() => enter("")}>Back to the cluster</button></aside>`;
}

function Search() {
  const [text, setText] = useState("");
  const [found, setFound] = useState(/** @type {any} */ (null));
  const [at, setAt] = useState(-1);
  const asked = useStill(text, 200);
  const { world } = useShared();
  useEffect(() => {
    setAt(-1);
    if (!asked.trim()) {
      setFound(null);
      return undefined;
    }
    const stop = new AbortController();
    Promise.all([get("search", { q: asked, world, limit: 8 }, stop.signal), get("nodes", { q: asked, world, limit: 6 }, stop.signal)])
      .then(([pods, nodes]) => setFound({ pods: pods.pods, podCount: pods.podCount, nodes: nodes.rows, nodeCount: nodes.total }))
      .catch(() => {});
    return () => stop.abort();
  }, [asked, world]);
  const entries = found
    ? [
        ...found.pods.map((/** @type {any} */ [key, node]) => ({ kind: "Pod", name: key, more: node || "waiting", href: podHref(key) })),
        ...found.nodes.map((/** @type {any} */ node) => ({ kind: "Node", name: node.name, more: node.zone, href: nodeHref(node.name) })),
      ]
    : [];
  /** @param {string} href */
  function go(href) {
    location.hash = href;
    setText("");
    setFound(null);
  }
  /** @param {KeyboardEvent} event */
  function press(event) {
    if (event.key === "Escape") {
      setText("");
      /** @type {HTMLElement} */ (event.target).blur();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      setAt((old) => Math.max(-1, Math.min(entries.length - 1, old + step)));
    } else if (event.key === "Enter" && entries.length) {
      go(entries[Math.max(0, at)].href);
    }
  }
  return html`<div class="search" role="search">
    <label class="hidden" for="search">Search pods and nodes</label>
    <input id="search" type="search" role="combobox" aria-expanded=${entries.length > 0 ? "true" : "false"} aria-controls="found" aria-autocomplete="list"
      aria-activedescendant=${at >= 0 ? `found-${at}` : undefined}
      placeholder="Search pods, nodes, labels, taints  ( / )" autocomplete="off" spellcheck="false" value=${text}
      onInput=${(/** @type {any} */ e) => setText(e.target.value)} onKeyDown=${press} />
    <ul id="found" role="listbox" aria-label="Found" class=${text && found ? "found" : "hidden"}>
      ${entries.map((each, n) => html`<li key=${each.href} id=${`found-${n}`} role="option" aria-selected=${n === at ? "true" : "false"}
        onMouseDown=${(/** @type {Event} */ e) => { e.preventDefault(); go(each.href); }}>
        <span class="dim">${each.kind}</span> <span class="mono">${each.name}</span> <span class="dim">${each.more}</span></li>`)}
      ${found && entries.length === 0 ? html`<li role="option" aria-selected="false" class="dim">Nothing found</li>` : null}
    </ul></div>`;
}

const KEYS = [["/", "search"], ["?", "this help"], ...VIEWS.map((each) => [each.key, each.title.toLowerCase()]), ["arrows, Enter", "on the map: move, open the node"], ["arrows", "on the slider of a simulation: one sample on or back"], ["Esc", "close"]];
const WORDS = [
  ["Fork", "another cluster that is as this one is now, and goes its own way. Only forks can be changed here."],
  ["Unschedulable", "no node takes the pod; it is tried again when something changes that may help."],
  ["Backoff", "it failed a moment ago and waits a little before it is tried again."],
  ["Gated", "something holds it back before any node is looked at."],
  ["Permit", "it has a node, and a plugin has yet to allow it."],
];

/** @param {{close: () => void, about: any}} props */
function Help({ close, about }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const remarks = useData("remarks", {}, { once: true }).data?.remarks || [];
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return html`<dialog ref=${dialog} onClose=${close} aria-labelledby="help-title">
    <div class="card-head"><h2 id="help-title">Help</h2><button type="button" onClick=${() => dialog.current?.close()}>Close</button></div>
    <h3>Keys</h3><dl class="keys">${KEYS.map(([key, what]) => html`<${Fragment} key=${key}><dt><kbd>${key}</kbd></dt><dd>${what}</dd><//>`)}</dl>
    <h3>Words</h3><dl>${WORDS.map(([word, what]) => html`<${Fragment} key=${word}><dt>${word}</dt><dd>${what}</dd><//>`)}</dl>
    ${about ? html`<p class="dim">${about.note} Stowplan ${about.stowplan}.</p>` : null}
    ${remarks.length ? html`<h3>Remarks on the input</h3><ul>${remarks.map((/** @type {any} */ remark) => html`<li key=${remark.text}>${remark.text}${remark.hint ? html` <span class="dim">${remark.hint}</span>` : null}</li>`)}</ul>` : null}
  </dialog>`;
}

connect();
refresh();
render(html`<${App} />`, /** @type {Element} */ (document.getElementById("app")));
