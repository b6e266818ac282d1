/** A subscription: an asynchronous iterator of deliveries. */

import { RequestGivenUp } from "./errors.js";
import { Memory, unpacked } from "./inbox.js";
import { until } from "./waits.js";

/** Made by `Client.subscribe`. One reader iterates it; leaving the loop closes it. */
export class Subscription {
  #session;
  #memory;
  #source = { isOver: false };
  #frames = [];
  #deliveries = [];
  #error = null;
  #isClosed = false;
  #wakers = new Set();
  #grant;
  #granted = new Promise((resolve) => (this.#grant = resolve));

  constructor(session, number, where, destination, options) {
    this.#session = session;
    this.#memory = new Memory(Math.max(4096, 2 * options.credit));
    this.number = number;
    this.where = where;
    this.destination = destination;
    this.options = options;
  }

  // --- for the application

  /**
   * Waits until the node has granted it. Throws `RequestFailed`, or `RequestGivenUp`: it is asked for all the same, until it
   * is closed.
   */
  async ready(given = {}) {
    await until(() => this.#granted, given, (cause) => new RequestGivenUp(`subscribing to ${this.destination}`, cause));
    if (this.#error) throw this.#error;
    return this;
  }

  /** The next message; null if none came until the wait was given up, or the subscription was closed. */
  async take(given = {}) {
    let isGivenUp = false;
    let wake;
    const arrived = async () => {
      while (!isGivenUp && !this.#hasNext()) {
        if (this.#error) throw this.#error;
        if (this.#isClosed) return null;
        await new Promise((resolve) => this.#wakers.add((wake = resolve)));
      }
      return isGivenUp ? null : this.#deliveries.shift();
    };
    try {
      return await until(arrived, given, (cause) => {
        isGivenUp = true;
        this.#wakers.delete(wake);
        return new RequestGivenUp("", cause);
      });
    } catch (error) {
      if (isGivenUp) return null;
      throw error;
    }
  }

  async next() {
    const value = await this.take();
    return value === null ? { value: undefined, done: true } : { value, done: false };
  }

  async return() {
    this.close();
    return { value: undefined, done: true };
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  /** Ends it. What was not acknowledged is given to other readers. */
  close() {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#frames = [];
    this.#deliveries = [];
    this.#grant();
    this.#wake();
    this.#session.leave(this);
  }

  #hasNext() {
    while (!this.#deliveries.length && this.#frames.length) this.#unpack(this.#frames.shift());
    return this.#deliveries.length > 0;
  }

  #unpack(frame) {
    const found = unpacked(frame, this.#memory, this.#endOf(this.#source));
    for (const { id, error } of found.unreadable) this.#session.refuse(id, `UNREADABLE: ${error}`);
    for (const id of found.again) this.#session.acknowledge(id);
    this.#deliveries.push(...found.deliveries);
  }

  /** How a delivery ends; one from a store that is another's now ends nowhere. */
  #endOf(source) {
    const session = this.#session;
    const memory = this.#memory;
    return {
      ack: (id, bundle, index) => {
        if (source.isOver) return;
        memory.acknowledge(bundle, index);
        session.acknowledge(memory.idOf(bundle, index, id));
      },
      nack: (id, bundle, index) => {
        if (source.isOver) return;
        session.giveBack(memory.idOf(bundle, index, id));
        memory.forget(bundle, index);
      },
      reject: (id, bundle, index, reason) => {
        if (source.isOver) return;
        session.refuse(memory.idOf(bundle, index, id), reason);
        memory.forget(bundle, index);
      },
    };
  }

  #wake() {
    const wakers = [...this.#wakers];
    this.#wakers.clear();
    wakers.forEach((wake) => wake());
  }

  // --- for the session

  granted() {
    this.#grant();
  }

  /** The node refuses it, or the client is over. */
  failed(error) {
    this.#error ??= error;
    this.#grant();
    this.#wake();
  }

  arrived(frame) {
    if (this.#isClosed) return;
    this.#frames.push(frame);
    this.#wake();
  }

  /** The client is at another node's store: what was handed out may come again, and is new then. */
  move() {
    this.#source.isOver = true;
    this.#source = { isOver: false };
    this.#memory.forgetOpen();
    this.#deliveries = [];
  }

  /** The connection was lost: the node gives again what is not yet handed out. */
  forgetWaiting() {
    this.#frames = [];
  }
}
