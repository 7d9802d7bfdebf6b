// What all views share: the cluster's summary, the connection, the world that is looked at.

import { useEffect, useRef, useState } from "./lib.js";
import { get } from "./api.js";

/**
 * @typedef {object} State
 * @property {any} about what the source says of itself, or null before the first answer
 * @property {string} world the fork that is looked at; empty: the cluster itself
 * @property {number} version goes up with every change that a view may want to see
 * @property {"connecting" | "open" | "lost"} connection
 * @property {string} problem why nothing is heard of the cluster; empty while all is well
 * @property {number} since when that began, in seconds
 * @property {string} said for the screen reader
 * @property {{verb: string, text: string} | null} draft a manifest on its way to the editor
 */

/** @type {State} */
let state = {
  about: null,
  world: sessionStorage.getItem("world") || "",
  version: 0,
  connection: "connecting",
  problem: "",
  since: 0,
  said: "",
  draft: null,
};
/** @type {Set<(state: State) => void>} */
const listeners = new Set();

/** @param {Partial<State>} changes */
export function set(changes) {
  state = { ...state, ...changes };
  for (const tell of listeners) tell(state);
}

export function current() {
  return state;
}

/** @returns {State} */
export function useShared() {
  const [seen, see] = useState(state);
  useEffect(() => {
    listeners.add(see);
    see(state);
    return () => {
      listeners.delete(see);
    };
  }, []);
  return seen;
}

/** @param {string} text */
export function say(text) {
  set({ said: text });
}

/** Look at a fork, or with "" at the cluster. @param {string} world */
export function enter(world) {
  sessionStorage.setItem("world", world);
  set({ world, version: state.version + 1 });
  return refresh();
}

/** Ask anew what stands above every view. */
export async function refresh() {
  try {
    const about = await get("", { world: state.world });
    set({ about, problem: about.problem, since: about.since });
  } catch (error) {
    if (state.world && error instanceof Error && "status" in error && error.status === 404) {
      // The fork is gone: the server began anew.
      sessionStorage.setItem("world", "");
      set({ world: "" });
      await refresh();
    } else {
      set({ problem: error instanceof Error ? error.message : String(error) });
    }
  }
}

const REFRESH_MS = 1000;

/**
 * The answer at a path, asked again when something changed, once a second at most.
 * @param {string | null} path
 * @param {Record<string, any>} [query]
 * @param {{once?: boolean}} [options] `once`: not again by itself
 */
export function useData(path, query = {}, options = {}) {
  const { version, world } = useShared();
  const [answer, setAnswer] = useState(/** @type {{data: any, error: any, of: string}} */ ({ data: null, error: null, of: "" }));
  const [again, setAgain] = useState(0);
  const key = `${path} ${JSON.stringify(query)} ${world}`;
  const last = useRef(0);
  useEffect(() => {
    if (path === null) return undefined;
    const stop = new AbortController();
    const wait = answer.of === key ? Math.max(0, last.current + REFRESH_MS - performance.now()) : 0;
    const timer = setTimeout(async () => {
      last.current = performance.now();
      try {
        const data = await get(path, { ...query, world }, stop.signal);
        setAnswer({ data, error: null, of: key });
      } catch (error) {
        if (!stop.signal.aborted) setAnswer((old) => ({ data: old.of === key ? old.data : null, error, of: key }));
      }
    }, wait);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [key, options.once ? 0 : version, again]);
  const fresh = answer.of === key;
  return {
    data: answer.data,
    error: fresh ? answer.error : null,
    loading: !fresh,
    reload: () => setAgain((n) => n + 1),
  };
}
