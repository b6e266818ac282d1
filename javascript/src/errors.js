/**
 * Errors of the client, the same ones as in Python, see `docs/javascript.md`. All are a `ClientError`; `code`, where
 * there is one, is for programs, the text for people.
 */

const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

export class ClientError extends Error {
  constructor(text, options) {
    super(text, options);
    this.name = new.target.name;
  }
}

/** The node cannot be reached, or the line broke. */
export class ConnectFailed extends ClientError {}

/** The node does not take this session. */
export class SessionRefused extends ClientError {
  constructor(code, text) {
    super(`the node refused the session: ${text} [${code}]`);
    Object.assign(this, { code });
  }
}

/** Messages that the node did not take. `rejections`: `{first, last, code, text}` by number; `code` of the first. */
export class SendRejected extends ClientError {
  constructor(rejections) {
    const [{ code, text }] = rejections;
    const count = rejections.reduce((sum, each) => sum + each.last - each.first + 1, 0);
    super(`${plural(count, "message")} ${count === 1 ? "was" : "were"} not taken: ${text} [${code}]`);
    Object.assign(this, { code, count, rejections });
  }
}

/** Whoever sent gave up waiting. `sent`: some of it went out, and may be taken; if not, it was taken back. */
export class SendGivenUp extends ClientError {
  constructor(sent, cause) {
    const fate = sent ? "it was sent, and may be taken" : "it was not sent, and is taken back";
    super(`no confirmation until the wait was given up: ${fate}`, { cause });
    Object.assign(this, { sent });
  }
}

/** The node refused a request. */
export class RequestFailed extends ClientError {
  constructor(what, code, text) {
    super(`${what} failed: ${text} [${code}]`);
    Object.assign(this, { code });
  }
}

/** Whoever asked gave up waiting; whether the node has done it is not known. */
export class RequestGivenUp extends ClientError {
  constructor(what, cause) {
    super(`${what}: no answer until the wait was given up`, { cause });
  }
}

/** The node's version does not know what was asked for; nothing was done. */
export class NotKnown extends ClientError {}

/** The client was closed before `count` messages were confirmed. */
export class Unconfirmed extends ClientError {
  constructor(count) {
    super(`the node has not confirmed ${plural(count, "message")} in time`);
    Object.assign(this, { count });
  }
}

/** The client was closed. */
export class ClientClosed extends ClientError {}

/** What a call can end with instead of a result. */
export class RpcError extends ClientError {}

/** The service's answer is an error; a handler throws it to answer so. */
export class ServiceError extends RpcError {
  constructor(code, message = "", data = null) {
    super(message ? `${message} [${code}]` : code);
    Object.assign(this, { code, text: message, data });
  }
}

/** Nobody in the whole tree serves the queue; the request is not kept anywhere. */
export class NobodyServes extends RpcError {
  constructor(queue, method, node) {
    super(`nobody serves '${queue}'${node ? `, says node '${node}'` : ""}: '${method}' was not done`);
    Object.assign(this, { queue, method, node });
  }
}

/** No reply until the wait was given up. Whether it was done is not known; a late reply is ignored. */
export class CallGivenUp extends RpcError {
  constructor(queue, method, cause) {
    super(`'${queue}' did not answer '${method}' until the wait was given up`, { cause });
    Object.assign(this, { queue, method });
  }
}

/** The reply queue went with the session's last connection. Whether it was done is not known. */
export class ReplyLost extends RpcError {}

/** A message came for a call and is no reply. */
export class BadReply extends RpcError {}
