// The parts that views are made of: tables, bars, badges, pages, links, notes.

import { html, useEffect, useState } from "./lib.js";
import { amount, count, share, unit } from "./format.js";

/** @param {string} key `namespace/name` */
export const podHref = (key) => `#/pods/${key.split("/").map(encodeURIComponent).join("/")}`;
/** @param {string} name */
export const nodeHref = (name) => `#/nodes/${encodeURIComponent(name)}`;

/** @param {{name: string}} props */
export const PodLink = ({ name }) => html`<a href=${podHref(name)} class="mono">${name}</a>`;
/** @param {{name: string}} props */
export const NodeLink = ({ name }) => (name ? html`<a href=${nodeHref(name)} class="mono">${name}</a>` : html`<span class="dim">–</span>`);

/** @param {{kind?: string, children?: any}} props */
export const Badge = ({ kind = "", children }) => html`<span class=${`badge ${kind}`}>${children}</span>`;

/** @param {{error: any}} props */
export function Problem({ error }) {
  if (!error) return null;
  return html`<div class="note bad" role="alert"><strong>${error.message || String(error)}</strong>
    ${error.hint ? html`<div>${error.hint}</div>` : null}</div>`;
}

/** @param {{text?: string}} props */
export const Loading = ({ text = "Asking…" }) => html`<p class="loading" role="status"><span class="spinner" aria-hidden="true"></span>${text}</p>`;

/** How much of something is taken. @param {{resource: string, used: number, whole: number}} props */
export function Meter({ resource, used, whole }) {
  const part = whole ? used / whole : 0;
  const text = `${amount(resource, used)} of ${amount(resource, whole)} ${unit(resource)}`.trim();
  return html`<div class="meter-row">
    <span class="meter-name">${resource}</span>
    <span class=${`meter ${part >= 0.95 ? "full" : ""}`} role="img" aria-label=${`${resource}: ${share(part)} requested`}>
      <span style=${{ width: `${Math.min(100, part * 100)}%` }}></span></span>
    <span class="meter-text">${share(part)} <span class="dim">${text}</span></span></div>`;
}

/**
 * @typedef {object} Column
 * @property {string} key
 * @property {any} label
 * @property {boolean} [num] numbers stand to the right
 * @property {boolean} [sorts] whether the server sorts by it
 * @property {(row: any) => any} [cell]
 */

/**
 * A table with a caption; headers that sort are buttons.  On a narrow screen every row stands by itself, its cells
 * one below the other, unless it is `small`, or `wide`: that one scrolls beside its first column.  A table that is
 * laid out as blocks is none to a browser any more, so the roles are written out.
 * @param {{caption: string, columns: Column[], rows: any[], sort?: string, order?: string, shape?: "stacks" | "small" | "wide",
 *   onSort?: (key: string) => void, mark?: (row: any) => string, empty?: string}} props
 */
export function Table({ caption, columns, rows, sort, order, onSort, mark, shape = "stacks", empty = "Nothing here." }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}>
    <table role="table" class=${shape}>
      <caption class="hidden">${caption}</caption>
      <thead role="rowgroup"><tr role="row">${columns.map((column) => html`<th scope="col" role="columnheader" key=${column.key} class=${column.num ? "num" : ""}
        aria-sort=${sort === column.key ? (order === "desc" ? "descending" : "ascending") : undefined}>
        ${column.sorts && onSort
          ? html`<button type="button" class="sort" onClick=${() => onSort(column.key)}>${column.label}<span aria-hidden="true">${sort === column.key ? (order === "desc" ? " ↓" : " ↑") : " ↕"}</span></button>`
          : column.label}</th>`)}</tr></thead>
      <tbody role="rowgroup">${rows.length === 0 ? html`<tr role="row"><td role="cell" class="dim" colspan=${columns.length}>${empty}</td></tr>` : null}
        ${rows.map((row, n) => html`<tr role="row" key=${n} class=${mark ? mark(row) : ""}>
          ${columns.map((column) => html`<td role="cell" key=${column.key} class=${column.num ? "num" : ""} data-label=${typeof column.label === "string" ? column.label : ""}>${column.cell ? column.cell(row) : row[column.key]}</td>`)}</tr>`)}
      </tbody></table></div>`;
}

/** @param {{page: {total: number, offset: number, rows: any[]}, limit: number, go: (offset: number) => void, what: string}} props */
export function Pager({ page, limit, go, what }) {
  if (page.total <= limit && page.offset === 0) return html`<p class="pager dim">${count(page.total)} ${page.total === 1 ? what.replace(/^(\w+)s\b/, "$1") : what}</p>`;
  const last = Math.min(page.total, page.offset + limit);
  return html`<nav class="pager" aria-label=${`Pages of ${what}`}>
    <button type="button" disabled=${page.offset === 0} onClick=${() => go(Math.max(0, page.offset - limit))}>Previous</button>
    <span>${count(page.offset + 1)}–${count(last)} of ${count(page.total)} ${what}</span>
    <button type="button" disabled=${last >= page.total} onClick=${() => go(page.offset + limit)}>Next</button></nav>`;
}

/** State of a table that the server sorts and pages. @param {string} sort @param {string} order @param {number} limit */
export function usePages(sort, order, limit) {
  const [at, setAt] = useState({ sort, order, offset: 0 });
  return {
    query: { sort: at.sort, order: at.order, offset: at.offset, limit },
    sort: at.sort,
    order: at.order,
    go: (/** @type {number} */ offset) => setAt((old) => ({ ...old, offset })),
    onSort: (/** @type {string} */ key) =>
      setAt((old) => ({ sort: key, order: old.sort === key && old.order === "asc" ? "desc" : "asc", offset: 0 })),
  };
}

/** A value that follows another when that has been still for a while. @template T @param {T} value @param {number} ms @returns {T} */
export function useStill(value, ms) {
  const [still, setStill] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setStill(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return still;
}

/** @param {{title: string, children?: any, actions?: any, id?: string}} props */
export const Card = ({ title, children, actions, id }) => html`<section class="card" aria-labelledby=${id ? `${id}-title` : undefined}>
  <div class="card-head"><h2 id=${id ? `${id}-title` : undefined}>${title}</h2>${actions}</div>${children}</section>`;

/** @param {{name: string, label: string, value: string, onInput: (text: string) => void, placeholder?: string, id: string}} props */
export const SearchField = ({ name, label, value, onInput, placeholder, id }) => html`<div class="field">
  <label for=${id}>${label}</label>
  <input id=${id} name=${name} type="search" value=${value} placeholder=${placeholder} autocomplete="off" spellcheck="false"
    onInput=${(/** @type {any} */ event) => onInput(event.target.value)} /></div>`;
