/**
 * What a caller gives, checked at the call: a wrong type is a `TypeError`, a value out of range a `RangeError`, and each
 * says what was expected. So nothing is sent that a node would not read.
 */

import { encode, wellFormed } from "./msgpack.js";

const MOST = (1n << 64n) - 1n;
const LEAST = -(1n << 63n);
const NODE = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const LONGEST_QUEUE = 255;
const utf8 = new TextEncoder();

function shown(value) {
  const text = typeof value === "string" ? JSON.stringify(value) : typeof value === "bigint" ? `${value}n` : String(value);
  return text.slice(0, 80);
}

function wrong(name, value, expected) {
  return new TypeError(`${name}: ${shown(value)} (${value === null ? "null" : typeof value}): expected ${expected}`);
}

export function text(name, value) {
  if (typeof value !== "string") throw wrong(name, value, "a text");
  try {
    return wellFormed(value);
  } catch (error) {
    throw new TypeError(`${name}: ${error.message}`);
  }
}

/** Named options: of a number, or a signal, nothing would be read, and nobody told. */
export function objectOf(name, value, expected = "an object, as {timeout: 5000}") {
  const isRight = value && typeof value === "object" && !Array.isArray(value) && !(value instanceof AbortSignal);
  if (!isRight) throw wrong(name, value, expected);
  return value;
}

/** So many of its characters, none of them cut in two. */
export function shortened(value, most) {
  return [...value.slice(0, 2 * most)].slice(0, most).join("");
}

export function flag(name, value) {
  if (typeof value !== "boolean") throw wrong(name, value, "true or false");
  return value;
}

/** A whole number, `number` or `bigint`. */
function whole(least, most, expected) {
  return (name, value) => {
    const isWhole = typeof value === "bigint" || (typeof value === "number" && Number.isInteger(value));
    if (!isWhole) throw wrong(name, value, expected);
    if (typeof value === "number" && !Number.isSafeInteger(value)) {
      throw new RangeError(`${name}: ${value} is not exact: give a bigint`);
    }
    if (value < least || value > most) throw new RangeError(`${name}: ${value}: expected ${expected}`);
    return value;
  };
}

function rounded(round, expected) {
  const check = whole(0, MOST, expected);
  return (name, value) => check(name, typeof value === "number" && Number.isFinite(value) ? round(value) : value);
}

const since1970 = rounded(Math.floor, "seconds since 1970, or a Date");

function headers(name, value) {
  const isMap = value instanceof Map || [Object.prototype, null].includes(value && Object.getPrototypeOf(value));
  if (!value || typeof value !== "object" || !isMap) throw wrong(name, value, "an object of names and values");
  const copy = value instanceof Map ? Object.fromEntries(value) : { ...value };
  try {
    encode(copy);
  } catch (error) {
    throw new error.constructor(`${name}: ${error.message}`);
  }
  return copy;
}

function bytesOf(name, value) {
  if (typeof value === "string") return utf8.encode(text(name, value));
  if (value instanceof Uint8Array) return value;
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  throw wrong(name, value, "a text, a Uint8Array or an ArrayBuffer (JSON.stringify makes a text)");
}

const FOREIGN = {
  correlation: ["correlation", bytesOf],
  contentEncoding: ["content-encoding", text],
  type: ["type", text],
  appId: ["app-id", text],
  userId: ["user-id", text],
  qos: ["qos", whole(0, 2, "0, 1 or 2")],
  utf8: ["utf8", flag],
};

function foreign(name, value) {
  if (!value || Object.getPrototypeOf(value) !== Object.prototype) throw wrong(name, value, "an object");
  return named(value, FOREIGN, `${name}.`);
}

/** By our name: the name on the wire, and how it is checked. */
const PROPERTIES = {
  correlationId: ["correlation-id", whole(LEAST, MOST, "a whole number of 64 bits (bytes: foreign: {correlation})")],
  replyTo: ["reply-to", text],
  taskId: ["task-id", text],
  expiresIn: ["expires-in", rounded(Math.ceil, "milliseconds")],
  messageId: ["message-id", text],
  contentType: ["content-type", text],
  timestamp: [
    "timestamp",
    (name, value) => since1970(name, value instanceof Date ? value.getTime() / 1000 : value),
  ],
  priority: ["priority", whole(0, 255, "a whole number from 0 to 255")],
  interface: ["interface", text],
  interfaceVersion: ["interface-version", text],
  headers: ["headers", headers],
  foreign: ["foreign", foreign],
};
const ROUTE = {
  persistent: flag,
  retained: flag,
  tell: flag,
  scope: (name, value) => {
    if (![-1, 0, 1].includes(value)) throw wrong(name, value, "0 (vertical), 1 (tree) or -1 (as the node has it)");
    return value;
  },
};

/** What is named, by names on the wire; null where nothing is. What is undefined was not given. */
function named(given, known, before = "") {
  const found = Object.entries(given).filter(([, value]) => value !== undefined);
  if (!found.length) return null;
  return Object.fromEntries(
    found.map(([name, value]) => {
      if (!Object.hasOwn(known, name)) {
        throw new TypeError(`there is no option '${before}${name}': there are ${Object.keys(known).join(", ")}`);
      }
      const [onWire, check] = known[name];
      return [onWire, check(before + name, value)];
    }),
  );
}

/** The properties of a message as the application knows them, from those on the wire. */
export function propertiesFrom(onWire) {
  return renamed(onWire, PROPERTIES, (name, value) => (name === "foreign" ? renamed(value, FOREIGN) : value));
}

function renamed(onWire, known, converted = (_, value) => value) {
  const found = {};
  for (const [ours, [theirs]] of Object.entries(known)) {
    if (Object.hasOwn(onWire, theirs) && onWire[theirs] !== null) found[ours] = converted(ours, onWire[theirs]);
  }
  return found;
}

/** A destination as frames have it: `[kind, name, node]`. */
export function destinationOf(given) {
  const where = text("destination", given);
  const [, kind, name] = /^(queue|topic):(.+)$/su.exec(where) ?? [];
  if (kind === "topic") return [kind, name, ""];
  if (kind !== "queue") {
    throw new RangeError(
      `${shown(where)} is no destination: expected 'queue:NAME', 'queue:NAME@NODE' or 'topic:PATTERN'`,
    );
  }
  const at = name.indexOf("@");
  const [queue, node] = at < 0 ? [name, ""] : [name.slice(0, at), name.slice(at + 1)];
  if (at >= 0 && !NODE.test(node)) throw new RangeError(`${shown(where)}: ${shown(node)} is no name of a node`);
  return [kind, queueName(queue), node === "local" ? "" : node];
}

export function queueName(name) {
  if (!name || [...text("name", name)].length > LONGEST_QUEUE || /[\0-\x1f\x7f@]/.test(name)) {
    throw new RangeError(
      `${shown(name)} is no queue name: expected 1 to ${LONGEST_QUEUE} characters without control characters` +
        " and without '@' (which stands before a node's name)",
    );
  }
  return name;
}

/** A message and its way: `{route, message}`; `message` is encoded. */
export function messageOf(destination, payload, given) {
  const { timeout, signal, ...options } = objectOf("options", given);
  const where = destinationOf(destination);
  const way = { persistent: true, retained: false, scope: -1, tell: false };
  const properties = {};
  for (const [name, value] of Object.entries(options)) {
    if (!Object.hasOwn(ROUTE, name)) properties[name] = value;
    else if (value !== undefined) way[name] = ROUTE[name](name, value);
  }
  const said = checkedProperties(properties);
  if (way.tell && (where[0] !== "queue" || !options.replyTo)) {
    throw new RangeError(`${destination} with tell: expected a queue, and a replyTo where the notice goes`);
  }
  const bytes = bytesOf("payload", payload);
  const message = encode(said ? [bytes, said] : [bytes]);
  const route = { where, ...way, key: JSON.stringify([where, ...Object.values(way)]) };
  return { route, message };
}

function checkedProperties(properties) {
  try {
    return named(properties, PROPERTIES);
  } catch (error) {
    if (!error.message.startsWith("there is no option")) throw error;
    throw new TypeError(`${error.message}, ${Object.keys(ROUTE).join(", ")}, timeout, signal`);
  }
}

/** Options of a client or a subscription, with their defaults. `checks`: by name, from this module. */
export function settled(given, defaults, checks) {
  const found = { ...defaults };
  for (const [name, value] of Object.entries(objectOf("options", given))) {
    if (!Object.hasOwn(defaults, name)) {
      throw new TypeError(`there is no option '${name}': there are ${Object.keys(defaults).join(", ")}`);
    }
    if (value !== undefined) found[name] = checks[name] ? checks[name](name, value) : value;
  }
  return found;
}

const one = whole(1, Number.MAX_SAFE_INTEGER, "a whole number of 1 or more");
export const atLeastOne = (name, value) => Number(one(name, value));

/** A text has an iterator too, of its characters; what has none is an empty array to `Array.from`. */
export function several(name, value) {
  if (typeof value === "string" || !value?.[Symbol.iterator]) throw wrong(name, value, "an array, or what else is iterable");
  return value;
}

/** For ever: a timer takes no more milliseconds. */
export const LONGEST = 2 ** 31 - 1;

export function milliseconds(name, value) {
  if (typeof value !== "number" || !(value > 0)) throw wrong(name, value, "milliseconds, more than 0");
  return Math.min(value, LONGEST);
}

export function listener(name, value) {
  if (typeof value !== "function") throw wrong(name, value, "a function");
  return value;
}
