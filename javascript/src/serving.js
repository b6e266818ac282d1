/**
 * A server: takes requests from a queue, lets handlers work, replies, and only then acknowledges.
 *
 * Law: the reply is on disk at the node before the request is acknowledged: a server that is killed in the middle leaves the
 * request to its successor, so what a handler does twice must be the same as once. Every request that names a `replyTo` is
 * answered. One that names a fresh queue on another node than the one where it entered the tree is a forgery, and becomes a
 * dead letter.
 */

import { RequestFailed, SendRejected, ServiceError } from "./errors.js";
import { objectOf, shortened, text } from "./options.js";
import { task } from "./tasks.js";
import { sleep } from "./waits.js";

export const CONTENT_TYPE = "application/json";
const FIRST_PAUSE = 50;
const LONGEST_PAUSE = 5000;
const INCARNATION = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Made by `Rpc.serve`. `answered`, `errors`: requests answered so far, and how many of them with an error. */
export class Server {
  #client;
  #interfaces;
  #workers;
  #subscription = null;
  #running = new Set();
  #closing = new AbortController();
  #end;

  constructor(client, queue, interfaces, workers) {
    if (!Number.isInteger(workers) || workers < 1) throw new RangeError(`${workers} workers: expected 1 or more`);
    if (!interfaces.length) throw new TypeError("no interface to serve: expected one or more");
    for (const each of interfaces) {
      const { name = "", version = "", handlers } = objectOf("an interface", each, "{name, version, handlers}");
      text("interface", name);
      text("version", version);
      const names = Object.keys(handlers ?? {});
      const isRight = names.length && names.every((name) => typeof handlers[name] === "function");
      if (!isRight) throw new TypeError("expected handlers as functions by name, or [{name, version, handlers}]");
    }
    this.queue = queue;
    this.answered = 0;
    this.errors = 0;
    this.#client = client;
    this.#interfaces = interfaces;
    this.#workers = workers;
    /** Ends when the server is closed; throws what ended the client. */
    this.over = new Promise((resolve, reject) => (this.#end = { resolve, reject }));
    this.over.catch(() => {});
  }

  /** Makes the queue if it is not there, and reads it. Throws `RequestFailed`. */
  async open() {
    await this.#subscribe();
    this.#serve().then(this.#end.resolve, this.#end.reject);
  }

  get #isClosed() {
    return this.#closing.signal.aborted;
  }

  /** Takes no more, lets those that run end, and leaves the rest to others. */
  async close() {
    this.#closing.abort();
    await Promise.allSettled(this.#running);
    this.#subscription?.close();
  }

  async #subscribe() {
    await this.#client.create(this.queue.slice("queue:".length));
    if (this.#isClosed) return;
    this.#subscription = this.#client.subscribe(this.queue, { credit: this.#workers });
    await this.#subscription.ready();
  }

  /** A queue that is no more is made again, as often as needed. */
  async #serve() {
    for (let pause = FIRST_PAUSE; !this.#isClosed; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
      try {
        if (!this.#subscription) await this.#subscribe();
        pause = FIRST_PAUSE;
        await this.#takeRequests();
      } catch (error) {
        if (!(error instanceof RequestFailed)) throw error;
        this.#subscription = null;
        await sleep(pause, { signal: this.#closing.signal, ref: false });
      }
    }
  }

  /**
   * The node gives no more than `workers` of them that are not answered. The subscription stays until those that run have
   * ended: without it the node would give their requests to others.
   */
  async #takeRequests() {
    for (;;) {
      const delivery = await this.#subscription?.take();
      if (!delivery || this.#isClosed) return;
      const answer = this.#answer(delivery).catch((error) => this.#end.reject(error));
      this.#running.add(answer);
      answer.finally(() => this.#running.delete(answer));
    }
  }

  async #answer(delivery) {
    const why = whyNotAnswered(delivery);
    if (why) return delivery.reject(why);
    const answer = await this.#worked(delivery);
    if (delivery.properties.replyTo) await this.#reply(delivery, answer);
    delivery.ack();
    this.answered++;
  }

  /** The answer as JSON: the handler's result, or an error for whatever else comes of it. */
  async #worked(delivery) {
    try {
      const request = requestOf(delivery);
      const handler = handlerOf(this.#interfaces, request);
      const result = await task(delivery.properties.taskId ?? "", () => handler(request.parameters ?? {}, delivery));
      return written(result);
    } catch (error) {
      this.errors++;
      return fault(error instanceof ServiceError ? error : new ServiceError("FAILED", wordsOf(error)));
    }
  }

  /** Gives the reply to the node, for as long as it has no room. What can never be sent is given up. */
  async #reply(delivery, answer) {
    const { replyTo, correlationId, taskId, expiresIn } = delivery.properties;
    const where = queueOf(replyTo);
    const options = { persistent: delivery.persistent, correlationId, taskId, expiresIn, contentType: CONTENT_TYPE };
    for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
      try {
        await this.#client.send(where, answer, options);
        return;
      } catch (error) {
        if (error instanceof RangeError) return; // `where` is no name of a queue
        if (!(error instanceof SendRejected)) throw error;
        if (error.code === "TOO_LARGE") answer = fault(new ServiceError("RESULT_TOO_LARGE", error.message));
        else if (error.code !== "QUEUE_FULL") return;
      }
      await sleep(pause, { ref: false });
    }
  }
}

/** The destination of a queue that is named with its kind or without. */
export function queueOf(queue) {
  return text("queue", queue).startsWith("queue:") ? queue : `queue:${queue}`;
}

function requestOf(delivery) {
  let request;
  try {
    request = delivery.json();
  } catch (error) {
    throw new ServiceError("BAD_REQUEST", `not a request: ${error.message}`);
  }
  const { method, parameters = {} } = request ?? {};
  if (typeof method !== "string" || !parameters || typeof parameters !== "object" || Array.isArray(parameters)) {
    throw new ServiceError("BAD_REQUEST", "not a request: expected a method and, by name, its parameters");
  }
  return request;
}

/** The function that a request asks for. Throws a `ServiceError` that names what is served. */
function handlerOf(interfaces, { method, interface: name = "", version = "" }) {
  const served = interfaces.map((each) => `${each.name || "any"} ${each.version ?? ""}`.trimEnd()).join("; ");
  const names = new Set(interfaces.map((each) => each.name ?? ""));
  const isNamed = (each) => (name ? !each.name || each.name === name : names.size === 1);
  const named = interfaces.filter(isNamed);
  if (!named.length) throw new ServiceError("UNKNOWN_INTERFACE", `no interface '${name}' here: ${served}`);
  const able = named.filter((each) => serves(each.version ?? "", version));
  if (!able.length) throw new ServiceError("UNKNOWN_VERSION", `no version '${version}' of '${name}' here: ${served}`);
  const found = able.find((each) => Object.hasOwn(each.handlers, method));
  if (found) return found.handlers[method];
  const known = able.flatMap((each) => Object.keys(each.handlers)).sort().join(", ");
  throw new ServiceError("UNKNOWN_METHOD", `no method '${method}' here: ${known}`);
}

/** Is this the version asked for, or a later one that only grew? */
function serves(here, asked) {
  if (!here || !asked || here === asked) return true;
  const [mine, theirs] = [here, asked].map((version) => version.split(".").map(Number));
  if ([...mine, ...theirs].some(Number.isNaN) || mine[0] !== theirs[0]) return false;
  const at = mine.findIndex((number, index) => number !== (theirs[index] ?? -1));
  return at < 0 ? mine.length >= theirs.length : mine[at] > (theirs[at] ?? -1);
}

function written(result) {
  let answer;
  try {
    answer = JSON.stringify({ result: result ?? null });
  } catch (error) {
    throw new ServiceError("BAD_RESULT", `the result cannot be written as JSON: ${wordsOf(error)}`);
  }
  if (answer === "{}") throw new ServiceError("BAD_RESULT", `a ${typeof result} cannot be written as JSON`);
  return answer;
}

/** What of its `data` JSON cannot say is left out. */
function fault({ code, text, data }) {
  const said = { code: String(code), message: String(text) };
  try {
    return JSON.stringify({ error: { ...said, data: data ?? null } });
  } catch {
    return JSON.stringify({ error: said });
  }
}

/** Anything may be thrown. */
function wordsOf(thrown) {
  try {
    return thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : String(thrown);
  } catch {
    return "what was thrown is no error, and has no text";
  }
}

/** A fresh queue is for who made it: nobody at another node has answers sent there. */
function whyNotAnswered({ properties, origin }) {
  const [name, node = ""] = (properties.replyTo ?? "").replace(/^queue:/, "").split("@");
  if (!origin || !name.startsWith("transient-") || ["", origin].includes(node) || INCARNATION.test(node)) return "";
  return `PERMIT: ${origin} may have answers sent to fresh queues of its own, not to ${shortened(properties.replyTo, 100)}`;
}
