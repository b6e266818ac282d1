// States have a shape and a colour each, so that neither is needed to tell them apart.

import { h, svg } from "./dom.js";

const SHAPES = {
  running: () => svg("circle", { cx: 8, cy: 8, r: 5, class: "solid" }),
  connecting: () => [
    svg("circle", { cx: 8, cy: 8, r: 4.6, class: "hollow dashes" }),
    svg("circle", { cx: 8, cy: 8, r: 1.6, class: "solid" }),
  ],
  blocked: () => [
    svg("rect", { x: 3, y: 3, width: 10, height: 10, rx: 2, class: "solid" }),
    svg("path", { d: "M6.6 6v4M9.4 6v4", class: "cut" }),
  ],
  down: () => svg("path", { d: "M4 4l8 8M12 4l-8 8", class: "line" }),
  dormant: () => svg("path", { d: "M11.8 10.6A5 5 0 0 1 6 3.6a5 5 0 1 0 5.8 7z", class: "solid" }),
  unknown: () => svg("circle", { cx: 8, cy: 8, r: 4.6, class: "hollow" }),
  warning: () => [
    svg("path", { d: "M8 2.5l6 11H2z", class: "solid round" }),
    svg("path", { d: "M8 6.6v3.2M8 11.6v.1", class: "cut" }),
  ],
  live: () => svg("circle", { cx: 8, cy: 8, r: 5, class: "solid" }),
};

const WORDS = {
  running: "running",
  connecting: "connecting",
  blocked: "blocked",
  down: "down",
  dormant: "dormant",
  live: "live",
  unknown: "not known",
  warning: "warning",
};

export function shape(state) {
  const name = Object.hasOwn(SHAPES, state) ? state : "unknown";
  return svg("svg", { class: `shape state-${name}`, viewBox: "0 0 16 16", "aria-hidden": "true" }, SHAPES[name]());
}

// The state of a link as shape and word.
export function stateMark(state, extra = "") {
  const name = Object.hasOwn(SHAPES, state) ? state : "unknown";
  return h("span", { class: `mark state-${name}` }, shape(name), h("span", {}, WORDS[name] + extra));
}

// One word for how a link is. Dormant are only its routes, once it has been down for long.
export function linkState(link) {
  if (!link) return "unknown";
  if (link.dormant && link.state !== "running" && link.state !== "blocked") return "down";
  return link.state || "unknown";
}

// Why it is so; beside that what others do for a child that has been down for long.
export function linkWhy(link) {
  const why = link?.error || link?.dialling?.error || "";
  const away = link?.dormant && linkState(link) === "down";
  return [why, away && "its shared queues go to others meanwhile"].filter(Boolean).join("; ");
}

const GLYPHS = {
  overview: "M2.5 9.5h4v4h-4zM2.5 2.5h4v4h-4zM9.5 2.5h4v4h-4zM9.5 9.5h4v4h-4z",
  charts: "M2.5 2.5v11h11M4.5 10.5l3-4 2.5 2 3.5-5",
  tree: "M8 2v4M8 6H3.5v4M8 6h4.5v4M8 6v4M2.5 10h2v3h-2zM7 10h2v3H7zM11.5 10h2v3h-2z",
  topology: "M5.5 2.5h5v3h-5zM1.5 10.5h3.5v3H1.5zM6.2 10.5h3.6v3H6.2zM11 10.5h3.5v3H11zM8 5.5v5M3.2 10.5V8h9.6v2.5",
  queues: "M2.5 4h11M2.5 8h11M2.5 12h7",
  consumers: "M8 8.2a2.6 2.6 0 1 0 0-5.2 2.6 2.6 0 0 0 0 5.2zM3 13.5c.4-3 2.4-4 5-4s4.6 1 5 4",
  routes: "M3 3v4a3 3 0 0 0 3 3h7M10.5 7.5L13 10l-2.5 2.5M3 7v6",
  channels: "M2 5.5h12M11 2.5l3 3-3 3M14 10.5H2M5 7.5l-3 3 3 3",
  node: "M8 6.2a1.9 1.9 0 1 0 0 3.8 1.9 1.9 0 0 0 0-3.8zM8 6.2V2.5M6.4 9.2l-3.4 3M9.6 9.2l3.4 3",
  dead: "M3 4.5h10l-.8 9H3.8zM2 4.5h12M6 4V2.5h4V4M6.5 7v4M9.5 7v4",
  sessions: "M2.5 3.5h11v7h-11zM6 13.5h4M8 10.5v3",
  advisories: "M3 6.5v3h2.5L10 13V3L5.5 6.5zM12 6a3 3 0 0 1 0 4",
  trace: "M3.5 3.5h.01M3.5 3.5v5h9M12.5 8.5v4M12.5 12.5h.01M6 12.5H2.5",
  follow: "M8 4C4.5 4 2 8 2 8s2.5 4 6 4 6-4 6-4-2.5-4-6-4zM8 9.8a1.8 1.8 0 1 0 0-3.6 1.8 1.8 0 0 0 0 3.6z",
  close: "M4 4l8 8M12 4l-8 8",
  chevron: "M6 4l4 4-4 4",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.5 10.5l3 3",
  theme: "M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11",
  keys: "M1.5 4h13v8h-13zM4 6.5h.01M6.7 6.5h.01M9.3 6.5h.01M12 6.5h.01M5 9.5h6",
};

export function glyph(name) {
  return svg("svg", { class: "glyph", viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: GLYPHS[name] ?? "" }));
}
