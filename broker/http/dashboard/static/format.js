// Numbers, sizes and times for people. What is missing is a dash, never "undefined" or "NaN".

export const DASH = "–";
const grouped = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const pad = (number, width = 2) => String(number).padStart(width, "0");
const known = (value) => value !== null && value !== undefined && Number.isFinite(Number(value));

export function count(value) {
  return known(value) ? grouped.format(value) : DASH;
}

// Large counts in little room: 1,234 / 56.1k / 7.2M.
export function short(value) {
  if (!known(value)) return DASH;
  const size = Math.abs(value);
  if (size < 10_000) return grouped.format(value);
  for (const [length, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= length) return `${(value / length).toFixed(size >= length * 100 ? 0 : 1)}${unit}`;
  }
  return grouped.format(value);
}

export function rate(value) {
  if (!known(value)) return DASH;
  const size = Math.abs(value);
  if (size < 0.005) return "0";
  if (size < 10) return Number(value).toFixed(size < 1 ? 2 : 1);
  return short(Math.round(value));
}

export function bytes(value) {
  if (!known(value)) return DASH;
  let rest = Number(value);
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (Math.abs(rest) < 1024) return `${unit === "B" ? rest.toFixed(0) : rest.toFixed(rest < 100 ? 1 : 0)} ${unit}`;
    rest /= 1024;
  }
  return `${rest.toFixed(1)} TiB`;
}

// The largest unit and the one below it: 3h 5m.
export function duration(seconds) {
  if (!known(seconds)) return DASH;
  if (seconds < 0) return `-${duration(-seconds)}`;
  if (seconds === 0) return "0s";
  if (seconds < 0.001) return `${Math.max(1, Math.round(seconds * 1e6))}µs`;
  if (seconds < 1) return seconds < 0.01 ? `${(seconds * 1000).toFixed(1)}ms` : `${Math.round(seconds * 1000)}ms`;
  if (seconds < 10) return `${Number(seconds).toFixed(1)}s`;
  const lengths = [["d", 86_400], ["h", 3600], ["m", 60], ["s", 1]];
  const place = lengths.findIndex(([, length]) => seconds >= length);
  const [unit, length] = lengths[place];
  const whole = Math.floor(seconds / length);
  const [smaller, part] = lengths[place + 1] ?? ["", Infinity];
  const rest = Math.floor((seconds - whole * length) / part);
  return rest ? `${whole}${unit} ${rest}${smaller}` : `${whole}${unit}`;
}

// An age changes every second; whole seconds are calm enough to read.
export function age(seconds) {
  return known(seconds) && seconds >= 0 && seconds < 10 ? `${Math.floor(seconds)}s` : duration(seconds);
}

export function milliseconds(value) {
  if (!known(value)) return DASH;
  const size = Math.abs(value);
  if (size < 1000) return `${Number(value).toFixed(size < 10 ? 2 : size < 100 ? 1 : 0)} ms`;
  return duration(value / 1000);
}

// A moment on a time axis: as precise far from the start as near it.
export function offset(value) {
  if (!known(value) || value === 0) return value === 0 ? "0" : DASH;
  if (Math.abs(value) < 1000) return `+${milliseconds(value)}`;
  if (value < 600_000) return `+${(value / 1000).toFixed(3)} s`;
  const seconds = value / 1000;
  return `+${Math.floor(seconds / 3600)}:${pad(Math.floor(seconds / 60) % 60)}:${(seconds % 60).toFixed(3).padStart(6, "0")}`;
}

// Milliseconds since 1970 of an ISO time, of seconds, or of milliseconds; null for anything else.
export function instant(value) {
  if (typeof value === "number" && Number.isFinite(value)) return value < 1e11 ? value * 1000 : value;
  if (typeof value !== "string" || !/^\d{4}-\d\d-\d\dT/.test(value)) return null;
  const found = Date.parse(value);
  return Number.isNaN(found) ? null : found;
}

// A time of day in the reader's zone, to the millisecond.
export function clock(value, precise = true) {
  const found = instant(value);
  if (found === null) return DASH;
  const at = new Date(found);
  const text = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
  return precise ? `${text}.${pad(at.getMilliseconds(), 3)}` : text;
}

// In the hour that clocks have twice in autumn: which of the two, as " UTC+2"; else nothing.
export function repeated(value) {
  const at = instant(value);
  const offset = new Date(at).getTimezoneOffset();
  const twice = [-3, 3].some((hours) => {
    const other = new Date(at + hours * 3_600_000).getTimezoneOffset();
    return other !== offset && new Date(at + (other - offset) * 60_000).getTimezoneOffset() === other;
  });
  if (at === null || !twice) return "";
  const [hours, minutes] = [Math.floor(Math.abs(offset) / 60), Math.abs(offset) % 60];
  return ` UTC${offset > 0 ? "-" : "+"}${hours}${minutes ? `:${pad(minutes)}` : ""}`;
}

export function date(value) {
  const found = instant(value);
  if (found === null) return DASH;
  const at = new Date(found);
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${clock(value, false)}${repeated(value)}`;
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

// Characters that nobody sees would change how a line looks, or make two names one: shown as what they are.
export function visible(text) {
  return String(text ?? "").replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (found) => `\\u${found.codePointAt(0).toString(16).padStart(4, "0")}`);
}
