// The JSON API: one function per method; what goes wrong is an ApiError in the server's words.

export class ApiError extends Error {
  /** @param {number} status @param {{error?: string, where?: string, hint?: string}} told */
  constructor(status, told) {
    super([told.where, told.error || `the server answered ${status}`].filter(Boolean).join(": "));
    this.status = status;
    this.hint = told.hint || "";
  }
}

const BASE = "api/";

/** @type {Map<string, Promise<Response>>} what `early.js` has asked for already */
const begun = /** @type {any} */ (globalThis).stowplanBegun;

/**
 * @param {string} path below `/ui/api/`, its parts escaped
 * @param {Record<string, string | number | boolean | undefined>} [query]
 */
export function address(path, query = {}) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "" && value !== false) search.set(name, String(value));
  }
  const text = search.toString();
  return BASE + path + (text ? `?${text}` : "");
}

/** @param {Response} response @returns {Promise<any>} */
async function read(response) {
  let told;
  try {
    told = await response.json();
  } catch (error) {
    // A failure may come without JSON; an answer that broke off is no answer.
    if (response.ok) throw error;
    told = {};
  }
  if (!response.ok) throw new ApiError(response.status, told);
  return told;
}

/** @param {string} path @param {Record<string, any>} [query] @param {AbortSignal} [signal] */
export async function get(path, query, signal) {
  const url = address(path, query);
  const early = begun.get(url);
  begun.delete(url);
  return read(await (early || fetch(url, { signal })));
}

/** @param {string} path @param {object} [body] @param {Record<string, any>} [query] */
export async function post(path, body = {}, query = {}) {
  const headers = { "Content-Type": "application/json" };
  return read(await fetch(address(path, query), { method: "POST", headers, body: JSON.stringify(body) }));
}

/** @param {string} path */
export async function remove(path) {
  return read(await fetch(address(path), { method: "DELETE" }));
}

/** @param {string} key `namespace/name` @returns {string} the path of a pod */
export function podPath(key) {
  const at = key.indexOf("/");
  return `pods/${encodeURIComponent(key.slice(0, at))}/${encodeURIComponent(key.slice(at + 1))}`;
}
