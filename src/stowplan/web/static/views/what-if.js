// What if: a fork of the cluster, changes made to it, and the difference they make.

import { html, useEffect, useState } from "../lib.js";
import { post, remove } from "../api.js";
import { current, enter, refresh, say, set, useData, useShared } from "../state.js";
import { count, plural, share } from "../format.js";
import { Badge, Card, Loading, NodeLink, PodLink, Problem, Table, useStill } from "../parts.js";

const FILE_MAX = 900_000;

export function WhatIfView() {
  const { about, world } = useShared();
  const [error, setError] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  const [over, setOver] = useState(false);
  const [serial, setSerial] = useState(0);

  async function fork() {
    const made = await post("worlds");
    await enter(made.id);
    return made.id;
  }
  /** @param {object} body */
  async function change(body) {
    setBusy(true);
    setError(null);
    try {
      const id = current().world || (await fork());
      const told = await post(`worlds/${id}/changes`, body);
      say(`${told.changes[told.changes.length - 1]}: pending ${told.pendingBefore} before, ${told.pendingAfter} after`);
      await refresh();
      setSerial((n) => n + 1);
      setBusy(false);
      return true;
    } catch (problem) {
      setError(problem);
      await refresh();
      setBusy(false);
      return false;
    }
  }
  /** @param {FileList | null | undefined} files */
  async function take(files) {
    const texts = [];
    for (const file of files || []) {
      if (file.size > FILE_MAX) {
        setError(new Error(`${file.name} is too large: ${count(FILE_MAX)} bytes are taken`));
        return;
      }
      texts.push(await file.text());
    }
    if (texts.length) await change({ verb: "apply", text: texts.join("\n---\n") });
  }
  /** @param {DragEvent} event */
  function drop(event) {
    event.preventDefault();
    setOver(false);
    take(event.dataTransfer?.files);
  }
  const worlds = about?.worlds || [];
  return html`<div class=${`what-if ${over ? "over" : ""}`} onDragOver=${(/** @type {DragEvent} */ e) => { e.preventDefault(); setOver(true); }} onDragLeave=${() => setOver(false)} onDrop=${drop}>
    <${Card} title=${world ? "This fork" : "Another world"} id="world">
      <p>A fork is the cluster as it is now, and goes its own way from there: change it, and see who moves, who fits, who has to go. The cluster itself is never changed.</p>
      <div class="buttons">
        <button type="button" class="primary" disabled=${busy} onClick=${() => fork().catch(setError)}>Make a fork</button>
        ${worlds.map((/** @type {any} */ each) => html`<button type="button" key=${each.id} aria-pressed=${each.id === world ? "true" : "false"} onClick=${() => enter(each.id)}>${each.name} (${plural(each.changes.length, "change")})</button>`)}
        ${world ? html`<button type="button" onClick=${async () => { try { await remove(`worlds/${world}`); } catch (problem) { setError(problem); } await enter(""); }}>Delete this fork</button>` : null}</div>
      <${Problem} error=${error} /><//>
    ${world ? html`<${Difference} world=${world} serial=${serial} />` : null}
    <${Forms} change=${change} busy=${busy} about=${about} />
    <${Editor} change=${change} busy=${busy} take=${take} />
    <${Weights} change=${change} busy=${busy} about=${about} world=${world} />
    ${world ? html`<${Export} world=${world} serial=${serial} />` : null}
  </div>`;
}

/** @param {{world: string, serial: number}} props */
function Difference({ world, serial }) {
  const { data, error } = useData(`worlds/${world}/diff`, { n: serial });
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Loading} text="Comparing…" />`;
  const parts = [
    ["placed", "Fits now", (/** @type {any} */ [pod, node]) => html`<${PodLink} name=${pod} /> on <${NodeLink} name=${node} />`, "good"],
    ["moved", "Moved", (/** @type {any} */ [pod, at]) => html`<${PodLink} name=${pod} /> from <${NodeLink} name=${at.from} /> to <${NodeLink} name=${at.to} />`, ""],
    ["pending", "Pending now", (/** @type {any} */ [pod, why]) => html`<${PodLink} name=${pod} /> <span class="dim">${why}</span>`, "warn"],
    ["preempted", "Evicted to make room", (/** @type {any} */ [pod, who]) => html`<span class="mono">${pod}</span> for <${PodLink} name=${who} />`, "warn"],
    ["gone", "Gone", (/** @type {any} */ [pod, node]) => html`<span class="mono">${pod}</span>${node ? html` was on <span class="mono">${node}</span>` : ""}`, "warn"],
    ["blocked", "Could not be evicted", (/** @type {any} */ [pod, why]) => html`<${PodLink} name=${pod} /> <span class="dim">${why}</span>`, "bad"],
  ];
  const some = parts.filter(([part]) => data.counts[String(part)]);
  const nodes = [["nodesAdded", "Nodes added"], ["nodesRemoved", "Nodes removed"]].filter(([part]) => data.counts[part]);
  return html`<${Card} title="The difference" id="difference">
    ${data.changes.length ? html`<ol class="changes">${data.changes.map((/** @type {string} */ text, /** @type {number} */ n) => html`<li key=${n}>${text}</li>`)}</ol>` : html`<p class="dim">Nothing was changed yet.</p>`}
    <p class="big" aria-live="polite"><span><strong>${count(data.pendingBefore)}</strong> pending before</span><span aria-hidden="true">→</span><span class=${data.pendingAfter > data.pendingBefore ? "worse" : data.pendingAfter < data.pendingBefore ? "better" : ""}><strong>${count(data.pendingAfter)}</strong> after</span></p>
    ${nodes.map(([part, title]) => html`<h3 key=${part}>${title} (${count(data.counts[part])})</h3><p>${data[part].slice(0, 20).map((/** @type {string} */ name, /** @type {number} */ n) => html`${n ? ", " : ""}<span class="mono" key=${name}>${name}</span>`)}${data.counts[part] > 20 ? ` and ${count(data.counts[part] - 20)} more` : ""}</p>`)}
    ${some.map(([part, title, cell, kind]) => html`<h3 key=${part}>${title} <${Badge} kind=${kind}>${count(data.counts[String(part)])}<//></h3><ul class="moves">${Object.entries(data[String(part)]).slice(0, 50).map((entry) => html`<li key=${entry[0]}>${/** @type {any} */ (cell)(entry)}</li>`)}</ul>${data.counts[String(part)] > 50 ? html`<p class="dim">and ${count(data.counts[String(part)] - 50)} more</p>` : null}`)}
    ${data.changes.length && !some.length && !nodes.length ? html`<p>Nobody moves.</p>` : null}
    <${Fill} before=${data.before.fill} after=${data.after.fill} /><//>`;
}

/** @param {{before: any, after: any}} props */
function Fill({ before, after }) {
  const rows = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort().flatMap((group) =>
    ["cpu", "memory"].map((resource) => ({ group, resource, before: part(before, group, resource), after: part(after, group, resource) })));
  return html`<h3>How full</h3><${Table} shape="small" caption="How full, before and after" rows=${rows} columns=${[
    { key: "group", label: "Nodes" },
    { key: "resource", label: "Resource" },
    { key: "before", label: "Before", num: true },
    { key: "after", label: "After", num: true },
  ]} />`;
}

/** @param {any} fill @param {string} group @param {string} resource */
function part(fill, group, resource) {
  const found = fill[group]?.[resource];
  return found && found.whole ? share(found.taken / found.whole) : "–";
}

/** @param {{change: (body: object) => Promise<boolean>, busy: boolean, about: any}} props */
function Forms({ change, busy }) {
  const [verb, setVerb] = useState("cordon");
  const [node, setNode] = useState("");
  const [taint, setTaint] = useState("dedicated=team-a:NoSchedule");
  const [number, setNumber] = useState("1");
  const [workload, setWorkload] = useState("");
  const names = useData("nodes", { limit: 200, q: useStill(node, 250) }, { once: true });
  const workloads = useData("workloads");
  /** @param {Event} event */
  function submit(event) {
    event.preventDefault();
    const bodies = {
      taint: { node, taint },
      addNodes: { like: node, count: Number(number) },
      scale: { workload: workload || workloads.data?.rows[0]?.workload || "", replicas: Number(number) },
    };
    change({ verb, .../** @type {any} */ (bodies)[verb] || { node } });
  }
  const verbs = [["cordon", "Cordon a node"], ["uncordon", "Uncordon a node"], ["drain", "Drain a node"], ["remove", "Remove a node"], ["taint", "Taint a node"], ["addNodes", "Add nodes like one"], ["scale", "Scale a workload"]];
  return html`<${Card} title="Change something" id="change"><form class="controls" onSubmit=${submit}>
    <div class="field"><label for="verb">What</label><select id="verb" value=${verb} onChange=${(/** @type {any} */ e) => setVerb(e.target.value)}>${verbs.map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}</select></div>
    ${verb === "scale"
      ? html`<div class="field"><label for="workload">Workload</label><select id="workload" value=${workload} onChange=${(/** @type {any} */ e) => setWorkload(e.target.value)}>${(workloads.data?.rows || []).map((/** @type {any} */ each) => html`<option key=${each.workload} value=${each.workload}>${each.workload} (${each.replicas})</option>`)}</select></div>`
      : html`<div class="field"><label for="node">${verb === "addNodes" ? "Like" : "Node"}</label><input id="node" list="node-names" required autocomplete="off" value=${node} onInput=${(/** @type {any} */ e) => setNode(e.target.value)} /><datalist id="node-names">${(names.data?.rows || []).map((/** @type {any} */ each) => html`<option key=${each.name} value=${each.name}></option>`)}</datalist></div>`}
    ${verb === "taint" ? html`<div class="field"><label for="taint">Taint</label><input id="taint" required value=${taint} onInput=${(/** @type {any} */ e) => setTaint(e.target.value)} /></div>` : null}
    ${verb === "addNodes" || verb === "scale" ? html`<div class="field narrow"><label for="number">${verb === "scale" ? "Replicas" : "How many"}</label><input id="number" type="number" min="0" max="20000" required value=${number} onInput=${(/** @type {any} */ e) => setNumber(e.target.value)} /></div>` : null}
    <button type="submit" class="primary" disabled=${busy || (verb === "scale" && !workloads.data?.rows.length)}>${busy ? "Trying…" : "Do it in the fork"}</button></form>
    ${verb === "scale" && workloads.data && !workloads.data.rows.length ? html`<p class="dim">There is no workload here that could be scaled.</p>` : null}<//>`;
}

/** @param {{change: (body: object) => Promise<boolean>, busy: boolean, take: (files: FileList | null) => void}} props */
function Editor({ change, busy, take }) {
  const { draft, world } = useShared();
  const [text, setText] = useState("");
  const [verb, setVerb] = useState("apply");
  const [told, setTold] = useState(/** @type {{ok: boolean, text: string}} */ ({ ok: true, text: "" }));
  const still = useStill(text, 400);
  useEffect(() => {
    if (!draft) return;
    setText(draft.text);
    setVerb(draft.verb);
    set({ draft: null });
    document.getElementById("manifest-text")?.focus();
  }, [draft]);
  useEffect(() => {
    let gone = false;
    if (!still.trim()) {
      setTold({ ok: true, text: "" });
      return undefined;
    }
    post("check", { text: still, verb }, { world })
      .then((found) => !gone && setTold(found.error ? { ok: false, text: `${[found.where, found.error].filter(Boolean).join(": ")}${found.hint ? ` (${found.hint})` : ""}` } : { ok: true, text: `Right: ${found.objects.slice(0, 4).join(", ")}${found.objects.length > 4 ? ` and ${found.objects.length - 4} more` : ""}` }))
      .catch((error) => !gone && setTold({ ok: false, text: `${error.message}${error.hint ? ` (${error.hint})` : ""}` }));
    return () => {
      gone = true;
    };
  }, [still, verb, world]);
  /** @param {Event} event */
  async function submit(event) {
    event.preventDefault();
    if (await change({ verb, text })) setText("");
  }
  return html`<${Card} title=${verb === "edit" ? "Edit a manifest" : "Apply manifests"} id="editor"><form onSubmit=${submit}>
    <label for="manifest-text">YAML or JSON; checked as you type. Files may be dropped anywhere on this view.</label>
    <textarea id="manifest-text" rows="10" spellcheck="false" class="mono" value=${text} aria-describedby="checked" aria-invalid=${told.ok ? "false" : "true"} onInput=${(/** @type {any} */ e) => setText(e.target.value)}></textarea>
    <p id="checked" role="status" class=${told.ok ? "right" : "wrong"}>${told.text}</p>
    <div class="buttons"><button type="submit" class="primary" disabled=${busy || !told.ok || !text.trim()}>${verb === "edit" ? "Replace it in the fork" : "Apply to the fork"}</button>
      <label class="file">Choose files<input type="file" multiple accept=".yaml,.yml,.json" onChange=${(/** @type {any} */ e) => { take(e.target.files); e.target.value = ""; }} /></label>
      ${verb === "edit" ? html`<button type="button" onClick=${() => { setVerb("apply"); setText(""); }}>Cancel</button>` : null}</div></form><//>`;
}

/** @param {{change: (body: object) => Promise<boolean>, busy: boolean, about: any, world: string}} props */
function Weights({ change, busy, about, world }) {
  const profiles = Object.keys(about?.weights || {});
  const [profile, setProfile] = useState("");
  const named = profile || profiles[0] || "";
  const known = about?.weights?.[named] || {};
  const [moved, setMoved] = useState(/** @type {Record<string, number>} */ ({}));
  useEffect(() => setMoved({}), [world, named]);
  /** @param {Event} event */
  async function submit(event) {
    event.preventDefault();
    if (await change({ verb: "weigh", profile: named, weights: moved })) setMoved({});
  }
  const names = Object.keys(known).sort();
  return html`<${Card} title="Weights of the scoring plugins" id="weights"><form onSubmit=${submit}>
    <p class="dim">What is placed stays; whatever is decided from here on is decided with these weights. 0 leaves a plugin out.</p>
    ${profiles.length > 1 ? html`<div class="field"><label for="profile">Profile</label><select id="profile" value=${named} onChange=${(/** @type {any} */ e) => setProfile(e.target.value)}>${profiles.map((each) => html`<option key=${each}>${each}</option>`)}</select></div>` : null}
    <div class="sliders">${names.map((plugin) => html`<div class="slider" key=${plugin}><label for=${`weight-${plugin}`}>${plugin}</label>
      <input id=${`weight-${plugin}`} type="range" min="0" max="20" step="1" value=${moved[plugin] ?? known[plugin]} onInput=${(/** @type {any} */ e) => setMoved((old) => ({ ...old, [plugin]: Number(e.target.value) }))} />
      <output for=${`weight-${plugin}`}>${moved[plugin] ?? known[plugin]}</output></div>`)}</div>
    <button type="submit" disabled=${busy || !Object.keys(moved).length}>Weigh so in the fork</button></form><//>`;
}

/** @param {{world: string, serial: number}} props */
function Export({ world, serial }) {
  const { data, error } = useData(`worlds/${world}/export`, { n: serial });
  const [copied, setCopied] = useState("");
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return null;
  /** @param {string} name @param {string} text */
  function save(name, text) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/yaml" }));
    link.download = name;
    link.click();
    URL.revokeObjectURL(link.href);
  }
  async function copy() {
    try {
      await navigator.clipboard.writeText(data.command);
      setCopied("Copied.");
    } catch {
      setCopied("The browser does not let us copy; select the line instead.");
    }
  }
  return html`<${Card} title="Take it with you" id="export">
    <h3>As a command</h3><pre class="code" tabindex="0" aria-label="Command">${data.command}</pre>
    ${Object.keys(data.files).length ? html`<p class="dim">It reads ${Object.keys(data.files).join(" and ")}: save what it reads where you run it.</p>` : null}
    <div class="buttons"><button type="button" onClick=${copy}>Copy the command</button>
      ${Object.keys(data.files).map((name) => html`<button type="button" key=${name} onClick=${() => save(name, data.files[name])}>Save ${name}</button>`)}<span role="status">${copied}</span></div>
    <h3>As manifests</h3>${data.delete.length ? html`<p>To delete: ${data.delete.join(", ")}</p>` : null}
    <pre class="code" tabindex="0" aria-label="Manifests">${data.manifests || "# nothing was changed or added"}</pre>
    <div class="buttons"><button type="button" disabled=${!data.manifests} onClick=${() => save(`${world}.yaml`, data.manifests)}>Save the manifests</button></div><//>`;
}
