// From what the nodes remember to a picture: the hops of one message, or the events of a task.
//
// The node tells each event's time as UTC (`at`) and as milliseconds since the first of the story (`ms`); where
// it tells only one of them, the other follows from it.

import { duration, instant, milliseconds, visible } from "./format.js";

const WORDS = {
  entered: "entered",
  arrived: "arrived",
  committed: "on disk",
  sent: "sent",
  acknowledged: "acknowledged",
  delivered: "given to its reader",
  dealt_with: "dealt with",
  returned: "given back",
  rerouted: "routed again",
  kept: "is kept here",
  dead: "dead letter",
  expired: "expired",
  dropped: "dropped",
  refused: "refused",
};
const HUES = {
  entered: "commit", arrived: "commit", committed: "commit", sent: "line", acknowledged: "line",
  delivered: "work", dealt_with: "work", returned: "wait", rerouted: "wait", kept: "wait",
};
const STEPS = ["arrived", "committed", "sent", "acknowledged", "delivered", "dealt_with"];

export const wordOf = (kind) => WORDS[kind] ?? String(kind);
export const hueOf = (kind) => HUES[kind] ?? "bad";

// Events with both kinds of time, in order; what has neither is left out.
function timed(events) {
  const withAt = events.map((event, order) => ({ ...event, order, kind: event.kind ?? event.event ?? "", at: instant(event.at) }));
  const known = withAt.map((event) => event.at).filter((at) => at !== null);
  const first = known.length ? Math.min(...known) : 0;
  const usable = withAt.filter((event) => event.at !== null || Number.isFinite(event.ms));
  for (const event of usable) event.ms = Number.isFinite(event.ms) ? event.ms : event.at - first;
  usable.sort((one, other) => one.ms - other.ms || one.order - other.order);
  return { events: usable, first };
}

// The events of a hop; a node that tells only the moments of its steps has one event for each.
function eventsOf(hop) {
  if (hop.events?.length) return hop.events.map((event) => ({ ...event, node: hop.node }));
  return STEPS.filter((step) => hop[step]).map((step) => ({
    node: hop.node,
    kind: step,
    at: hop[step],
    ms: hop.ms?.[step],
    neighbour: { arrived: hop.came, sent: listed(hop.to)[0], acknowledged: listed(hop.to)[0] }[step],
  }));
}

const listed = (value) => (Array.isArray(value) ? value : value ? [value] : []);

// {picture, rows, first} of a message's path.
export function messagePath(found) {
  const hops = found?.hops ?? [];
  const { events, first } = timed(hops.flatMap(eventsOf));
  const picture = { lanes: hops.map(laneOf), bars: [], dots: [], arrows: [] };
  hops.forEach((hop, lane) => addHop(picture, lane, hop, events, hops));
  return { picture, first, rows: events.map((event, place) => rowOf(event, place, noteOf(event))) };
}

function laneOf(hop) {
  const came = hop.came ? `from ${hop.came}` : "entered here";
  const shift = Math.abs(hop.clock_shifted_s ?? 0) >= 0.001 ? `, clock ${hop.clock_shifted_s > 0 ? "+" : ""}${duration(hop.clock_shifted_s)}` : "";
  return { name: hop.node, note: came + shift };
}

function addHop(picture, lane, hop, events, hops) {
  const own = events.filter((event) => event.node === hop.node);
  const one = (kind) => own.find((event) => event.kind === kind);
  const bar = (from, to, hue, text, row = 0) => {
    if (from && to && to.ms >= from.ms) picture.bars.push({ lane, row, from: from.ms, to: to.ms, hue, text, hint: `${hop.node}: ${text}, ${milliseconds(to.ms - from.ms)}` });
  };
  const came = one("arrived") ?? one("entered");
  const committed = one("committed");
  const next = own.find((event) => event.kind === "sent" || event.kind === "delivered");
  bar(came, committed, "commit", "to disk");
  bar(committed ?? came, next, "wait", "waits");
  const sent = own.filter((event) => event.kind === "sent");
  sent.forEach((event, row) => {
    const again = own.find((other) => other.kind === "acknowledged" && (other.neighbour ?? "") === (event.neighbour ?? "") && other.ms >= event.ms);
    bar(event, again, "line", sent.length > 1 ? `to ${event.neighbour}` : "on the line", row);
    addArrow(picture, lane, event, row, hops, events);
  });
  const readers = own.filter((event) => event.kind === "delivered");
  readers.forEach((event, row) => {
    const end = own.find((other) => ["dealt_with", "returned"].includes(other.kind) && (other.session ?? "") === (event.session ?? "") && other.ms >= event.ms);
    bar(event, end, end?.kind === "returned" ? "wait" : "work", "with its reader", sent.length + row);
  });
  for (const event of own) {
    const row = event.kind === "sent" || event.kind === "acknowledged" ? Math.max(sent.findIndex((other) => other.neighbour === event.neighbour), 0)
      : ["delivered", "dealt_with", "returned"].includes(event.kind) ? sent.length + Math.max(readers.findLastIndex((other) => other.session === event.session && other.ms <= event.ms), 0) : 0;
    picture.dots.push({ lane, row, at: event.ms, hue: hueOf(event.kind), hint: `${hop.node}: ${wordOf(event.kind)}, +${milliseconds(event.ms)}` });
  }
}

function addArrow(picture, lane, event, row, hops, events) {
  const to = hops.findIndex((hop) => hop.node === event.neighbour);
  if (to < 0 || to === lane) return;
  const arrived = events.find((other) => other.node === event.neighbour && other.kind === "arrived" && [undefined, "", hops[lane].node].includes(other.neighbour));
  if (!arrived) return;
  const took = milliseconds(arrived.ms - event.ms);
  picture.arrows.push({ from: lane, fromRow: row, at: event.ms, to, toRow: 0, until: arrived.ms, hue: "line", text: took, hint: `${hops[lane].node} → ${event.neighbour}: ${took}` });
}

function noteOf(event) {
  const notes = [];
  if (event.kind === "arrived" && event.neighbour) notes.push(`from ${event.neighbour}`);
  if (event.kind === "sent" && event.neighbour) notes.push(`to ${event.neighbour}`);
  if (event.kind === "acknowledged" && event.neighbour) notes.push(`by ${event.neighbour}: it is on disk there`);
  if (event.session) notes.push(`session ${event.session}`);
  if (event.processing_s !== undefined) notes.push(`after ${duration(event.processing_s)}`);
  if (event.place) notes.push(event.place);
  if (event.reason) notes.push(event.reason);
  return notes.map(visible).join(" · ");
}

const rowOf = (event, place, more) => ({ key: String(place), ms: event.ms, at: event.at, node: event.node ?? "", what: wordOf(event.kind), hue: hueOf(event.kind), more });

// --- tasks

const TRANSIENT = /^transient-[^@]*(@|$)/; // such a queue is made to take replies
const bare = (name) => String(name ?? "").replace(/^queue:/, "");
const queueOf = (event) => bare(event.queue ?? event.destination);
const messageOf = (event) => event.message ?? event.id ?? `${queueOf(event)} ${event.correlation_id}`;

// {picture, rows, first, messages} of a task: a lane a node, in it a row for each message that is there at the
// same time as others; a bar for as long as a reader had it; arrows for requests and, dashed, for replies.
export function taskTimeline(found) {
  const { events, first } = timed(found?.events ?? []);
  const nodes = [...new Set(events.map((event) => event.node ?? ""))];
  const picture = { lanes: nodes.map((name) => ({ name, note: "" })), bars: [], dots: [], arrows: [] };
  const repliesTo = new Set(events.map((event) => bare(event.reply_to)).filter(Boolean));
  const isReply = (event) => TRANSIENT.test(queueOf(event)) || repliesTo.has(queueOf(event)) || repliesTo.has(queueOf(event).split("@")[0]);
  const stays = new Map();
  for (const event of events) {
    const key = JSON.stringify([messageOf(event), event.node]);
    if (!stays.has(key)) stays.set(key, { message: messageOf(event), lane: nodes.indexOf(event.node ?? ""), reply: isReply(event), what: queueOf(event), events: [] });
    stays.get(key).events.push(event);
  }
  packed([...stays.values()]);
  for (const stay of stays.values()) addStay(picture, stay);
  const ways = new Map();
  for (const stay of stays.values()) ways.set(stay.message, [...(ways.get(stay.message) ?? []), stay]);
  for (const way of ways.values()) addWay(picture, way);
  const rows = events.map((event, place) => ({ ...rowOf(event, place, [queueOf(event), noteOf(event)].filter(Boolean).map(visible).join(" · ")), reply: isReply(event), message: event.message ?? event.id }));
  return { picture, rows, first, messages: ways.size };
}

// Gives each stay the first row of its lane that is free for as long as it lasts.
function packed(stays) {
  const ends = new Map();
  for (const stay of stays) {
    [stay.from, stay.to] = [stay.events[0].ms, stay.events.at(-1).ms];
    const rows = ends.get(stay.lane) ?? [];
    ends.set(stay.lane, rows);
    const free = rows.findIndex((end) => end < stay.from);
    stay.row = free < 0 ? rows.length : free;
    rows[stay.row] = stay.to;
  }
}

function addStay(picture, stay) {
  const { lane, row, events, reply } = stay;
  const name = reply ? `reply` : visible(stay.what);
  picture.bars.push({ lane, row, from: stay.from, to: stay.to, hue: reply ? "line" : "commit", soft: true, text: name, hint: `${visible(stay.what)}: here for ${milliseconds(stay.to - stay.from)}` });
  const given = events.find((event) => event.kind === "delivered");
  const done = given && events.findLast((event) => ["dealt_with", "returned"].includes(event.kind));
  if (done) picture.bars.push({ lane, row, from: given.ms, to: done.ms, hue: "work", text: name, hint: `${visible(stay.what)}: with its reader for ${milliseconds(done.ms - given.ms)}` });
  for (const event of events) {
    picture.dots.push({ lane, row, at: event.ms, hue: hueOf(event.kind), hint: `${event.node}: ${wordOf(event.kind)}, ${visible(stay.what)}, +${milliseconds(event.ms)}` });
  }
}

// Arrows from node to node, in the order in which a message came to them.
function addWay(picture, way) {
  way.slice(1).forEach((stay, place) => {
    const before = way[place];
    const neighbour = stay.events[0].node;
    const left = before.events.find((event) => event.kind === "sent" && [undefined, neighbour].includes(event.neighbour)) ?? before.events.find((event) => event.kind === "sent") ?? before.events[0];
    const reply = stay.reply;
    picture.arrows.push({
      from: before.lane, fromRow: before.row, at: Math.min(left.ms, stay.from), to: stay.lane, toRow: stay.row, until: stay.from, hue: reply ? "line" : "commit", reply,
      text: place === 0 ? (reply ? "reply" : visible(stay.what)) : "", hint: `${visible(stay.what)}: ${before.events[0].node} → ${neighbour}, ${milliseconds(stay.from - left.ms)}`,
    });
  });
}
