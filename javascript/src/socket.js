/** The client's connection: packets on a WebSocket. All errors are `ConnectFailed`. */

import { ConnectFailed } from "./errors.js";
import { sleep, until } from "./waits.js";

const DEFAULT_PORT = "7600";
const SCHEMES = { "http:": "ws:", "https:": "wss:", "ws:": "ws:", "wss:": "wss:" };
const ADDRESS = /^(?:([a-z]+:)\/\/)?((?:\[[0-9a-f:.]+\]|[^/?#@:\s[\]]+)(?::\d+)?)(\/[^?#\s]*)?$/i;
const FULL = 4 * 1024 * 1024;
const LOOK_AGAIN = 5;

/** The session's WebSocket behind the address of a node. Port 7600 and path /session unless given. */
export function sessionUri(address) {
  if (typeof address !== "string") throw new TypeError(`an address of a node: expected a text, got ${typeof address}`);
  const [, scheme = "http:", authority = "", path = ""] = ADDRESS.exec(address) ?? [];
  const port = /:\d+$/.test(authority) ? "" : `:${DEFAULT_PORT}`;
  const uri = `${SCHEMES[scheme.toLowerCase()]}//${authority}${port}${/[^/]/.test(path) ? path : "/session"}`;
  if (!authority || !isUri(uri)) {
    throw new ConnectFailed(
      `'${address}' is no address of a node: expected http://HOST:${DEFAULT_PORT}, or https, ws, wss`,
    );
  }
  return uri;
}

function isUri(text) {
  try {
    return ["ws:", "wss:"].includes(new URL(text).protocol);
  } catch {
    return false;
  }
}

/** One open connection. */
export class Socket {
  #opened;
  #arrived = [];
  #wake = () => {};
  #error = null;

  constructor(uri, opened) {
    this.uri = uri;
    this.#opened = opened;
    opened.onmessage = ({ data }) => {
      this.#arrived.push(data);
      this.#wake();
    };
    opened.onerror = ({ message, error }) => this.#end(message || error?.message || "the line broke");
    opened.onclose = ({ code, reason }) => this.#end(reason || `WebSocket code ${code}`);
  }

  #end(why) {
    this.#error ??= new ConnectFailed(`the connection to ${this.uri} ended: ${why}`);
    this.#wake();
  }

  /** The next packet. */
  async receive() {
    while (!this.#arrived.length) {
      if (this.#error) throw this.#error;
      await new Promise((resolve) => (this.#wake = resolve));
    }
    const data = this.#arrived.shift();
    if (typeof data === "string") throw new ConnectFailed(`${this.uri} sent a text: is it a Sapwood node?`);
    return new Uint8Array(data);
  }

  /** Waits while the line takes no more. */
  async send(packet) {
    while (!this.#error && this.#opened.bufferedAmount > FULL) await sleep(LOOK_AGAIN);
    if (this.#error) throw this.#error;
    this.#opened.send(packet);
  }

  close() {
    this.#end("it was closed here");
    this.#opened.close();
  }
}

/** Opens a WebSocket, an instance of `WebSocket`, within the `timeout` of `given`, unless its `signal` ends that. */
export async function openSocket(uri, WebSocket, given) {
  const opened = new WebSocket(uri);
  opened.binaryType = "arraybuffer";
  const failed = (why) => new ConnectFailed(`${uri} cannot be reached (${why}): is a node running there?`);
  const opening = () =>
    new Promise((resolve, reject) => {
      opened.onopen = resolve;
      opened.onerror = ({ message, error }) => reject(failed(reason(error) || message || "no WebSocket came about"));
      opened.onclose = ({ code }) => reject(failed(`WebSocket code ${code}`));
    });
  try {
    await until(opening, given, () => failed(`no answer within ${given.timeout} ms`));
  } catch (error) {
    opened.onopen = opened.onclose = null;
    opened.onerror = () => {};
    opened.close();
    throw error;
  }
  return new Socket(uri, opened);
}

/** The innermost cause has the system's words. */
function reason(error) {
  return error?.cause ? reason(error.cause) : error?.errors?.[0]?.message ?? error?.message;
}
