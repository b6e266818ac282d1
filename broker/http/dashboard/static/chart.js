// A line of how a figure went, with its axes; the newest is at the right. Times without a sample are gaps.

import { h, svg } from "./dom.js";
import { bytes, clock, date, duration, rate, repeated, short } from "./format.js";

const WIDTH = 560;
const HEIGHT = 110;
const GAP = 2.6;

// A figure of a series, in its unit.
export function inUnit(value, unit) {
  if (value === null || value === undefined) return "–";
  if (unit === "bytes") return bytes(value);
  if (unit === "s") return duration(value);
  if (unit === "/s") return `${rate(value)}/s`;
  return Number.isInteger(value) ? short(value) : value.toFixed(2);
}

// Points that lie side by side, as the parts of a path.
function partsOf(at, values, step) {
  const parts = [];
  let before = null;
  values.forEach((value, place) => {
    if (value === null) return;
    if (before === null || at[place] - at[before] > GAP * step) parts.push([]);
    parts.at(-1).push([at[place], value]);
    before = place;
  });
  return parts;
}

// `found`: what the node told of its history; `series`: one of it. Returns {element}.
export function chart(found, series) {
  const known = series.values.filter((value) => value !== null);
  const most = Math.max(...known, 0) || 1;
  const span = found.until_s - found.since_s;
  const x = (at) => (((at - found.since_s) / span) * WIDTH).toFixed(1);
  const y = (value) => (HEIGHT - (value / most) * (HEIGHT - 4)).toFixed(1);
  const parts = partsOf(found.at, series.values, found.step_s);
  const line = parts.map((part) => `M${part.map(([at, value]) => `${x(at)} ${y(value)}`).join("L")}${part.length === 1 ? "h2" : ""}`).join("");
  const area = parts.map((part) => `M${x(part[0][0])} ${HEIGHT}L${part.map(([at, value]) => `${x(at)} ${y(value)}`).join("L")}L${x(part.at(-1)[0])} ${HEIGHT}Z`).join("");
  const latest = known.at(-1);
  const worst = series.name === "disk_free" ? ["lowest", Math.min(...known)] : ["highest", Math.max(...known)];
  const words = known.length ? `${inUnit(latest, series.unit)}, ${worst[0]} ${inUnit(worst[1], series.unit)}` : "nothing is known of that time";
  const picture = svg("svg", { class: "spark chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${series.title}: ${words}` },
    [0.25, 0.5, 0.75].map((share) => svg("path", { class: "rule", d: `M0 ${HEIGHT * share}H${WIDTH}` })),
    svg("path", { class: "area", d: area }), svg("path", { class: "stroke", d: line }));
  const time = (at) => (span > 100_000 ? date(at).slice(5, 16) : clock(at, false).slice(0, 5)) + repeated(at);
  const cursor = h("span", { class: "at" });
  const told = h("div", { class: "plot", on: {
    pointermove: (event) => {
      const box = told.getBoundingClientRect();
      const place = nearest(found.at, found.since_s + ((event.clientX - box.left) / box.width) * span);
      cursor.textContent = place < 0 ? "" : `${time(found.at[place])}: ${inUnit(series.values[place], series.unit)}`;
    },
    pointerleave: () => {
      cursor.textContent = "";
    },
  } }, picture);
  return h("figure", { class: "card history", dataset: { series: series.name } },
    h("header", {}, series.title, h("span", { class: "grow" }), cursor),
    h("div", { class: "words" }, known.length ? [h("b", {}, inUnit(latest, series.unit)), ` now · ${worst[0]} ${inUnit(worst[1], series.unit)}`] : words),
    told,
    h("figcaption", {}, h("span", {}, time(found.since_s)), h("span", {}, time((found.since_s + found.until_s) / 2)), h("span", {}, time(found.until_s))));
}

function nearest(at, wanted) {
  let best = -1;
  at.forEach((each, place) => {
    if (best < 0 || Math.abs(each - wanted) < Math.abs(at[best] - wanted)) best = place;
  });
  return best;
}
