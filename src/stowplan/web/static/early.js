// Before anything else, while the modules are on their way: what the first picture needs is asked for.
(() => {
  /** @type {Map<string, Promise<Response>>} by address; `api.js` takes them from here */
  const begun = new Map();
  /** @type {any} */ (globalThis).stowplanBegun = begun;
  if (sessionStorage.getItem("world")) return;
  const isMap = /^(#\/?)?$|^#\/map$/.test(location.hash);
  for (const url of isMap ? ["api/", "api/map?resource=cpu"] : ["api/"]) {
    const answer = fetch(url);
    // Who takes it hears of a failure; of a simulation nobody takes the map.
    answer.catch(() => {});
    begun.set(url, answer);
  }
})();
