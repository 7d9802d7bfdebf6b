// The stream of changes: who listens is told; a lost connection is shown, and comes back.

import { current, refresh, set } from "./state.js";

/** @type {Set<(event: string, data: any) => void>} */
const listeners = new Set();

/** @param {(event: string, data: any) => void} listener @returns {() => void} how to stop */
export function listen(listener) {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

const EVENTS = ["reload", "nodes", "beat", "problem"];
const AGAIN_MS = 1000;
const SILENT_MS = 15000;

let connected = false;

/** Keeps one connection, for as long as the page is there. */
export function connect() {
  const source = new EventSource("api/stream");
  let heard = performance.now();
  /** @param {string} name @param {MessageEvent} message */
  function hear(name, message) {
    heard = performance.now();
    const data = JSON.parse(message.data);
    const before = current();
    const heardOf = data.problem === undefined ? {} : { problem: data.problem, since: data.since };
    if (data.summary && before.about && !before.world) {
      set({ about: { ...before.about, ...data.summary }, ...heardOf });
    } else if (data.problem !== undefined) {
      set(heardOf);
    }
    if ((name === "nodes" && data.version !== undefined) || name === "reload") {
      set({ version: current().version + 1 });
    }
    for (const tell of listeners) tell(name, data);
  }
  for (const name of EVENTS) source.addEventListener(name, (message) => hear(name, /** @type {MessageEvent} */ (message)));
  source.addEventListener("hello", () => {
    heard = performance.now();
    // What was asked for before may have changed meanwhile, unheard.
    const late = current().about !== null && (connected || current().about.live);
    connected = true;
    set({ connection: "open" });
    if (!late) return;
    set({ version: current().version + 1 });
    refresh();
    for (const tell of listeners) tell("again", {});
  });
  const looking = setInterval(() => {
    if (performance.now() - heard > SILENT_MS) lost();
  }, 1000);
  function lost() {
    source.close();
    clearInterval(looking);
    set({ connection: "lost" });
    setTimeout(connect, AGAIN_MS);
  }
  source.addEventListener("error", lost);
}
