// Numbers, amounts and times in the reader's own format.

const whole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat(undefined, { maximumFractionDigits: 2 });
const percent = new Intl.NumberFormat(undefined, { style: "percent", maximumFractionDigits: 0 });
const day = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const digits = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });
const moment = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });

/** @param {number} value */
export const count = (value) => whole.format(value);
/** @param {number} value */
export const number = (value) => fine.format(value);
/** @param {number} share */
export const share = (share) => percent.format(share);

const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** An amount as people write it: cpu in cores, memory in bytes. @param {string} resource @param {number} value */
export function amount(resource, value) {
  if (resource === "cpu") return `${fine.format(value / 1000)}`;
  if (resource === "memory" || resource === "ephemeral-storage" || resource.startsWith("hugepages-")) {
    let power = 0;
    while (Math.abs(value) >= 1024 && power < BYTES.length - 1) {
      value /= 1024;
      power += 1;
    }
    return `${fine.format(value)} ${BYTES[power]}`;
  }
  return whole.format(value);
}

/** @param {string} resource */
export const unit = (resource) => (resource === "cpu" ? "cores" : "");

/** @param {number} seconds */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 1) return `${whole.format(seconds * 1000)} ms`;
  if (seconds < 120) return `${fine.format(Math.round(seconds * 10) / 10)} s`;
  if (seconds < 7200) return `${whole.format(seconds / 60)} min`;
  if (seconds < 172800) return `${whole.format(seconds / 3600)} h`;
  return `${whole.format(seconds / 86400)} d`;
}

/** Parts of a second, in three digits. @param {number} seconds */
export function brief(seconds) {
  const [value, unit] = seconds >= 1 ? [seconds, "s"] : seconds >= 1e-3 ? [seconds * 1e3, "ms"] : [seconds * 1e6, "µs"];
  return `${digits.format(value)} ${unit}`;
}

/** A moment of the cluster's clock: seconds since 1970, or since a virtual clock began. @param {number} seconds */
export function time(seconds) {
  return seconds < 1e8 ? `second ${fine.format(seconds)}` : moment.format(new Date(seconds * 1000));
}

/** The time of day, for an axis. @param {number} seconds */
export const clock = (seconds) => (seconds < 1e8 ? fine.format(seconds) : day.format(new Date(seconds * 1000)));

/** @param {string} text a time as Kubernetes writes it */
export function stamp(text) {
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? text : time(ms / 1000);
}

/** @param {number} n @param {string} one @param {string} [many] */
export const plural = (n, one, many) => `${count(n)} ${n === 1 ? one : many || `${one}s`}`;
