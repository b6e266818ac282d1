/**
 * Frames of the streaming session, as `sapwood/protocol/session_frames.py` describes them: arrays whose first value says
 * which one it is, several of which are a packet.
 */

import { Unreadable, arrayHead, decode, encode } from "./msgpack.js";

const VERSION = 1;
const MAY_BE_IGNORED = 64;
const MOST_IN_PACKET = 0xffff;
const PACKET_BYTES = 1024 * 1024;

export const login = ({ session, secret, producer, account }) =>
  encode([1, VERSION, session, secret, producer, account, true]);
export const create = (request, queue, home) => encode([2, request, queue, home]);
export const subscribe = (request, { number, where, options }) =>
  encode([3, request, number, where, options.credit, options.durable, options.own, options.retained, options.group]);
export const unsubscribe = (request, number) => encode([4, request, number]);
export const send = (first, route, count, body, matched) =>
  encode([5, first, route.where, count, body, route.persistent, route.retained, route.scope, route.tell, matched]);
export const acknowledge = (ranges) => encode([6, ranges]);
export const ping = (number) => encode([7, number]);
export const endSubscription = (request, durable) => encode([8, request, durable]);
export const refuse = (first, last, reason, again) => encode([9, first, last, reason, again]);
export const remove = (request, queue) => encode([10, request, queue]);
export const forget = () => encode([11]);

const FIELDS = {
  21: ["welcome", "node", "session", "last", "limit", "rejected", "refuses", "returns", "store", "deletes", "plain", "forgets"],
  22: ["done", "request", "result"],
  23: ["failed", "request", "code", "text"],
  24: ["confirm", "through"],
  25: ["reject", "first", "last", "code", "text"],
  26: [
    ...["deliver", "subscription", "where", "first", "count", "bundle", "position", "flags", "size", "body", "skip"],
    ...["redelivered", "origin", "again", "elapsed"],
  ],
  27: ["pong", "number"],
  28: ["ended", "subscription", "code", "text"],
  29: ["matched", "first", "last", "readers", "onward", "passedBy", "scope"],
};

/** A frame of the node as an object; `kind` is its name. A field that an older node does not say is undefined. */
function frameOf(values) {
  if (!Array.isArray(values)) throw new Unreadable("a frame that is no array");
  const fields = FIELDS[values[0]];
  if (!fields) {
    if (values[0] >= MAY_BE_IGNORED) return { kind: "" };
    throw new Unreadable(`an unknown frame ${values[0]}`);
  }
  return Object.fromEntries(fields.map((name, at) => (at ? [name, values[at]] : ["kind", name])));
}

/** What a node sent. Throws `Unreadable`. */
export function framesOf(bytes) {
  const values = decode(bytes);
  if (!Array.isArray(values)) throw new Unreadable("a packet that is no array");
  const frames = values.map(frameOf);
  for (const frame of frames) {
    if (frame.kind === "welcome") frame.rejected = (frame.rejected ?? []).map(frameOf);
  }
  return frames;
}

/** Encoded frames as packets, in their order. */
export function packets(frames) {
  const made = [];
  let some = [];
  let size = 0;
  const end = () => {
    if (some.length) made.push(joined([arrayHead(some.length), ...some]));
    some = [];
    size = 0;
  };
  for (const frame of frames) {
    if (size + frame.length > PACKET_BYTES || some.length === MOST_IN_PACKET) end();
    some.push(frame);
    size += frame.length;
  }
  end();
  return made;
}

export function joined(parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
