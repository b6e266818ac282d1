// From what the nodes remember to a picture: the hops of one message, or the events of a task.
//
// A time may come as ISO text, as seconds or milliseconds, or as {at, ms}; all become milliseconds since the
// first of them.

import { clock, duration, instant, milliseconds, visible } from "./format.js";

function absolute(value) {
  if (value && typeof value === "object") return absolute(value.at ?? value.time ?? value.utc);
  return instant(value);
}

// Makes a function that turns absolute times into milliseconds since the earliest.
function since(times) {
  const known = times.filter((time) => time !== null);
  const first = known.length ? Math.min(...known) : 0;
  return { first, ms: (value) => (value === null ? null : Math.round((value - first) * 1000) / 1000) };
}

const STEPS = ["arrived", "committed", "sent", "acknowledged", "delivered", "dealt_with"];

function hopTimes(hop) {
  const found = {};
  for (const step of STEPS) found[step] = absolute(hop[step]);
  if (found.arrived === null) found.arrived = absolute(hop.came) ?? absolute(hop.entered);
  return found;
}

// {picture, rows, first} of a message's path. Rows are for the table: one a step and node, in order.
export function messagePath(found) {
  const hops = (found?.hops ?? []).map((hop) => ({ ...hop, times: hopTimes(hop) }));
  const all = hops.flatMap((hop) => [...Object.values(hop.times), ...(hop.events ?? []).map((event) => absolute(event.at))]);
  const { first, ms } = since(all);
  const picture = { lanes: [], bars: [], dots: [], arrows: [] };
  const rows = [];
  const laneOf = new Map(hops.map((hop, lane) => [hop.node, lane]));
  hops.forEach((hop, lane) => {
    const at = Object.fromEntries(Object.entries(hop.times).map(([step, time]) => [step, ms(time)]));
    picture.lanes.push({ name: hop.node, note: cameFrom(hop) });
    addBars(picture, lane, at, hop);
    addArrow(picture, lane, at, hop, hops, laneOf, ms);
    rows.push(...hopRows(hop, ms));
  });
  rows.sort((one, other) => one.ms - other.ms);
  return { picture, rows, first };
}

function cameFrom(hop) {
  const came = typeof hop.came === "string" && instant(hop.came) === null ? hop.came : hop.from;
  if (hop.delivered && !came) return "entered and delivered";
  if (came) return came === "client" || came === "entered" ? "entered here" : `from ${came}`;
  return hop.delivered ? "delivered here" : "";
}

function addBars(picture, lane, at, hop) {
  const bar = (from, to, hue, text) => {
    if (from !== null && to !== null && to >= from) {
      picture.bars.push({ lane, from, to, hue, text, hint: `${hop.node}: ${text}, ${milliseconds(to - from)}` });
    }
  };
  const next = at.sent ?? at.delivered;
  bar(at.arrived, at.committed, "commit", "to disk");
  bar(at.committed ?? at.arrived, next, "wait", "waits");
  bar(at.sent, at.acknowledged, "line", "on the line");
  bar(at.delivered, at.dealt_with, "work", "with its reader");
  for (const step of STEPS) {
    if (at[step] !== null) picture.dots.push({ lane, at: at[step], hue: hueOf(step), hint: `${hop.node}: ${wordOf(step)}, +${milliseconds(at[step])}` });
  }
  for (const event of hop.events ?? []) {
    const name = event.kind ?? event.event ?? "";
    if (STEPS.includes(name) || name === "entered") continue;
    const time = absolute(event.at);
    if (time !== null && picture.first !== undefined) picture.dots.push({ lane, at: time, hue: hueOf(name), hint: `${hop.node}: ${wordOf(name)}` });
  }
}

function addArrow(picture, lane, at, hop, hops, laneOf, ms) {
  const to = laneOf.get(hop.to) ?? (hop.sent && hops[lane + 1] ? lane + 1 : undefined);
  if (to === undefined || to === lane || at.sent === null) return;
  const arrived = ms(hops[to].times.arrived);
  if (arrived === null) return;
  picture.arrows.push({ from: lane, at: at.sent, to, until: arrived, hue: "line", text: `${milliseconds(arrived - at.sent)}`, hint: `${hop.node} → ${hops[to].node}: ${milliseconds(arrived - at.sent)}` });
}

function hopRows(hop, ms) {
  const steps = STEPS.filter((step) => hop.times[step] !== null).map((step) => ({
    key: `${hop.node} ${step}`, ms: ms(hop.times[step]), at: hop.times[step], node: hop.node, what: wordOf(step, hop), more: moreOf(step, hop), hue: hueOf(step),
  }));
  const others = (hop.events ?? []).filter((event) => !STEPS.includes(event.kind ?? event.event) && (event.kind ?? event.event) !== "entered" && absolute(event.at) !== null);
  return [...steps, ...others.map((event, place) => ({
    key: `${hop.node} ${event.kind ?? event.event} ${place}`, ms: ms(absolute(event.at)), at: absolute(event.at), node: hop.node,
    what: wordOf(event.kind ?? event.event ?? ""), more: event.why ?? event.reason ?? event.extra ?? "", hue: hueOf(event.kind ?? event.event),
  }))];
}

function moreOf(step, hop) {
  if (step === "sent" && hop.to) return `to ${hop.to}`;
  if (step === "acknowledged" && hop.to) return `by ${hop.to}: it is on disk there`;
  if (step === "arrived") return cameFrom(hop);
  if (step === "delivered" || step === "dealt_with") return hop.session ? `session ${hop.session}` : "";
  return "";
}

const WORDS = {
  entered: "entered", arrived: "arrived", committed: "on disk", sent: "sent", acknowledged: "acknowledged", delivered: "given to its reader",
  dealt_with: "dealt with", returned: "returned by its reader", rerouted: "routed again", dead: "dead letter", dropped: "dropped", refused: "refused",
};
const HUES = { arrived: "commit", entered: "commit", committed: "commit", sent: "line", acknowledged: "line", delivered: "work", dealt_with: "work", returned: "wait", rerouted: "wait" };

export const wordOf = (step) => WORDS[step] ?? String(step);
export const hueOf = (step) => HUES[step] ?? "bad";

// --- tasks

// What is one message among a task's events.
const messageOf = (event) => event.message ?? event.id ?? `${event.queue ?? event.destination} ${event.correlation_id}`;
const queueOf = (event) => String(event.queue ?? event.destination ?? "").replace(/^queue:/, "");
const kindOf = (event) => event.kind ?? event.event ?? "";

// {picture, rows, first} of a task: a lane a node, a bar for as long as a reader had a message, arrows for
// requests and, dashed, for replies.
export function taskTimeline(found) {
  const events = (found?.events ?? []).map((event, place) => ({ ...event, place, time: absolute(event.at) })).filter((event) => event.time !== null);
  const { first, ms } = since(events.map((event) => event.time));
  events.sort((one, other) => one.time - other.time || one.place - other.place);
  const nodes = [...new Set(events.map((event) => event.node ?? ""))];
  const lanes = nodes.map((node) => ({ name: node, note: "" }));
  const picture = { lanes, bars: [], dots: [], arrows: [] };
  const repliesTo = new Set(events.map((event) => event.reply_to).filter(Boolean).map((name) => String(name).replace(/^queue:/, "")));
  const messages = new Map();
  for (const event of events) {
    const id = messageOf(event);
    if (!messages.has(id)) messages.set(id, []);
    messages.get(id).push(event);
  }
  const places = new Map();
  for (const own of messages.values()) addMessage(picture, own, nodes, ms, repliesTo, places);
  const rows = events.map((event) => ({
    key: `${event.place}`, ms: ms(event.time), at: event.time, node: event.node ?? "", what: wordOf(kindOf(event)), hue: hueOf(kindOf(event)),
    more: [queueOf(event), event.session && `session ${event.session}`].filter(Boolean).map(visible).join(" · "),
    reply: isReply(event, repliesTo), message: event.message ?? event.id,
  }));
  return { picture, rows, first, messages: messages.size };
}

const isReply = (event, repliesTo) => repliesTo.has(queueOf(event)) && !event.reply_to;

function addMessage(picture, events, nodes, ms, repliesTo, places) {
  const lane = (event) => nodes.indexOf(event.node ?? "");
  const reply = isReply(events[0], repliesTo);
  const what = reply ? "reply" : queueOf(events[0]);
  for (const event of events) {
    picture.dots.push({ lane: lane(event), at: ms(event.time), hue: hueOf(kindOf(event)), offset: offsetOf(event, reply),
      hint: `${event.node}: ${wordOf(kindOf(event))}, ${visible(queueOf(event))}, +${milliseconds(ms(event.time))}` });
  }
  const delivered = events.find((event) => kindOf(event) === "delivered");
  const dealt = events.find((event) => kindOf(event) === "dealt_with" && (!delivered || event.node === delivered.node));
  if (delivered && dealt) {
    picture.bars.push({ lane: lane(delivered), from: ms(delivered.time), to: ms(dealt.time), hue: reply ? "line" : "work", text: what, offset: offsetOf(delivered, reply),
      hint: `${visible(queueOf(delivered))}: with its reader for ${duration((dealt.time - delivered.time) / 1000)}` });
  }
  addArrows(picture, events, lane, ms, reply, what, places);
}

const offsetOf = (_event, reply) => (reply ? 17 : -9);

// From node to node, in the order of first mention.
function addArrows(picture, events, lane, ms, reply, what) {
  const stops = [];
  for (const event of events) {
    const last = stops.at(-1);
    if (last && last.node === event.node) last.left = event.time;
    else if (!stops.some((stop) => stop.node === event.node)) stops.push({ node: event.node, came: event.time, left: event.time, lane: lane(event) });
  }
  stops.slice(1).forEach((stop, place) => {
    const before = stops[place];
    const left = Math.min(leaving(events, before.node) ?? before.came, stop.came);
    picture.arrows.push({ from: before.lane, at: ms(left), to: stop.lane, until: ms(stop.came), hue: reply ? "line" : "commit", reply, text: place === 0 ? visible(what) : "",
      hint: `${visible(what)}: ${before.node} → ${stop.node}` });
  });
}

function leaving(events, node) {
  const own = events.filter((event) => event.node === node);
  return (own.find((event) => kindOf(event) === "sent") ?? own.find((event) => kindOf(event) === "committed") ?? own[0])?.time ?? null;
}

export { clock };
