// Draws what happened at several nodes as one timeline: a lane for each node, bars for how long something
// took there, arrows for what went from one to the other.
//
// Wrinkle: a message may wait for hours and then cross four nodes in milliseconds. In the scale "even" a
// pause takes room by its order of magnitude, so that both can be read; "true" keeps lengths in proportion.
// Each node's times are by its own clock; an arrow that points backwards is a clock that differs.

import { h, svg } from "./dom.js";
import { milliseconds } from "./format.js";

const LANE = 74;
const TOP = 30;
const LEFT = 148;
const RIGHT = 70;
const BAR = 22;

// Positions of times. `even`: by order of magnitude of the pauses between them.
function scaleOf(times, width, even) {
  const sorted = [...new Set(times)].sort((one, other) => one - other);
  if (sorted.length < 2) return { at: () => LEFT + 8, sorted };
  const gaps = sorted.slice(1).map((time, place) => time - sorted[place]);
  const weights = even ? gaps.map((gap) => 0.35 + Math.log10(1 + gap * 20)) : gaps;
  const whole = weights.reduce((total, weight) => total + weight, 0) || 1;
  const places = new Map([[sorted[0], LEFT + 8]]);
  let x = LEFT + 8;
  gaps.forEach((_, place) => {
    x += (weights[place] / whole) * (width - LEFT - RIGHT);
    places.set(sorted[place + 1], x);
  });
  return { at: (time) => places.get(time) ?? LEFT + 8, sorted };
}

// `picture`: {lanes: [{name, note}], bars: [{lane, from, to, hue, text, hint}], dots: [{lane, at, hue, hint}],
// arrows: [{from, at, to, until, hue, text, reply}]}; times in milliseconds from the first event.
export function timeline(picture, { even = true, width = 900 } = {}) {
  const times = [
    ...picture.bars.flatMap((bar) => [bar.from, bar.to]),
    ...picture.dots.map((dot) => dot.at),
    ...picture.arrows.flatMap((arrow) => [arrow.at, arrow.until]),
  ];
  const crowd = new Set(times).size;
  const whole = Math.max(width, Math.min(LEFT + RIGHT + crowd * 16, 4000));
  const scale = scaleOf(times, whole, even);
  const height = TOP + picture.lanes.length * LANE + 8;
  const drawing = svg("svg", { width: whole, height, viewBox: `0 0 ${whole} ${height}`, role: "img", "aria-label": "Timeline; the table below it says the same" },
    svg("defs", {}, ["commit", "wait", "line", "work", "bad"].map(marker)),
    grid(scale, height),
    picture.lanes.map((lane, place) => laneOf(lane, place, whole)),
    picture.bars.map((bar) => barOf(bar, scale)),
    picture.arrows.map((arrow) => arrowOf(arrow, scale)),
    picture.dots.map((dot) => dotOf(dot, scale)));
  return h("div", { class: "timeline", tabindex: 0, role: "group", "aria-label": "Timeline" }, drawing);
}

const middle = (lane) => TOP + lane * LANE + LANE / 2;

function marker(hue) {
  return svg("marker", { id: `head-${hue}`, class: `hue-${hue}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" },
    svg("path", { class: "head", d: "M0 0.5L8 4L0 7.5z" }));
}

function laneOf(lane, place, width) {
  const y = TOP + place * LANE;
  return svg("g", {},
    place % 2 === 0 && svg("rect", { class: "lane", x: 0, y, width, height: LANE }),
    svg("text", { class: "lane-name", x: 14, y: y + LANE / 2 + (lane.note ? -2 : 4) }, cut(lane.name, 18)),
    lane.note && svg("text", { class: "lane-note", x: 14, y: y + LANE / 2 + 14 }, cut(lane.note, 22)));
}

// Ticks at the events themselves, as many as have room.
function grid(scale, height) {
  let last = -Infinity;
  return scale.sorted.map((time) => {
    const x = scale.at(time);
    if (x - last < 62) return null;
    last = x;
    return [
      svg("line", { class: "grid", x1: x, x2: x, y1: TOP - 6, y2: height - 4 }),
      svg("text", { class: "tick", x, y: TOP - 12 }, time === 0 ? "0" : `+${milliseconds(time)}`),
    ];
  });
}

function barOf(bar, scale) {
  const x = scale.at(bar.from);
  const length = Math.max(scale.at(bar.to) - x, 2);
  const y = middle(bar.lane) - BAR / 2 + (bar.offset ?? 0);
  return svg("g", { class: `hue-${bar.hue}` },
    svg("rect", { class: "bar", x, y, width: length, height: BAR }, svg("title", {}, bar.hint ?? bar.text ?? "")),
    bar.text && length > bar.text.length * 6.2 + 8 && svg("text", { class: "bar-text", x: x + 5, y: y + BAR / 2 + 3.5 }, bar.text));
}

function dotOf(dot, scale) {
  return svg("circle", { class: `dot hue-${dot.hue}`, cx: scale.at(dot.at), cy: middle(dot.lane) + (dot.offset ?? 0), r: 4.5 }, svg("title", {}, dot.hint ?? ""));
}

function arrowOf(arrow, scale) {
  const [x1, x2] = [scale.at(arrow.at), scale.at(arrow.until)];
  const down = arrow.to > arrow.from ? 1 : -1;
  const y1 = middle(arrow.from) + down * (BAR / 2 + 1);
  const y2 = middle(arrow.to) - down * (BAR / 2 + 3);
  const bend = (y2 - y1) * 0.5;
  return svg("g", { class: `hue-${arrow.hue}` },
    svg("path", { class: `arrow${arrow.reply ? " reply" : ""}`, d: `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`, "marker-end": `url(#head-${arrow.hue})` }, svg("title", {}, arrow.hint ?? arrow.text ?? "")),
    arrow.text && svg("text", { class: "arrow-text", x: (x1 + x2) / 2 + 6, y: (y1 + y2) / 2 + 4 }, cut(arrow.text, 30)));
}

function cut(text, length) {
  const whole = String(text ?? "");
  return whole.length > length ? `${whole.slice(0, length - 1)}…` : whole;
}

export function legend(entries) {
  return h("div", { class: "legend" }, entries.map(([hue, text]) => h("span", {}, h("i", { class: `hue-${hue}` }), text)));
}
