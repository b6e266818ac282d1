// Draws what happened at several nodes as one timeline: a lane for each node, bars for how long something
// took there, arrows for what went from one to the other.
//
// Wrinkle: a message may wait for hours and then cross four nodes in milliseconds. In the scale "even" a
// pause takes room by its order of magnitude, so that both can be read; "true" keeps lengths in proportion.

import { h, svg } from "./dom.js";
import { offset } from "./format.js";

const ROW = 28;
const PAD = 12;
const TOP = 30;
const LEFT = 158;
const RIGHT = 60;
const BAR = 20;
const TICKS_APART = 82;
const LETTER = 5.9;

// Positions of times. `even`: by order of magnitude of the pauses between them.
function scaleOf(times, width, even) {
  const sorted = [...new Set(times)].sort((one, other) => one - other);
  const start = LEFT + 10;
  if (sorted.length < 2) return { at: () => start, sorted };
  const gaps = sorted.slice(1).map((time, place) => time - sorted[place]);
  const weights = even ? gaps.map((gap) => 0.3 + Math.log10(1 + gap * 20)) : gaps;
  const whole = weights.reduce((total, weight) => total + weight, 0) || 1;
  const places = new Map([[sorted[0], start]]);
  let x = start;
  gaps.forEach((_, place) => {
    x += (weights[place] / whole) * (width - LEFT - RIGHT);
    places.set(sorted[place + 1], x);
  });
  return { at: (time) => places.get(time) ?? start, sorted };
}

// How high each lane is, and where: as many rows as are used in it.
function lanesOf(picture) {
  let y = TOP;
  return picture.lanes.map((lane, number) => {
    const rows = Math.max(1, ...[...picture.bars, ...picture.dots].filter((item) => item.lane === number).map((item) => (item.row ?? 0) + 1));
    const height = Math.max(rows * ROW + 2 * PAD, 60);
    const top = y;
    y += height;
    const above = (height - rows * ROW) / 2;
    return { ...lane, number, top, height, middle: (row = 0) => top + above + row * ROW + ROW / 2 };
  });
}

// `picture`: {lanes: [{name, note}], bars: [{lane, row, from, to, hue, soft, text, hint}], dots: [{lane, row,
// at, hue, hint}], arrows: [{from, fromRow, at, to, toRow, until, hue, text, reply}]}; times in milliseconds.
export function timeline(picture, { even = true, width = 900 } = {}) {
  const times = [
    ...picture.bars.flatMap((bar) => [bar.from, bar.to]),
    ...picture.dots.map((dot) => dot.at),
    ...picture.arrows.flatMap((arrow) => [arrow.at, arrow.until]),
  ];
  const whole = Math.max(width, Math.min(LEFT + RIGHT + new Set(times).size * 18, 6000));
  const scale = scaleOf(times, whole, even);
  const lanes = lanesOf(picture);
  const height = TOP + lanes.reduce((total, lane) => total + lane.height, 0);
  const drawing = svg("svg", { width: whole, height, viewBox: `0 0 ${whole} ${height}`, role: "img", "aria-label": "Timeline; the table below it says the same" },
    svg("defs", {}, ["commit", "wait", "line", "work", "bad"].map(marker)),
    lanes.map((lane) => background(lane, whole)),
    grid(scale, height),
    lanes.map(nameOf),
    picture.bars.filter((bar) => bar.soft).map((bar) => barOf(bar, scale, lanes)),
    picture.bars.filter((bar) => !bar.soft).map((bar) => barOf(bar, scale, lanes)),
    picture.arrows.map((arrow) => arrowOf(arrow, scale, lanes)),
    picture.dots.map((dot) => dotOf(dot, scale, lanes)),
    labelsOf(picture, scale, lanes));
  return h("div", { class: "timeline", tabindex: 0, role: "group", "aria-label": "Timeline" }, drawing);
}

function marker(hue) {
  return svg("marker", { id: `head-${hue}`, class: `hue-${hue}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6.5, markerHeight: 6.5, orient: "auto-start-reverse" },
    svg("path", { class: "head", d: "M0 0.5L8 4L0 7.5z" }));
}

function background(lane, width) {
  return lane.number % 2 === 0 && svg("rect", { class: "lane", x: 0, y: lane.top, width, height: lane.height });
}

function nameOf(lane) {
  const y = lane.top + lane.height / 2;
  return svg("g", {},
    svg("text", { class: "lane-name", x: 14, y: y + (lane.note ? -2 : 4) }, cut(lane.name, 18), svg("title", {}, lane.name)),
    lane.note && svg("text", { class: "lane-note", x: 14, y: y + 14 }, cut(lane.note, 25), svg("title", {}, lane.note)));
}

// Ticks at the events themselves, as many as have room.
function grid(scale, height) {
  let last = -Infinity;
  return scale.sorted.map((time) => {
    const x = scale.at(time);
    if (x - last < TICKS_APART) return null;
    last = x;
    return [
      svg("line", { class: "grid", x1: x, x2: x, y1: TOP - 6, y2: height }),
      svg("text", { class: "tick", x, y: TOP - 12 }, offset(time)),
    ];
  });
}

function boxOf(bar, scale, lanes) {
  const x = scale.at(bar.from);
  return { x, y: lanes[bar.lane].middle(bar.row) - BAR / 2, length: Math.max(scale.at(bar.to) - x, 2) };
}

function barOf(bar, scale, lanes) {
  const { x, y, length } = boxOf(bar, scale, lanes);
  return svg("rect", { class: `bar hue-${bar.hue}${bar.soft ? " soft" : ""}`, x, y, width: length, height: BAR, rx: 3 }, svg("title", {}, bar.hint ?? bar.text ?? ""));
}

// A bar says what it is where it has the room between its dots; of two bars at one place the last says it.
function labelsOf(picture, scale, lanes) {
  const dots = new Map();
  for (const dot of picture.dots) {
    const row = `${dot.lane} ${dot.row ?? 0}`;
    dots.set(row, [...(dots.get(row) ?? []), scale.at(dot.at)]);
  }
  const said = new Set();
  return [...picture.bars].reverse().map((bar) => {
    const { x, y, length } = boxOf(bar, scale, lanes);
    const row = `${bar.lane} ${bar.row ?? 0}`;
    const name = `${row} ${bar.text}`;
    if (!bar.text || (bar.soft && said.has(name))) return null;
    const within = (dots.get(row) ?? []).filter((at) => at >= x - 1 && at <= x + length + 1).sort((one, other) => one - other);
    const wide = bar.text.length * LETTER;
    const place = [x, ...within].find((at) => at + 18 + wide <= x + length + 2 && !within.some((dot) => dot > at + 3 && dot < at + 16 + wide));
    if (place === undefined) return null;
    said.add(name);
    return svg("text", { class: "bar-text", x: place + 9, y: y + BAR / 2 + 3.8 }, bar.text);
  });
}

function dotOf(dot, scale, lanes) {
  return svg("circle", { class: `dot hue-${dot.hue}`, cx: scale.at(dot.at), cy: lanes[dot.lane].middle(dot.row), r: 4.5 }, svg("title", {}, dot.hint ?? ""));
}

function arrowOf(arrow, scale, lanes) {
  const [x1, x2] = [scale.at(arrow.at), scale.at(arrow.until)];
  const down = arrow.to > arrow.from ? 1 : -1;
  const y1 = lanes[arrow.from].middle(arrow.fromRow) + down * 5;
  const y2 = lanes[arrow.to].middle(arrow.toRow) - down * 6;
  const bend = (y2 - y1) * 0.55;
  return svg("g", { class: `hue-${arrow.hue}` },
    svg("path", { class: `arrow${arrow.reply ? " reply" : ""}`, d: `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`, "marker-end": `url(#head-${arrow.hue})` }, svg("title", {}, arrow.hint ?? arrow.text ?? "")),
    arrow.text && svg("text", { class: "arrow-text", x: Math.max(x1, x2) + 7, y: y2 - down * 12 + 3 }, cut(arrow.text, 30)));
}

function cut(text, length) {
  const whole = String(text ?? "");
  return whole.length > length ? `${whole.slice(0, length - 1)}…` : whole;
}

export function legend(entries) {
  return h("div", { class: "legend" }, entries.map(([hue, text]) => h("span", {}, h("i", { class: `hue-${hue}` }), text)));
}
