/**
 * The client of a streaming session: sends with confirmation, subscriptions with credit, reconnection.
 *
 * Law: nothing is lost and nothing doubled by a lost connection. What the node has not confirmed is sent again under the same
 * numbers; subscriptions are made again; acknowledgements that had not left go first. An acknowledgement that was under way
 * when a node stopped may be lost: its message comes again, marked `redelivered`.
 */

import { randomUUID } from "node:crypto";

import { NotKnown, SendGivenUp, SendRejected, Unconfirmed } from "./errors.js";
import * as frames from "./frames.js";
import * as options from "./options.js";
import { Call, Outbox } from "./outbox.js";
import { Session } from "./session.js";
import { sessionUri } from "./socket.js";
import { currentTask } from "./tasks.js";
import { until } from "./waits.js";

const DEFAULT_ADDRESS = "http://127.0.0.1:7600";
const LARGEST = 16 * 1024 * 1024 - 64 * 1024;
const DEFAULTS = {
  session: "",
  secret: "",
  account: "",
  password: "",
  producer: "",
  timeout: 10_000,
  windowMessages: 65_536,
  windowBytes: 32 * 1024 * 1024,
  keepAlive: 15_000,
  onConnected: () => {},
  onLost: () => {},
  WebSocket: undefined,
};
const CHECKS = {
  session: options.text,
  secret: options.text,
  account: options.text,
  password: options.text,
  producer: options.text,
  timeout: options.milliseconds,
  windowMessages: options.atLeastOne,
  windowBytes: options.atLeastOne,
  keepAlive: options.milliseconds,
  onConnected: options.listener,
  onLost: options.listener,
  WebSocket: options.listener,
};
const READING = { credit: 500, durable: "", group: "", own: true, retained: true };
const READING_CHECKS = {
  credit: options.atLeastOne,
  durable: options.text,
  group: options.text,
  own: options.flag,
  retained: options.flag,
};
const NO_WEBSOCKET =
  "this runtime has no WebSocket: use Node.js 22 or later, `node --experimental-websocket` from 20.10 on," +
  " or give the option `WebSocket`, the class of the package ws for example";

/**
 * A client of the node at `address` (http, https, ws or wss; port 7600 unless given), or of the first of several that answers.
 * Throws `ConnectFailed` or `SessionRefused`.
 */
export async function connect(address = DEFAULT_ADDRESS, given = {}) {
  const client = new Client(address, given);
  await client.open();
  return client;
}

/** Made by `connect`. */
export class Client {
  #session;
  #outbox;
  #timeout;

  constructor(address, given) {
    const said = options.settled(given, DEFAULTS, CHECKS);
    if (said.password && !said.account) {
      throw new TypeError("a password is an account's: give `account` too, or the session secret as `secret`");
    }
    said.WebSocket ??= globalThis.WebSocket;
    if (!said.WebSocket) throw new TypeError(NO_WEBSOCKET);
    const fresh = randomUUID().replaceAll("-", "");
    const addresses = Array.isArray(address) ? address : [address];
    if (!addresses.length) throw new TypeError("no address of a node: expected one or more");
    this.name = said.session || `session-${fresh}`;
    this.#timeout = said.timeout;
    this.#outbox = new Outbox(said.windowMessages, said.windowBytes);
    const login = {
      session: this.name,
      secret: said.account ? said.password : said.secret,
      producer: said.producer || `${this.name}-${fresh}`,
      account: said.account,
    };
    const rest = { ...said, stays: Boolean(said.producer) };
    this.#session = new Session(addresses.map(sessionUri), login, this.#outbox, rest);
  }

  /** Name of the node that the client is, or was last, connected to. */
  get node() {
    return this.#session.node;
  }

  /** 'connected', 'not connected' (it tries again by itself) or 'closed'. */
  get state() {
    return this.#session.state;
  }

  /** Number of this producer's last message that is on disk at the node, or was rejected. */
  get committed() {
    return this.#outbox.settledThrough;
  }

  open() {
    return this.#session.open();
  }

  /** Waits for the last confirmations, `timeout` milliseconds, and ends. Throws `Unconfirmed` if they did not come. */
  async close() {
    const session = this.#session;
    if (session.error) return;
    const timeout = this.#timeout;
    const settled = async () => {
      while (this.#outbox.unconfirmed) await session.moved();
      await session.sendRest();
    };
    await until(settled, { timeout }, (cause) => cause).catch(() => {});
    const left = this.#outbox.unconfirmed;
    session.close();
    if (left) throw new Unconfirmed(left);
  }

  [Symbol.asyncDispose]() {
    return this.close();
  }

  // --- sending

  /**
   * Sends one message; done when the node has it on disk. Returns how far a topic's message goes from there, null for a
   * queue's. Throws `SendRejected`, and `SendGivenUp` where `timeout` or `signal` ends the wait: what was not sent is taken
   * back then.
   */
  async send(destination, payload, given = {}) {
    const call = new Call();
    await this.#give(call, given, [this.#message(destination, payload, given)]);
    return call.matched;
  }

  /** Sends many messages to one destination; done when all are on disk. */
  async sendMany(destination, payloads, given = {}) {
    const messages = Array.from(options.several("payloads", payloads), (payload) => this.#message(destination, payload, given));
    await this.#give(new Call(), given, messages);
  }

  #message(destination, payload, given) {
    const task = options.objectOf("options", given) && currentTask();
    const own = task && given.taskId === undefined ? { ...given, taskId: task } : given;
    const made = options.messageOf(destination, payload, own);
    const size = made.message.length;
    if (size <= LARGEST) return made;
    const text = `${size} bytes: a session takes messages of at most ${LARGEST}`; // a larger one would end each connection
    throw new SendRejected([{ first: 0, last: 0, code: "TOO_LARGE", text }]);
  }

  async #give(call, given, messages) {
    const { timeout, signal } = options.objectOf("options", given);
    this.#session.checkOpen();
    const sending = () => {
      messages.forEach((message) => this.#outbox.add(message, call));
      call.end();
      this.#session.work();
      return call.promise;
    };
    await until(sending, { timeout, signal }, (cause) => {
      const isUnsent = this.#outbox.withdraw(call);
      this.#session.work();
      this.#session.look();
      return new SendGivenUp(!isUnsent, cause);
    });
  }

  // --- queues and subscriptions

  /**
   * Makes a queue and returns its name. '' = a transient one with a fresh name, for replies. One that exists is no error. Throws
   * `RequestFailed`, or `RequestGivenUp`.
   */
  create(name = "", given = {}) {
    const { home = false, ...wait } = options.objectOf("options", given);
    if (name !== "") options.queueName(name);
    options.flag("home", home);
    const what = `creating queue ${name || "(transient)"}`;
    return this.#session.request(what, (number) => frames.create(number, name, home), wait);
  }

  /** Deletes a queue with all its messages; its subscriptions end. It takes the right to make it. */
  async delete(name, given = {}) {
    options.queueName(name);
    this.#session.checkOpen();
    if (!this.#session.knows.deletes) {
      throw new NotKnown(`node ${this.node} is of a version in which only an operator deletes queues`);
    }
    await this.#session.request(`deleting queue ${name}`, (number) => frames.remove(number, name), given);
  }

  /** Reads a queue or a topic pattern: `for await (const delivery of client.subscribe(…))`. */
  subscribe(destination, given = {}) {
    const where = options.destinationOf(destination);
    return this.#session.subscribe(where, destination, options.settled(given, READING, READING_CHECKS));
  }

  /** Ends this session's durable subscription of that name for good, with all that waits for it. */
  async endSubscription(durable, given = {}) {
    options.text("durable", durable);
    const what = `ending the durable subscription ${durable}`;
    await this.#session.request(what, (number) => frames.endSubscription(number, durable), given);
  }
}
