/**
 * What was sent and is not confirmed: numbers, frames, window, rejections. No I/O.
 *
 * Law: a number is given once, when a frame is sealed, and the frame's bytes are kept until the node's confirmation covers
 * them: after a lost connection the same bytes go out under the same numbers. What is not sealed can be taken back. A
 * rejection is told when it is final, that is confirmed: what is sent again may be taken then. What the window has no room
 * for waits here, in the order in which it was given.
 */

import { SendRejected } from "./errors.js";
import * as frames from "./frames.js";

const MOST_MESSAGES = 256;
const MOST_BYTES = 256 * 1024;
const MUCH = 2 * MOST_MESSAGES; // messages under way, of which the node confirms some in any case

/** A caller that waits for some messages: `promise`. `asks`: the node is to say where a topic's messages go. */
export class Call {
  #open = 0;
  #isWhole = false;
  #resolve;

  constructor() {
    this.isSent = false;
    this.matched = null;
    this.rejections = [];
    this.batches = [];
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.fail = reject;
    });
    this.promise.catch(() => {}); // it may fail before anybody waits
  }

  add() {
    this.#open++;
  }

  /** A message with that number is not taken; those in a row with one reason are told together. */
  reject(number, { code, text }) {
    const latest = this.rejections.at(-1);
    const isSame = latest?.last === number - 1 && latest.code === code && latest.text === text;
    if (isSame) latest.last = number;
    else this.rejections.push({ first: number, last: number, code, text });
  }

  confirm() {
    this.#open--;
    this.#settle();
  }

  /** No further messages follow. */
  end() {
    this.#isWhole = true;
    this.#settle();
  }

  #settle() {
    if (this.#open || !this.#isWhole) return;
    if (this.rejections.length) this.fail(new SendRejected(this.rejections));
    else this.#resolve();
  }
}

/** Feed it with `add`, take `framesToSend`, tell it `confirm` and `reject`. */
export class Outbox {
  #next = 1;
  #waiting = new Map();
  #open = new Map();
  #since = 1; // the next number when the first of the open ones was begun
  #full = [];
  #unsent = [];
  #sent = [];
  #pending = [];
  #most;
  #mostBytes;

  constructor(windowMessages, windowBytes) {
    this.#most = windowMessages;
    this.#mostBytes = windowBytes;
    this.messages = 0;
    this.bytes = 0;
    this.settledThrough = 0;
  }

  get hasRoom() {
    return this.messages < this.#most && this.bytes < this.#mostBytes;
  }

  /** How many are not confirmed, those that wait for room included. */
  get unconfirmed() {
    return [...this.#waiting.values()].reduce((sum, messages) => sum + messages.length, this.messages);
  }

  // --- sending

  add(message, call) {
    call.add();
    const waiting = this.#waiting.get(call);
    if (waiting) waiting.push(message);
    else if (this.hasRoom && !this.#waiting.size) this.#admit(message, call);
    else this.#waiting.set(call, [message]);
  }

  /** There may be room: whoever waits is next. */
  #letIn() {
    for (const [call, messages] of this.#waiting) {
      let count = 0;
      while (this.hasRoom && count < messages.length) this.#admit(messages[count++], call);
      messages.splice(0, count);
      if (messages.length) return;
      this.#waiting.delete(call);
    }
  }

  #admit({ route, message }, call) {
    let batch = this.#open.get(route.key);
    if (batch && batch.bytes + message.length > MOST_BYTES) batch = this.#end(route.key);
    if (!batch) {
      if (!this.#open.size) this.#since = this.#next;
      batch = { route, messages: [], calls: [], bytes: 0, isSealed: false };
      this.#open.set(route.key, batch);
    }
    if (call.batches.at(-1) !== batch) call.batches.push(batch);
    batch.messages.push(message);
    batch.calls.push(call);
    batch.bytes += message.length;
    this.#grow(1, message.length);
    if (batch.messages.length === MOST_MESSAGES) this.#end(route.key);
  }

  #end(key) {
    this.#full.push(this.#open.get(key));
    this.#open.delete(key);
  }

  #grow(count, bytes) {
    this.messages += count;
    this.bytes += bytes;
  }

  /** It is given up: what of it is not sealed is not sent. Was that all? */
  withdraw(call) {
    for (const batch of call.batches.filter(({ isSealed }) => !isSealed)) {
      const kept = batch.calls.flatMap((each, index) => (each === call ? [] : [index]));
      this.#grow(kept.length - batch.calls.length, -batch.bytes);
      batch.messages = kept.map((index) => batch.messages[index]);
      batch.calls = kept.map((index) => batch.calls[index]);
      batch.bytes = batch.messages.reduce((sum, each) => sum + each.length, 0);
      this.#grow(0, batch.bytes);
      if (!kept.length) this.#forget(batch);
    }
    this.#waiting.delete(call);
    this.#letIn();
    return !call.isSent;
  }

  #forget(batch) {
    if (this.#open.get(batch.route.key) === batch) this.#open.delete(batch.route.key);
    else this.#full = this.#full.filter((each) => each !== batch);
  }

  /**
   * The frames that have not been taken yet. While much is under way, what is not full waits for a confirmation of what was
   * under way before it: full ones that go on and on keep nobody back for good.
   */
  framesToSend() {
    const batches = this.#full;
    this.#full = [];
    if (this.#since - 1 - this.settledThrough < MUCH) {
      batches.push(...this.#open.values());
      this.#open.clear();
    }
    batches.forEach((batch) => this.#seal(batch));
    const unsent = this.#unsent;
    this.#unsent = [];
    return unsent;
  }

  #seal(batch) {
    const { route, messages, calls, bytes } = batch;
    batch.isSealed = true;
    const first = this.#next;
    const asks = route.where[0] === "topic";
    calls.forEach((call) => (call.isSent = true));
    this.#next += messages.length;
    const frame = frames.send(first, route, messages.length, frames.joined(messages), asks);
    batch.messages = []; // the frame has them
    this.#sent.push({ first, last: this.#next - 1, bytes, frame, calls });
    this.#unsent.push(frame);
  }

  /** The client is over: everybody who still waits is told. */
  fail(error) {
    const waiting = [...this.#sent, ...this.#full, ...this.#open.values()];
    waiting.forEach(({ calls }) => calls.forEach((call) => call.fail(error)));
    this.#waiting.forEach((_, call) => call.fail(error));
  }

  // --- what the node says

  /**
   * A connection is open; the node has dealt with all up to `last`, and has not taken `rejected`. The rest is to be sent
   * again. Returns false if the node has more of this producer than was sent here: somebody else uses its name.
   */
  begin(last, rejected) {
    if (this.#next === 1 && !this.#sent.length) {
      this.#next = last + 1;
      this.settledThrough = last;
    }
    if (last >= this.#next) return false;
    this.#pending = rejected.filter((each) => each.last > this.settledThrough);
    this.confirm(last);
    this.#unsent = this.#sent.map(({ frame }) => frame);
    return true;
  }

  /** Everything up to `through` is on disk, or rejected. */
  confirm(through) {
    this.settledThrough = Math.max(this.settledThrough, this.#overRejected(through));
    const open = this.#sent.findIndex(({ last }) => last > this.settledThrough);
    for (const sent of this.#sent.splice(0, open < 0 ? this.#sent.length : open)) {
      this.#grow(sent.first - sent.last - 1, -sent.bytes);
      this.#tell(sent);
    }
    this.#pending = this.#pending.filter(({ last }) => last > this.settledThrough);
    this.#letIn();
  }

  /** Rejected numbers directly after `through` are settled as well. */
  #overRejected(through) {
    for (const { first, last } of this.#pending.sort((one, other) => one.first - other.first)) {
      if (first <= through + 1) through = Math.max(through, last);
    }
    return through;
  }

  #tell({ first, calls }) {
    calls.forEach((call, index) => {
      const number = first + index;
      const rejected = this.#pending.find((each) => each.first <= number && number <= each.last);
      if (rejected) call.reject(number, rejected);
      call.confirm();
    });
  }

  reject({ first, last, code, text }) {
    this.#pending.push({ first, last, code, text });
    if (first <= this.settledThrough + 1) this.confirm(last);
  }

  /** How far the messages of a frame go. */
  matched({ first, readers, onward, passedBy, scope }) {
    const sent = this.#sent.find(({ last }) => last >= first);
    sent?.calls.forEach((call) => (call.matched = { readers, onward, passedBy, scope }));
  }
}
