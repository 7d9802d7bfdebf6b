// The map's picture in its frame: pointer and keyboard, size, and what a cell says.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./lib.js";
import { PODS_FROM, Picture } from "./canvas.js";
import { say } from "./state.js";
import { plural } from "./format.js";
import { nodeHref, useStill } from "./parts.js";

/**
 * @typedef {object} DrawingProps
 * @property {import("./canvas.js").MapData} data
 * @property {number} zoom
 * @property {{current: Picture | null}} picture is set to what is drawn
 * @property {string} label for who cannot see it
 * @property {(row: number) => any} hint what a cell says when it is pointed at
 * @property {(row: number) => string} spoken the same as words
 * @property {any} rest what is said when no cell is
 * @property {number} [room] how high it may be
 * @property {string} [filter]
 * @property {(text: string, signal: AbortSignal) => Promise<number[]>} [find] the rows that a filter means
 * @property {(names: string[]) => Promise<Record<string, [string, number][]>>} [inside] the pods of nodes
 */

/** @param {DrawingProps} props */
export function Drawing({ data, zoom, picture, label, hint, spoken, rest, room, filter = "", find, inside }) {
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  const [row, setRow] = useState(-1);
  const asked = useStill(filter, 200);
  function size() {
    const width = Math.max(200, (frame.current?.clientWidth || 300) - 2);
    return { width, height: room || Math.max(280, Math.min(innerHeight - 330, 900)) };
  }
  useLayoutEffect(() => {
    if (!canvas.current) return undefined;
    const made = new Picture(canvas.current);
    picture.current = made;
    return () => {
      made.stop();
      picture.current = null;
    };
  }, []);
  useLayoutEffect(() => {
    const { width, height } = size();
    picture.current?.show(data, width, height, zoom);
    loadInside();
  }, [data, zoom]);
  useEffect(() => {
    const again = () => {
      const { width, height } = size();
      if (picture.current?.data) picture.current.show(picture.current.data, width, height, zoom);
    };
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    addEventListener("resize", again);
    scheme.addEventListener("change", again);
    return () => {
      removeEventListener("resize", again);
      scheme.removeEventListener("change", again);
    };
  }, [zoom]);
  useEffect(() => {
    if (!asked.trim() || !find) {
      if (picture.current) {
        picture.current.found = null;
        picture.current.repaint();
      }
      return undefined;
    }
    const stop = new AbortController();
    find(asked, stop.signal)
      .then((rows) => {
        if (!picture.current) return;
        picture.current.found = new Set(rows);
        picture.current.repaint();
        say(`${plural(rows.length, "node")} found`);
      })
      .catch(() => {});
    return () => stop.abort();
  }, [asked, data]);
  async function loadInside() {
    const drawn = picture.current;
    if (!inside || !drawn || drawn.cell < PODS_FROM || !drawn.data || !frame.current) return;
    const top = frame.current.scrollTop - drawn.cell;
    const bottom = top + frame.current.clientHeight + 2 * drawn.cell;
    const rows = [...drawn.data.names.keys()].filter((row) => drawn.y[row] >= top && drawn.y[row] <= bottom);
    const names = rows.map((row) => /** @type {any} */ (drawn.data).names[row]).filter((name) => !drawn.inside.has(name)).slice(0, 300);
    if (!names.length) return;
    try {
      for (const [name, pods] of Object.entries(await inside(names))) drawn.inside.set(name, pods);
      drawn.repaint();
    } catch {
      // The picture is right without them.
    }
  }
  /** @param {MouseEvent} event */
  const over = (event) => picture.current?.at(event.offsetX, event.offsetY) ?? -1;
  /** @param {KeyboardEvent} event */
  function press(event) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    const drawn = picture.current;
    if (!drawn?.data) return;
    if (step) {
      event.preventDefault();
      drawn.moveTo(drawn.next(step[0], step[1]));
      setRow(drawn.cursor);
      say(spoken(drawn.cursor));
    } else if (event.key === "Enter" && drawn.cursor >= 0) {
      location.hash = nodeHref(drawn.data.names[drawn.cursor]);
    }
  }
  return html`<div class="map" ref=${frame} onScroll=${loadInside}>
      <canvas ref=${canvas} tabindex="0" role="application" aria-label=${label}
        onMouseMove=${(/** @type {MouseEvent} */ e) => setRow(over(e))} onMouseLeave=${() => setRow(-1)} onKeyDown=${press}
        onClick=${(/** @type {MouseEvent} */ e) => { const at = over(e); if (at >= 0 && picture.current?.data) location.hash = nodeHref(picture.current.data.names[at]); }}></canvas></div>
    <p class="hint" aria-hidden="true">${row >= 0 && row < data.names.length ? hint(row) : rest}</p>`;
}
