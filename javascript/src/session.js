/**
 * The session behind a client: one connection after the other, and what has to be said again on each. The bookkeeping is in
 * `outbox`, `inbox` and `subscription`, which do no I/O.
 */

import { ClientClosed, ConnectFailed, NotKnown, RequestFailed, RequestGivenUp, SessionRefused } from "./errors.js";
import * as frames from "./frames.js";
import { Acks } from "./inbox.js";
import { Unreadable } from "./msgpack.js";
import { shortened } from "./options.js";
import { openSocket } from "./socket.js";
import { Subscription } from "./subscription.js";
import { sleep, until } from "./waits.js";

const FIRST_PAUSE = 50;
const LONGEST_PAUSE = 5000;
const STEADY = 5000;
const SHORTEST_REST = 200;
const MOST_SAID = 300;
const FINAL = ["REFUSED", "BAD_REQUEST", "NOT_LOGGED_IN"];

/** An application's own function; what it throws ends nothing here. */
async function tell(listener, news) {
  try {
    await listener(news);
  } catch (error) {
    console.error("sapwood: what was to be called at a change of the connection failed:", error);
  }
}

/** Calls wait here until somebody rings. */
class Bell {
  #waiting = [];

  ring() {
    const waiting = this.#waiting;
    this.#waiting = [];
    waiting.forEach((wake) => wake());
  }

  wait() {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}

/** After `finish` everything throws its error. Times are milliseconds. */
export class Session {
  #uris;
  #login;
  #options;
  #numbers = 1;
  #store = null;
  #acks = new Acks();
  #requests = new Map();
  #subscriptions = new Map();
  #asked = new Map();
  #loose = [];
  #socket = null;
  #work = new Bell();
  #moved = new Bell();
  #hasWork = false;
  #heard = false;
  #short = 0;
  #began = { at: 0, settled: 0 };
  #over = new AbortController();

  constructor(uris, login, outbox, options) {
    this.#uris = uris;
    this.#login = login;
    this.#options = options;
    this.outbox = outbox;
    this.node = "";
    this.error = null;
    this.knows = {};
  }

  get uri() {
    return this.#uris[0];
  }

  get state() {
    if (this.error) return "closed";
    return this.#socket ? "connected" : "not connected";
  }

  checkOpen() {
    if (this.error) throw this.error;
  }

  /** Connects. Throws `ConnectFailed` or `SessionRefused`. */
  async open() {
    try {
      await this.#connect(performance.now() + this.#options.timeout);
    } catch (error) {
      this.finish(error);
      throw error;
    }
    this.#run();
  }

  /** Nothing goes any more: everybody who waits gets `error`. */
  finish(error) {
    if (this.error) return;
    this.error = error;
    this.#subscriptions.forEach((subscription) => subscription.failed(error));
    this.#requests.forEach(({ reject }) => reject(error));
    this.#requests.clear();
    this.outbox.fail(error);
    this.#socket?.close();
    this.#moved.ring();
    this.#work.ring();
    this.#over.abort();
  }

  // --- for the client

  work() {
    this.#hasWork = true;
    this.#work.ring();
  }

  /** Until the node has said something. Throws what ended the session. */
  async moved() {
    await this.#moved.wait();
    this.checkOpen();
  }

  /** Whoever waits looks again. */
  look() {
    this.#moved.ring();
  }

  /** Asks, also on the next connection if this one is lost. Throws `RequestFailed` or `RequestGivenUp`. */
  async request(what, frameOf, given) {
    this.checkOpen();
    const number = this.#numbers++;
    const asking = () =>
      new Promise((resolve, reject) => {
        const frame = frameOf(number);
        this.#requests.set(number, { what, frame, resolve, reject });
        this.#say(frame);
      });
    try {
      return await until(asking, given, (cause) => new RequestGivenUp(what, cause));
    } finally {
      this.#requests.delete(number);
    }
  }

  subscribe(where, destination, options) {
    this.checkOpen();
    const subscription = new Subscription(this, this.#numbers++, where, destination, options);
    this.#subscriptions.set(subscription.number, subscription);
    this.#say(this.#ask(subscription));
    return subscription;
  }

  /**
   * Gives what is still to be said to the line, if there is one; nobody goes on with numbers of a name that was made up here.
   */
  async sendRest() {
    if (this.knows.forgets && !this.#options.stays) this.#say(frames.forget());
    if (this.#socket) await this.#write(this.#socket);
  }

  // --- for subscriptions

  #ask(subscription) {
    const request = this.#numbers++;
    this.#asked.set(request, subscription);
    return frames.subscribe(request, subscription);
  }

  leave(subscription) {
    if (!this.#subscriptions.delete(subscription.number) || this.error) return;
    this.#say(frames.unsubscribe(this.#numbers++, subscription.number));
  }

  acknowledge(id) {
    this.#acks.add(id, id);
    this.work();
  }

  /** An older node does not know that: it gives them to others, and counts. */
  refuse(id, reason) {
    if (this.knows.refuses) this.#say(frames.refuse(id, id, shortened(reason, MOST_SAID), false));
  }

  giveBack(id) {
    if (!this.knows.returns) {
      throw new NotKnown(`node ${this.node} is of a version that takes no message back: ack it, or reject it`);
    }
    this.#say(frames.refuse(id, id, "", true));
  }

  /** Where there is no connection, the next one begins with all that has to be said then. */
  #say(frame) {
    if (this.#socket) this.#loose.push(frame);
    this.work();
  }

  // --- the connection

  async #run() {
    try {
      while (!this.error) {
        const error = await this.#serve(this.#socket);
        this.#socket.close();
        this.#socket = null;
        if (this.error) break;
        this.#subscriptions.forEach((subscription) => subscription.forgetWaiting());
        await this.#pause(this.#lost(error));
        await this.#connect(Infinity);
      }
    } catch (error) {
      this.finish(error);
    }
  }

  /** Ends early when the session does. */
  async #pause(time) {
    await sleep(time, { signal: this.#over.signal });
    this.checkOpen();
  }

  /** A connection that ends soon after its beginning, with nothing confirmed, may end for what is said on it. */
  #lost(error) {
    const isShort = performance.now() - this.#began.at < STEADY && this.outbox.settledThrough === this.#began.settled;
    this.#short = isShort ? this.#short + 1 : 0;
    tell(this.#options.onLost, error);
    return this.#short > 1 ? Math.min(SHORTEST_REST * 2 ** Math.min(this.#short - 2, 8), LONGEST_PAUSE) : 0;
  }

  async #connect(deadline) {
    for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
      try {
        await this.#logInAnywhere();
        break;
      } catch (error) {
        if (!(error instanceof ConnectFailed) || performance.now() >= deadline) throw error;
      }
      await this.#pause(Math.min(pause + 100 * Math.random(), Math.max(deadline - performance.now(), 0)));
    }
    this.checkOpen();
    this.#began = { at: performance.now(), settled: this.outbox.settledThrough };
    tell(this.#options.onConnected, this.node);
  }

  /** At the first address that answers, which is the first from then on. */
  async #logInAnywhere() {
    let failed;
    for (const _ of [...this.#uris]) {
      try {
        return await this.#logIn();
      } catch (error) {
        if (!(error instanceof ConnectFailed)) throw error;
        failed = error;
        this.#uris.push(this.#uris.shift());
      }
    }
    throw failed;
  }

  async #logIn() {
    this.checkOpen();
    const timeout = Math.ceil(this.#options.timeout / this.#uris.length);
    const given = { timeout, signal: this.#over.signal };
    const socket = await openSocket(this.uri, this.#options.WebSocket, given);
    try {
      const [packet] = frames.packets([frames.login(this.#login)]);
      await socket.send(packet);
      const late = () => new ConnectFailed(`${this.uri} did not answer the login within ${timeout} ms`);
      const [first, ...rest] = this.#read(await until(() => socket.receive(), given, late));
      this.checkOpen();
      this.#welcome(first);
      rest.forEach((frame) => this.#handle(frame));
    } catch (error) {
      socket.close();
      throw error;
    }
    this.#socket = socket;
  }

  #read(packet) {
    try {
      return frames.framesOf(packet);
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      throw new ConnectFailed(`${this.uri} sent what is no packet of a session: ${error.message}`);
    }
  }

  /** The node's answer to the login; then everything that has to be said again. */
  #welcome(said) {
    if (said?.kind === "failed") {
      if (FINAL.includes(said.code)) throw new SessionRefused(said.code, said.text);
      throw new ConnectFailed(`${this.uri} does not take the session now: ${said.text} [${said.code}]`);
    }
    if (said?.kind !== "welcome") throw new ConnectFailed(`${this.uri} answered the login with ${said?.kind}`);
    if (!said.plain) {
      throw new SessionRefused("TOO_OLD", `node ${said.node} is of a version that this library does not speak with`);
    }
    this.#meet(said);
    if (!this.outbox.begin(said.last, said.rejected)) {
      const text = `another client sends as producer '${this.#login.producer}': give each its own`;
      throw new SessionRefused("PRODUCER_IN_USE", text);
    }
    this.node = said.node;
    this.knows = said;
    this.#asked.clear();
    this.#loose = [
      ...[...this.#subscriptions.values()].map((subscription) => this.#ask(subscription)),
      ...[...this.#requests.values()].map(({ frame }) => frame),
    ];
    this.work();
    this.#moved.ring();
  }

  /** Transfer ids, and the numbers of a producer with a name, count in one node's store only. */
  #meet({ node, store }) {
    const known = this.#store;
    const here = { node, store: String(store) };
    if (known && (known.node !== node || known.store !== here.store)) {
      if (this.#options.stays && known.node !== node) {
        const text = `${this.uri} is node ${node}: producer '${this.#login.producer}' counts at ${known.node}`;
        throw new ConnectFailed(text);
      }
      this.#acks.take();
      this.#subscriptions.forEach((subscription) => subscription.move());
    }
    this.#store = here;
  }

  /** Reads, writes and probes until one of them fails; returns why. */
  async #serve(socket) {
    const state = { isOver: false };
    const loops = [this.#reading(socket), this.#writing(socket, state), this.#probing(state)];
    try {
      return await Promise.race(loops);
    } catch (error) {
      if (error instanceof ConnectFailed || this.error) return error;
      throw error;
    } finally {
      state.isOver = true;
      state.timer?.end();
      this.#work.ring();
      socket.close();
      await Promise.allSettled(loops);
    }
  }

  async #reading(socket) {
    for (;;) {
      this.#read(await socket.receive()).forEach((frame) => this.#handle(frame));
      this.#heard = true;
      this.#moved.ring();
    }
  }

  async #writing(socket, state) {
    while (!state.isOver) {
      if (!this.#hasWork) await this.#work.wait();
      if (state.isOver) return;
      await new Promise((resolve) => setImmediate(resolve)); // all that is said in this turn goes together
      this.#hasWork = false;
      await this.#write(socket);
    }
  }

  async #write(socket) {
    const loose = this.#loose;
    this.#loose = [];
    const said = [...this.#acks.take().map(frames.acknowledge), ...loose, ...this.outbox.framesToSend()];
    for (const packet of frames.packets(said)) await socket.send(packet);
  }

  /** After silence asks for a sign of life; after more silence the connection is dead. */
  async #probing(state) {
    const time = this.#options.keepAlive;
    const rest = () =>
      new Promise((resolve) => {
        const timer = setTimeout(resolve, time);
        state.timer = { end: () => (clearTimeout(timer), resolve()) };
      });
    while (!state.isOver) {
      this.#heard = false;
      await rest();
      if (this.#heard || state.isOver) continue;
      this.#say(frames.ping(this.#numbers++));
      await rest();
      if (!this.#heard && !state.isOver) {
        throw new ConnectFailed(`${this.uri} has been silent for ${2 * time} ms`);
      }
    }
  }

  #handle(frame) {
    switch (frame.kind) {
      case "deliver":
        return this.#subscriptions.get(frame.subscription)?.arrived(frame);
      case "confirm":
        this.outbox.confirm(frame.through);
        return this.work();
      case "reject":
        this.outbox.reject(frame);
        return this.work();
      case "matched":
        return this.outbox.matched(frame);
      case "done":
      case "failed":
        return this.#answered(frame);
      case "ended":
        return this.#ended(frame);
    }
  }

  #ended({ subscription: number, code, text }) {
    const subscription = this.#subscriptions.get(number);
    this.#subscriptions.delete(number);
    subscription?.failed(new RequestFailed(`the subscription to ${subscription.destination}`, code, text));
  }

  #answered({ kind, request: number, result, code, text }) {
    if (kind === "failed" && !number) throw new ConnectFailed(`${this.uri} ended the session: ${text} [${code}]`);
    const subscription = this.#asked.get(number);
    const request = this.#requests.get(number);
    this.#asked.delete(number);
    if (subscription && kind === "done") subscription.granted();
    else if (subscription) {
      this.#subscriptions.delete(subscription.number);
      subscription.failed(new RequestFailed(`subscribing to ${subscription.destination}`, code, text));
    } else if (request && kind === "done") request.resolve(result ?? "");
    else request?.reject(new RequestFailed(request.what, code, text));
  }

  /** The client is closed. */
  close() {
    this.finish(new ClientClosed("this client was closed"));
  }
}
