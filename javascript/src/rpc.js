/**
 * Calls: a request on a service's queue, its reply on the caller's own. Requests and replies are JSON, see `docs/rpc.md`.
 *
 * Law: a call ends with the service's result, or with one `RpcError`. Whoever stops waiting is forgotten; a reply that comes
 * later, or a second time, is ignored by its correlation id.
 */

import { BadReply, CallGivenUp, NobodyServes, ReplyLost, RequestFailed, ServiceError } from "./errors.js";
import * as options from "./options.js";
import { CONTENT_TYPE, Server, queueOf } from "./serving.js";
import { currentTask, newTask } from "./tasks.js";
import { until } from "./waits.js";

const DEFAULT_TIMEOUT = 30_000;
const REPLY_CREDIT = 4096;
const CALLING = { timeout: DEFAULT_TIMEOUT, signal: undefined, persistent: true, interface: "", version: "" };
const CALLING_CHECKS = {
  timeout: options.milliseconds,
  persistent: options.flag,
  interface: options.text,
  version: options.text,
};
const SERVING = { workers: 8, interface: "", version: "" };
const CLOSED = "the caller was closed: no reply is waited for any more";

/** Calls and serves over a client that is open. `timeout`: milliseconds that a call waits unless it says otherwise. */
export class Rpc {
  #client;
  #timeout;
  #numbers = 1;
  #waiting = new Map();
  #mailbox = null;
  #replies = null;
  #isClosed = false;

  constructor(client, given = {}) {
    this.#client = client;
    this.#timeout = options.settled(given, { timeout: DEFAULT_TIMEOUT }, CALLING_CHECKS).timeout;
    /** Replies that nobody waited for any more. */
    this.late = 0;
  }

  /** Asks a service and returns its result. `queue`: NAME, or NAME@NODE for the service of one node. */
  async call(queue, method, parameters = {}, given = {}) {
    const defaults = { ...CALLING, timeout: this.#timeout };
    const { timeout, signal, persistent, interface: name, version } = options.settled(given, defaults, CALLING_CHECKS);
    if (this.#isClosed) throw new ReplyLost(CLOSED);
    const where = queueOf(queue);
    const payload = request(options.text("method", method), parameters, name, version);
    const number = this.#numbers++;
    const answer = new Promise((resolve, reject) => this.#waiting.set(number, { queue, method, resolve, reject }));
    answer.catch(() => {});
    const asked = {
      persistent,
      tell: true,
      correlationId: number,
      taskId: currentTask() || newTask(),
      expiresIn: timeout,
      contentType: CONTENT_TYPE,
      interface: name,
      interfaceVersion: version,
    };
    const over = new AbortController();
    const ask = async () => {
      const replyTo = await this.#mail();
      await this.#client.send(where, payload, { ...asked, replyTo, signal: over.signal });
      return answer;
    };
    try {
      return await until(ask, { timeout, signal }, (cause) => new CallGivenUp(queue, method, cause));
    } finally {
      over.abort(); // a request that is not sent yet is not wanted any more
      this.#waiting.delete(number);
    }
  }

  /** Forgets all that is under way: its callers get `ReplyLost`. */
  close() {
    this.#isClosed = true;
    this.#replies?.close();
    this.#lost(new ReplyLost(CLOSED));
  }

  // --- replies

  /** The reply queue, made once; again where the last one is lost. */
  #mail() {
    this.#mailbox ??= this.#open().catch((error) => {
      this.#mailbox = null;
      throw error;
    });
    return this.#mailbox;
  }

  async #open() {
    const name = await this.#client.create();
    if (this.#isClosed) throw new ReplyLost(CLOSED);
    const replies = this.#client.subscribe(`queue:${name}`, { credit: REPLY_CREDIT });
    this.#replies = replies;
    await replies.ready();
    this.#read(replies);
    return name;
  }

  async #read(replies) {
    let error = new ReplyLost("the reply queue was closed");
    try {
      for await (const delivery of replies) {
        this.#arrived(delivery);
        delivery.ack();
      }
    } catch (failed) {
      const isQueue = failed instanceof RequestFailed;
      error = isQueue ? new ReplyLost(`the reply queue went with the connection: ${failed.message}`) : failed;
    }
    this.#lost(error);
  }

  #lost(error) {
    this.#mailbox = null;
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }

  #arrived(delivery) {
    const waiting = this.#waiting.get(delivery.properties.correlationId);
    if (!waiting) {
      this.late++;
      return;
    }
    const { queue, method, resolve, reject } = waiting;
    if (delivery.notice) reject(new NobodyServes(queue, method, delivery.origin));
    else {
      try {
        resolve(resultOf(delivery));
      } catch (error) {
        reject(error);
      }
    }
  }

  // --- serving

  /**
   * A server of `queue`, which serves until it is closed. `handlers`: functions by name, `(parameters, delivery) => result`; or
   * several of them, `[{name, version, handlers}]`. `workers`: requests in work at once, and taken from the queue.
   */
  async serve(queue, handlers, given = {}) {
    const { workers, interface: name, version } = options.settled(given, SERVING, {});
    const interfaces = Array.isArray(handlers) ? handlers : [{ name, version, handlers }];
    const server = new Server(this.#client, queueOf(queue), interfaces, workers);
    await server.open();
    return server;
  }
}

function request(method, parameters, name, version) {
  const said = { method, parameters };
  if (name) said.interface = name;
  if (version) said.version = version;
  return JSON.stringify(said);
}

function resultOf(delivery) {
  let reply;
  try {
    reply = delivery.json();
  } catch (error) {
    throw new BadReply(`the reply is none: ${error.message}`);
  }
  if (reply?.error) throw new ServiceError(String(reply.error.code), reply.error.message, reply.error.data);
  if (!reply || !Object.hasOwn(reply, "result")) throw new BadReply("the reply has neither a result nor an error");
  return reply.result;
}

