/**
 * What was received: deliveries, acknowledgements in ranges, and a memory of what the application has. No I/O.
 *
 * Law: a message is acknowledged when the application says so. After a lost connection the node gives again what it has no
 * acknowledgement for; the memory keeps an application from seeing twice what it was handed, as far as this process
 * remembers. Messages are bits at their index in their bundle.
 */

import { Reader, Unreadable } from "./msgpack.js";
import { propertiesFrom, text } from "./options.js";

const RANGES_IN_FRAME = 4096;
const COMPRESSED = 16;
const FLAGS = { persistent: 1, retained: 2, maybeDuplicate: 4, notice: 64 };
const toText = new TextDecoder("utf-8", { fatal: true });
const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Transfer ids that are dealt with and not yet told to the node. */
export class Acks {
  #ranges = [];

  add(first, last) {
    const latest = this.#ranges.at(-1);
    if (latest && latest[1] + 1 === first) latest[1] = last;
    else this.#ranges.push([first, last]);
  }

  /** Everything, merged, in lists that fit a frame each. */
  take() {
    const merged = [];
    for (const [first, last] of this.#ranges.sort(([one], [other]) => one - other)) {
      const latest = merged.at(-1);
      if (latest && first <= latest[1] + 1) latest[1] = Math.max(latest[1], last);
      else merged.push([first, last]);
    }
    this.#ranges = [];
    const lists = [];
    for (let at = 0; at < merged.length; at += RANGES_IN_FRAME) lists.push(merged.slice(at, at + RANGES_IN_FRAME));
    return lists;
  }
}

/** Of one subscription, bounded: the bundles that came last, and those of which the application has some. */
export class Memory {
  #bundles = new Map();
  #most;

  constructor(most) {
    this.#most = most;
  }

  /**
   * `bits` arrived: those that are new here, and those that were acknowledged here before. `base`: the transfer id of the
   * bundle's first message, which is another where the bundle left the node and came back.
   */
  handOut(bundle, bits, base) {
    const known = this.#bundles.get(bundle) ?? { seen: 0n, done: 0n };
    const found = { fresh: bits & ~known.seen, done: bits & known.done };
    known.seen |= bits;
    known.base = base;
    this.#bundles.delete(bundle);
    this.#bundles.set(bundle, known);
    this.#trim();
    return found;
  }

  #trim() {
    for (let tried = 0; this.#bundles.size > this.#most; tried++) {
      const [bundle, known] = this.#bundles.entries().next().value;
      this.#bundles.delete(bundle);
      if (known.seen !== known.done && tried < this.#most) this.#bundles.set(bundle, known);
    }
  }

  /** The transfer id by which the node knows a message now; `otherwise` where it is not remembered. */
  idOf(bundle, index, otherwise) {
    const known = this.#bundles.get(bundle);
    return known ? known.base + index : otherwise;
  }

  acknowledge(bundle, index) {
    const known = this.#bundles.get(bundle);
    if (known) known.done |= 1n << BigInt(index);
  }

  /** It was given back or rejected: it is new if it comes again. */
  forget(bundle, index) {
    const known = this.#bundles.get(bundle);
    if (known) known.seen &= ~(1n << BigInt(index));
  }

  /** What is not acknowledged is new when it comes again. */
  forgetOpen() {
    for (const known of this.#bundles.values()) known.seen = known.done;
  }
}

/** One message. `end` says what becomes of it: `ack(id, bundle, index)`, `nack`, `reject`; the first of them counts. */
export class Delivery {
  #frame;
  #index;
  #end;
  #isEnded = false;

  constructor(frame, index, payload, properties, end) {
    this.#frame = frame;
    this.#index = index;
    this.#end = end;
    this.payload = payload;
    this.properties = properties;
    const [kind, name, node] = frame.where;
    this.destination = `${kind}:${name}${node ? `@${node}` : ""}`;
    this.origin = frame.origin ?? "";
    this.redelivered = Boolean(frame.redelivered || frame.again || frame.flags & FLAGS.maybeDuplicate);
    this.retained = Boolean(frame.flags & FLAGS.retained);
    this.persistent = Boolean(frame.flags & FLAGS.persistent);
    this.notice = Boolean(frame.flags & FLAGS.notice);
  }

  /** The message's identity, unchanged on the whole way through the tree. */
  get id() {
    return `${frameKey(this.#frame)}-${this.#frame.position + this.#index}`;
  }

  /** Tells this message from all others: the sender's own message id, else `id`. */
  get key() {
    return this.properties.messageId || this.id;
  }

  /** The payload as a text. Throws `TypeError` if it is no UTF-8. */
  text() {
    return toText.decode(this.payload);
  }

  /** The payload as JSON. Throws `TypeError` or `SyntaxError`. */
  json() {
    return JSON.parse(this.text());
  }

  /** It is dealt with: the node forgets it. */
  ack() {
    this.#tell("ack");
  }

  /** It is given back, and given again, here or to another reader, `max_deliveries` times at most. */
  nack() {
    this.#tell("nack");
  }

  /** Nobody can deal with it: it becomes a dead letter, with the reason. */
  reject(reason = "") {
    this.#tell("reject", text("reason", reason));
  }

  #tell(what, ...more) {
    if (this.#isEnded) return;
    const { first, position } = this.#frame;
    this.#end[what](first + this.#index, frameKey(this.#frame), position + this.#index, ...more);
    this.#isEnded = true;
  }
}

function frameKey(frame) {
  frame.key ??= hex(frame.bundle);
  return frame.key;
}

function maskOf(skip) {
  return skip?.length ? BigInt(`0x${hex(skip.slice().reverse())}`) : 0n;
}

/**
 * What becomes of a `deliver` frame: `deliveries` that are new, transfer ids to acknowledge `again`, and `unreadable` ones
 * with the reason.
 */
export function unpacked(frame, memory, end) {
  const { first, count, position } = frame;
  const found = { deliveries: [], again: [], unreadable: [] };
  const wanted = ((1n << BigInt(count)) - 1n) & ~maskOf(frame.skip);
  const known = memory.handOut(frameKey(frame), wanted << BigInt(position), first - position);
  const fresh = frame.again ? wanted : known.fresh >> BigInt(position);
  const done = frame.again ? 0n : known.done >> BigInt(position);
  messagesOf(frame).forEach(({ payload, properties, error }, index) => {
    const bit = 1n << BigInt(index);
    if (done & bit) found.again.push(first + index);
    if (error && wanted & bit) found.unreadable.push({ id: first + index, error });
    else if (fresh & bit) found.deliveries.push(new Delivery(frame, index, payload, properties, end));
  });
  return found;
}

/** Exactly `count` messages; one that cannot be read has an `error` instead. */
function messagesOf({ body, count, flags }) {
  if (flags & COMPRESSED) return failed(count, "it is compressed, and was asked for plain");
  const reader = new Reader(body);
  try {
    const messages = Array.from({ length: count }, () => nextMessage(reader));
    if (!reader.isOver) throw new Unreadable("bytes follow the last message");
    return messages;
  } catch (error) {
    return failed(count, error.message);
  }
}

function failed(count, error) {
  return Array.from({ length: count }, () => ({ error }));
}

/** One that cannot be read is passed over; throws `Unreadable` where that cannot be done either. */
function nextMessage(reader) {
  const start = reader.at;
  try {
    const [payload, properties = {}] = reader.value();
    if (!(payload instanceof Uint8Array)) throw new Unreadable("its payload is no bytes");
    return { payload: payload.slice(), properties: propertiesFrom(properties ?? {}) };
  } catch (error) {
    reader.at = start;
    reader.skip();
    return { error: error.message };
  }
}
