/// <reference lib="esnext.disposable" />
/** The client library of Sapwood for JavaScript. Times are milliseconds unless they say otherwise. */

/** A whole number; a `bigint` where it has more than 53 bits. */
export type Whole = number | bigint;

/** A wait that may be given up. */
export interface Wait {
  timeout?: number;
  signal?: AbortSignal;
}

/** What a message may carry beside its payload. `timestamp`: seconds since 1970. */
export interface Properties {
  correlationId?: Whole;
  replyTo?: string;
  taskId?: string;
  expiresIn?: Whole;
  messageId?: string;
  contentType?: string;
  timestamp?: Whole;
  priority?: number;
  interface?: string;
  interfaceVersion?: string;
  headers?: Record<string, unknown>;
  foreign?: Foreign;
}

/** What means something to the brokers at the edges only. `correlation`: a correlation id that is no number. */
export interface Foreign {
  correlation?: Uint8Array;
  contentEncoding?: string;
  type?: string;
  appId?: string;
  userId?: string;
  qos?: 0 | 1 | 2;
  utf8?: boolean;
}

/** `scope` of a topic: 0 vertical, 1 tree, -1 as the node has it. `tell`: where nobody serves the queue, say so at `replyTo`. */
export interface SendOptions extends Omit<Properties, "timestamp" | "headers">, Wait {
  timestamp?: Whole | Date;
  headers?: Record<string, unknown> | Map<string, unknown>;
  persistent?: boolean;
  retained?: boolean;
  scope?: -1 | 0 | 1;
  tell?: boolean;
}

/** How far a topic's message goes from the node that took it. */
export interface Reach {
  readers: number;
  onward: number;
  passedBy: number;
  scope: number;
}

export interface ClientOptions {
  /** The identity; several connections may share it. Fresh unless given. */
  session?: string;
  secret?: string;
  account?: string;
  password?: string;
  /** Names the numbered stream of sends across connections and runs. Fresh unless given. */
  producer?: string;
  /** For the first connection, and for the last confirmations when closing; 10,000 unless given. */
  timeout?: number;
  /** How much may be unconfirmed: 65,536 messages, 32 MiB unless given. */
  windowMessages?: number;
  windowBytes?: number;
  /** Silence after which the node is asked for a sign of life; 15,000 unless given. */
  keepAlive?: number;
  onConnected?: (node: string) => void;
  onLost?: (error: Error) => void;
  /** The class of a WebSocket, where the runtime has none. */
  WebSocket?: new (uri: string) => unknown;
}

/** `credit`: messages that may be unacknowledged at once. `durable`, `group`: of topics. */
export interface SubscribeOptions {
  credit?: number;
  durable?: string;
  group?: string;
  own?: boolean;
  retained?: boolean;
}

export type Payload = string | Uint8Array | ArrayBuffer;

export function connect(address?: string | string[], options?: ClientOptions): Promise<Client>;

export class Client {
  private constructor();
  readonly name: string;
  readonly node: string;
  readonly state: "connected" | "not connected" | "closed";
  readonly committed: number;
  send(destination: string, payload: Payload, options?: SendOptions): Promise<Reach | null>;
  sendMany(destination: string, payloads: Iterable<Payload>, options?: SendOptions): Promise<void>;
  create(name?: string, options?: Wait & { home?: boolean }): Promise<string>;
  delete(name: string, options?: Wait): Promise<void>;
  subscribe(destination: string, options?: SubscribeOptions): Subscription;
  endSubscription(durable: string, options?: Wait): Promise<void>;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

export class Subscription implements AsyncIterableIterator<Delivery> {
  private constructor();
  readonly destination: string;
  ready(wait?: Wait): Promise<this>;
  /** null if none came until the wait was given up, or the subscription was closed. */
  take(wait?: Wait): Promise<Delivery | null>;
  next(): Promise<IteratorResult<Delivery>>;
  return(): Promise<IteratorResult<Delivery>>;
  close(): void;
  [Symbol.asyncIterator](): this;
}

export class Delivery {
  private constructor();
  readonly payload: Uint8Array;
  readonly properties: Properties;
  readonly destination: string;
  readonly origin: string;
  readonly redelivered: boolean;
  readonly retained: boolean;
  readonly persistent: boolean;
  readonly notice: boolean;
  readonly id: string;
  readonly key: string;
  text(): string;
  json(): any;
  ack(): void;
  nack(): void;
  reject(reason?: string): void;
}

export interface CallOptions extends Wait {
  interface?: string;
  version?: string;
  persistent?: boolean;
}

export type Handler = (parameters: any, delivery: Delivery) => unknown;
export type Handlers = Record<string, Handler>;

export interface Interface {
  name?: string;
  version?: string;
  handlers: Handlers;
}

export class Rpc {
  constructor(client: Client, options?: { timeout?: number });
  readonly late: number;
  call(queue: string, method: string, parameters?: Record<string, unknown>, options?: CallOptions): Promise<any>;
  serve(
    queue: string,
    handlers: Handlers | Interface[],
    options?: { workers?: number; interface?: string; version?: string },
  ): Promise<Server>;
  close(): void;
}

export class Server {
  private constructor();
  readonly queue: string;
  readonly answered: number;
  readonly errors: number;
  readonly over: Promise<void>;
  close(): Promise<void>;
}

/** Runs `work` with everything that it calls or sends as one task. */
export function task<Result>(name: string, work: () => Result): Result;
export function currentTask(): string;

export interface Rejection {
  first: number;
  last: number;
  code: string;
  text: string;
}

export class ClientError extends Error {}
export class ConnectFailed extends ClientError {}
export class SessionRefused extends ClientError {
  constructor(code: string, text: string);
  readonly code: string;
}
export class SendRejected extends ClientError {
  constructor(rejections: Rejection[]);
  readonly code: string;
  readonly count: number;
  readonly rejections: Rejection[];
}
export class SendGivenUp extends ClientError {
  constructor(sent: boolean, cause?: unknown);
  readonly sent: boolean;
}
export class RequestFailed extends ClientError {
  constructor(what: string, code: string, text: string);
  readonly code: string;
}
export class RequestGivenUp extends ClientError {
  constructor(what: string, cause?: unknown);
}
export class NotKnown extends ClientError {}
export class Unconfirmed extends ClientError {
  constructor(count: number);
  readonly count: number;
}
export class ClientClosed extends ClientError {}
export class RpcError extends ClientError {}
export class ServiceError extends RpcError {
  constructor(code: string, message?: string, data?: unknown);
  readonly code: string;
  readonly text: string;
  readonly data: any;
}
export class NobodyServes extends RpcError {
  constructor(queue: string, method: string, node: string);
  readonly queue: string;
  readonly method: string;
  readonly node: string;
}
export class CallGivenUp extends RpcError {
  constructor(queue: string, method: string, cause?: unknown);
  readonly queue: string;
  readonly method: string;
}
export class ReplyLost extends RpcError {}
export class BadReply extends RpcError {}
