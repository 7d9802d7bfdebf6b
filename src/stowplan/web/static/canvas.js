// The map's picture: cells on a canvas.  Changes repaint their own cells, not the whole.

export const CORDONED = 1;
export const TAINTED = 2;
export const AWAY = 8;
const FULL_SHARE = 0.95;
const CHOSEN_MS = 1500;
const HEAD = 24;
const GAP_GROUP = 14;
const FRAMES_MAX = 2000;
export const PODS_FROM = 44;
/** Cells this large show their pods. */
const CELL_MIN = 5;
const CELL_MAX = 72;

/** @typedef {{names: string[], group: number[], groups: string[], whole: number[], used: number[], pods: number[], flags: number[], resource: string, heat?: boolean}} MapData `heat`: cells are coloured as a whole */

/** What browser tests read: when the first picture was there, and how long frames took.
 * @type {{firstPictureMs: number, frames: number[], painted: number}} */
export const measured = { firstPictureMs: 0, frames: [], painted: 0 };
/** @type {any} */ (globalThis).stowplanMap = measured;

export class Picture {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { alpha: false }));
    /** @type {MapData | null} */
    this.data = null;
    this.cell = 14;
    this.width = 0;
    this.height = 0;
    /** @type {Float32Array} */
    this.x = new Float32Array(0);
    /** @type {Float32Array} */
    this.y = new Float32Array(0);
    /** @type {{name: string, y: number, count: number}[]} */
    this.heads = [];
    /** @type {Set<number>} */
    this.dirty = new Set();
    /** @type {Map<number, number>} row -> until when it is shown as just chosen */
    this.chosen = new Map();
    /** @type {Set<number> | null} rows that match a search */
    this.found = null;
    /** @type {Map<string, [string, number][]>} */
    this.inside = new Map();
    this.cursor = -1;
    this.all = true;
    this.frame = 0;
    this.colors = colors(canvas);
  }

  /** @param {MapData} data @param {number} width @param {number} height of the space there is @param {number} zoom 1: all of it fits */
  show(data, width, height, zoom) {
    this.data = data;
    this.colors = colors(this.canvas);
    this.layout(width, height, zoom);
    this.repaint();
  }

  /** @param {number} width @param {number} height @param {number} zoom */
  layout(width, height, zoom) {
    const data = /** @type {MapData} */ (this.data);
    const counts = data.groups.map(() => 0);
    for (const group of data.group) counts[group] += 1;
    let cell = CELL_MAX;
    while (cell > CELL_MIN && this.needed(counts, width, cell) > height) cell -= 1;
    this.cell = Math.max(CELL_MIN, Math.min(120, Math.round(cell * zoom)));
    const columns = Math.max(1, Math.floor(width / this.cell));
    const starts = [];
    this.heads = [];
    let y = 0;
    for (let group = 0; group < counts.length; group += 1) {
      this.heads.push({ name: data.groups[group], y, count: counts[group] });
      starts.push(y + HEAD);
      y += HEAD + Math.ceil(counts[group] / columns) * this.cell + GAP_GROUP;
    }
    const placed = counts.map(() => 0);
    this.x = new Float32Array(data.names.length);
    this.y = new Float32Array(data.names.length);
    for (let row = 0; row < data.names.length; row += 1) {
      const group = data.group[row];
      const n = placed[group];
      placed[group] += 1;
      this.x[row] = (n % columns) * this.cell;
      this.y[row] = starts[group] + Math.floor(n / columns) * this.cell;
    }
    this.columns = columns;
    this.width = width;
    this.height = Math.max(60, y);
    const ratio = globalThis.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  /** @param {number[]} counts @param {number} width @param {number} cell */
  needed(counts, width, cell) {
    const columns = Math.max(1, Math.floor(width / cell));
    return counts.reduce((sum, n) => sum + HEAD + Math.ceil(n / columns) * cell + GAP_GROUP, 0);
  }

  /** New amounts of some rows. @param {number[]} rows @param {number[]} used @param {number[]} pods @param {number[]} chosen */
  change(rows, used, pods, chosen) {
    const data = this.data;
    if (!data) return;
    rows.forEach((row, n) => {
      data.used[row] = used[n];
      data.pods[row] = pods[n];
      this.dirty.add(row);
      this.inside.delete(data.names[row]);
    });
    const until = performance.now() + CHOSEN_MS;
    for (const row of chosen) this.chosen.set(row, until);
    this.request();
  }

  repaint() {
    this.all = true;
    this.request();
  }

  request() {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.paint());
  }

  stop() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.data = null;
  }

  paint() {
    this.frame = 0;
    const data = this.data;
    if (!data) return;
    const begun = performance.now();
    for (const [row, until] of this.chosen) {
      if (until <= begun) {
        this.chosen.delete(row);
        this.dirty.add(row);
      }
    }
    if (this.all) this.paintAll(data);
    else for (const row of this.dirty) this.paintCell(data, row);
    measured.painted += this.all ? data.names.length : this.dirty.size;
    this.all = false;
    this.dirty.clear();
    if (!measured.firstPictureMs) measured.firstPictureMs = performance.now();
    push(measured.frames, performance.now() - begun);
    if (this.chosen.size) setTimeout(() => this.request(), 100);
  }

  /** @param {MapData} data */
  paintAll(data) {
    const { context, colors } = this;
    context.fillStyle = colors.ground;
    context.fillRect(0, 0, this.width, this.height);
    context.fillStyle = colors.text;
    context.font = "600 13px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const head of this.heads) context.fillText(`${head.name || "all nodes"}  (${head.count})`, 1, head.y + HEAD / 2);
    for (let row = 0; row < data.names.length; row += 1) this.paintCell(data, row);
  }

  /** @param {MapData} data @param {number} row */
  paintCell(data, row) {
    const { context, colors, cell } = this;
    const gap = cell > 9 ? 2 : 1;
    const size = cell - gap;
    const x = this.x[row];
    const y = this.y[row];
    const whole = data.whole[row];
    const part = whole > 0 ? Math.max(0, Math.min(1, data.used[row] / whole)) : 0;
    const flags = data.flags[row];
    const dimmed = this.found !== null && !this.found.has(row);
    context.fillStyle = colors.ground;
    context.fillRect(x, y, cell, cell);
    if (data.heat) {
      this.paintHeat(row, part, (flags & AWAY) !== 0, size);
      return;
    }
    context.globalAlpha = dimmed ? 0.18 : 1;
    context.fillStyle = flags & CORDONED ? colors.cordoned : colors.empty;
    context.fillRect(x, y, size, size);
    const tall = Math.round(part * size);
    context.fillStyle = part >= FULL_SHARE ? colors.full : flags & TAINTED ? colors.tainted : colors.used;
    if (flags & CORDONED) context.globalAlpha *= 0.55;
    context.fillRect(x, y + size - tall, size, tall);
    context.globalAlpha = dimmed ? 0.18 : 1;
    if (cell >= PODS_FROM) this.paintInside(data, row, x, y, size);
    if (flags & CORDONED) {
      context.strokeStyle = colors.mark;
      context.lineWidth = Math.max(1, cell / 12);
      context.beginPath();
      context.moveTo(x + 1, y + size - 1);
      context.lineTo(x + size - 1, y + 1);
      context.stroke();
    } else if (flags & TAINTED) {
      context.fillStyle = colors.taintMark;
      const corner = Math.max(3, size / 3);
      context.beginPath();
      context.moveTo(x + size - corner, y);
      context.lineTo(x + size, y);
      context.lineTo(x + size, y + corner);
      context.fill();
    }
    if (this.chosen.has(row)) {
      context.strokeStyle = colors.chosen;
      context.lineWidth = Math.max(1.5, cell / 8);
      const inset = context.lineWidth / 2;
      context.strokeRect(x + inset, y + inset, size - 2 * inset, size - 2 * inset);
    }
    context.globalAlpha = 1;
    if (row === this.cursor) {
      context.strokeStyle = colors.text;
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, size - 2, size - 2);
    }
  }

  /** Of a simulation: one colour for the whole cell; a node that is away is an outline. @param {number} row @param {number} part @param {boolean} away @param {number} size */
  paintHeat(row, part, away, size) {
    const { context, colors } = this;
    const [x, y] = [this.x[row], this.y[row]];
    context.globalAlpha = this.found !== null && !this.found.has(row) ? 0.18 : 1;
    if (away) {
      context.strokeStyle = colors.away;
      context.lineWidth = 1;
      context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
    } else {
      context.fillStyle = part >= FULL_SHARE ? colors.full : colors.ramp[Math.round(part * 100)];
      context.fillRect(x, y, size, size);
    }
    context.globalAlpha = 1;
    if (row === this.cursor) {
      context.strokeStyle = colors.text;
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, size - 2, size - 2);
    }
  }

  /** The pods as layers, each as high as its share. @param {MapData} data @param {number} row @param {number} x @param {number} y @param {number} size */
  paintInside(data, row, x, y, size) {
    const { context, colors } = this;
    const pods = this.inside.get(data.names[row]);
    if (pods && data.whole[row] > 0) {
      context.fillStyle = colors.empty;
      let bottom = y + size;
      for (const [, amount] of pods) {
        const tall = (amount / data.whole[row]) * size;
        bottom -= tall;
        if (tall >= 2) context.fillRect(x, bottom, size, 1);
      }
    }
    if (size >= 58) {
      context.fillStyle = colors.text;
      context.font = "11px system-ui, sans-serif";
      context.save();
      context.beginPath();
      context.rect(x, y, size, size);
      context.clip();
      const width = Math.min(size, context.measureText(data.names[row]).width + 6);
      context.fillStyle = colors.label;
      context.fillRect(x, y, width, 15);
      context.fillStyle = colors.text;
      context.fillText(data.names[row], x + 3, y + 8);
      context.restore();
    }
  }

  /** @param {number} x @param {number} y @returns {number} the row there, or -1 */
  at(x, y) {
    for (let row = 0; row < this.x.length; row += 1) {
      if (x >= this.x[row] && x < this.x[row] + this.cell && y >= this.y[row] && y < this.y[row] + this.cell) return row;
    }
    return -1;
  }

  /** The nearest row in a direction. @param {number} dx @param {number} dy */
  next(dx, dy) {
    if (this.cursor < 0) return 0;
    let best = this.cursor;
    let least = Infinity;
    for (let row = 0; row < this.x.length; row += 1) {
      const right = this.x[row] - this.x[this.cursor];
      const down = this.y[row] - this.y[this.cursor];
      const ahead = dx ? right * dx : down * dy;
      if (ahead <= 0) continue;
      const aside = Math.abs(dx ? down : right);
      const far = ahead + aside * 4;
      if (far < least) {
        least = far;
        best = row;
      }
    }
    return best;
  }

  /** @param {number} row */
  moveTo(row) {
    if (this.cursor >= 0) this.dirty.add(this.cursor);
    this.cursor = row;
    if (row >= 0) this.dirty.add(row);
    this.request();
  }
}

/** @param {number[]} list @param {number} value */
function push(list, value) {
  list.push(value);
  if (list.length > FRAMES_MAX) list.shift();
}

/** The colours of the style sheet, as they are now. @param {Element} element */
function colors(element) {
  const style = getComputedStyle(element);
  /** @param {string} name */
  const read = (name) => style.getPropertyValue(`--${name}`).trim() || "#888";
  return {
    ground: read("panel"),
    text: read("text"),
    empty: read("cell-empty"),
    used: read("cell-used"),
    full: read("cell-full"),
    tainted: read("cell-tainted"),
    taintMark: read("cell-taint-mark"),
    cordoned: read("cell-cordoned"),
    mark: read("cell-mark"),
    chosen: read("cell-chosen"),
    label: read("label-back"),
    away: read("strong-line"),
    ramp: Array.from({ length: 101 }, (_, percent) => mixed(read("cell-empty"), read("cell-used"), percent / 100)),
  };
}

/** A colour between two, which are written `#rrggbb`. @param {string} from @param {string} to @param {number} part */
function mixed(from, to, part) {
  const levels = [1, 3, 5].map((n) => {
    const [low, high] = [from, to].map((color) => Number.parseInt(color.slice(n, n + 2), 16));
    return Math.round(low + (high - low) * part);
  });
  return `rgb(${levels.join(" ")})`;
}
