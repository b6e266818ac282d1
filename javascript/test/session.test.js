/** A client at a node that a test plays: what is said when a line breaks, or the client is closed, at an awkward moment. */

import assert from "node:assert/strict";
import test from "node:test";

import { connect } from "../src/client.js";
import { ClientClosed, ConnectFailed, RequestGivenUp } from "../src/errors.js";
import { decode, encode } from "../src/msgpack.js";
import { Rpc } from "../src/rpc.js";

const [LOGIN, CREATE, SUBSCRIBE, SEND, ACKNOWLEDGE, REFUSE, FORGET] = [1, 2, 3, 5, 6, 9, 11];
const WELCOME = [21, "hq", "s", 0, 1 << 24, [], true, true, Uint8Array.of(1), true, true, true];
const BUNDLE = new Uint8Array(16);

/** The class of a WebSocket whose `lines` are those that the client has opened; `greets`: the node answers their logins. */
function wires() {
  return class Line {
    static lines = [];
    static opens = true;
    static greets = true;
    bufferedAmount = 0;
    isClosed = false;
    said = [];

    constructor() {
      Line.lines.push(this);
      if (Line.opens) setImmediate(() => this.onopen?.({}));
    }

    send(packet) {
      const frames = decode(new Uint8Array(packet));
      this.said.push(...frames);
      if (Line.greets && frames[0][0] === LOGIN) this.tell(WELCOME);
    }

    tell(...frames) {
      const { buffer } = encode(frames);
      this.onmessage?.({ data: buffer });
    }

    end() {
      this.onclose?.({ code: 1006, reason: "" });
    }

    close() {
      this.isClosed = true;
      setImmediate(() => this.end());
    }

    frames(kind) {
      return this.said.filter(([each]) => each === kind);
    }
  };
}

const deliver = (number, text, first) => {
  const body = encode([new TextEncoder().encode(text)]);
  return [26, number, ["queue", "a", ""], first, 1, BUNDLE, 0, 1, body.length, body, new Uint8Array(), false, "hq", false, 0];
};

async function until(isSo) {
  for (let left = 2000; !isSo(); left--) {
    assert.ok(left, `waited in vain for ${isSo}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** An open client, its class of lines, and the first line. */
async function opened(options = {}) {
  const Line = wires();
  const client = await connect("http://hq", { WebSocket: Line, session: "s", ...options });
  return { client, Line, line: Line.lines[0] };
}

/** A subscription that has been given one message. */
async function reading(client, line, options) {
  const subscription = client.subscribe("queue:a", options);
  await until(() => line.frames(SUBSCRIBE).length);
  const [[, request, number]] = line.frames(SUBSCRIBE);
  line.tell([22, request, ""], deliver(number, "1", 100));
  return { subscription, delivery: await subscription.take(), number };
}

const timers = () => process.getActiveResourcesInfo().filter((each) => each === "Timeout").length;

test("a client that is closed while it logs in again leaves no line open", async () => {
  const { client, Line, line } = await opened();
  Line.greets = false;
  line.end();
  await until(() => Line.lines[1]?.said.length);
  await client.close();
  Line.lines[1].tell(WELCOME);
  await until(() => Line.lines[1].isClosed);
  assert.equal(client.state, "closed");
});

test("a client that is closed while nobody answers leaves no timer", async () => {
  const before = timers();
  const { client, Line, line } = await opened({ timeout: 60_000 });
  Line.opens = false;
  line.end();
  await until(() => Line.lines[1]);
  await client.close();
  await until(() => timers() <= before);
  assert.equal(Line.lines[1].isClosed, true);
});

test("the first connection is given up when its time is over, at several addresses too", async () => {
  const Line = wires();
  Line.opens = false;
  const before = timers();
  await assert.rejects(connect(["http://a", "http://b"], { WebSocket: Line, timeout: 50 }), ConnectFailed);
  await until(() => timers() <= before);
});

test("a subscription that is closed while there is no connection is waited for no longer", async () => {
  const { client, Line, line } = await opened();
  const subscription = client.subscribe("queue:a");
  const ready = subscription.ready();
  Line.greets = false;
  line.end();
  await until(() => client.state === "not connected");
  subscription.close();
  await ready;
  assert.equal(await subscription.take(), null);
  await client.close();
});

test("what is acknowledged while there is no connection is told first on the next one", async () => {
  const { client, Line, line } = await opened();
  const { subscription, delivery } = await reading(client, line);
  Line.greets = false;
  line.end();
  await until(() => Line.lines[1]?.said.length);
  delivery.ack();
  subscription.close();
  Line.lines[1].tell(WELCOME);
  await until(() => Line.lines[1].frames(ACKNOWLEDGE).length);
  assert.deepEqual(Line.lines[1].frames(ACKNOWLEDGE), [[ACKNOWLEDGE, [[100, 100]]]]);
  assert.deepEqual(Line.lines[1].frames(SUBSCRIBE), []);
  await client.close();
});

test("a message that was rejected while there is no connection comes again", async () => {
  const { client, Line, line } = await opened();
  const { subscription, delivery, number } = await reading(client, line, { credit: 1 });
  Line.greets = false;
  line.end();
  await until(() => Line.lines[1]?.said.length);
  delivery.reject("not today");
  Line.lines[1].tell(WELCOME);
  await until(() => Line.lines[1].frames(SUBSCRIBE).length);
  Line.lines[1].tell(deliver(number, "1", 100));
  const again = await subscription.take();
  again.reject("😀".repeat(400));
  await until(() => Line.lines[1].frames(REFUSE).length);
  assert.deepEqual(Line.lines[1].frames(REFUSE), [[REFUSE, 100, 100, "😀".repeat(300), false]]);
  await client.close();
});

test("a producer whose name was made up is forgotten by a node that knows how, once all is confirmed", async () => {
  for (const [options, times] of [[{}, 1], [{ producer: "till" }, 0]]) {
    const { client, line } = await opened(options);
    const sent = client.send("queue:a", "x");
    await until(() => line.frames(SEND).length);
    line.tell([24, 1]);
    await sent;
    await client.close();
    assert.equal(line.frames(FORGET).length, times);
  }
});

test("who waits in vain, over and over, is forgotten each time", async () => {
  const { client, line } = await opened();
  const { subscription, number } = await reading(client, line);
  for (let index = 0; index < 3; index++) assert.equal(await subscription.take({ timeout: 1 }), null);
  const taking = subscription.take({ timeout: 60_000 });
  line.tell([26, number, ["queue", "a", ""], 101, 1, new Uint8Array(16).fill(1), 0, 1, 3, encode([Uint8Array.of(50)])]);
  assert.equal((await taking).text(), "2");
  await client.close();
});

test("a request that is given up before it is asked is not asked", async () => {
  const { client, line } = await opened();
  await assert.rejects(client.create("a", { signal: AbortSignal.abort() }), RequestGivenUp);
  await assert.rejects(client.create("a", { timeout: -1 }), TypeError);
  const made = client.create("b");
  await until(() => line.frames(CREATE).length);
  assert.deepEqual(line.frames(CREATE).map(([, , name]) => name), ["b"]);
  line.tell([22, line.frames(CREATE)[0][1], "b"]);
  assert.equal(await made, "b");
  await client.close();
  await assert.rejects(client.create("a"), ClientClosed);
});

test("a listener of changes that fails, at once or later, ends nothing", async (context) => {
  const told = context.mock.method(console, "error", () => {});
  const onLost = async () => {
    throw new Error("the application's own");
  };
  const { client, Line, line } = await opened({ onLost });
  line.end();
  await until(() => Line.lines[1] && client.state === "connected");
  assert.equal(told.mock.callCount(), 1);
  await client.close();
});

test("what is no list of payloads is refused, and nothing of it is sent", async () => {
  const { client, line } = await opened();
  const later = (async function* () {
    yield "a";
  })();
  for (const wrong of ["abc", 5, { length: 1 }, Promise.resolve(["a"]), later, undefined, null]) {
    await assert.rejects(client.sendMany("queue:a", wrong), /^TypeError: payloads: .*expected an array/);
  }
  assert.deepEqual(line.said.map(([kind]) => kind), [LOGIN]);
  await client.close();
});

test("a credit may be a bigint", async () => {
  const { client, line } = await opened({ windowMessages: 5n });
  const { delivery } = await reading(client, line, { credit: 7n });
  assert.equal(delivery.text(), "1");
  assert.equal(line.frames(SUBSCRIBE)[0][4], 7);
  await client.close();
});

test("a call and a server that could not work are refused at once", async () => {
  const { client, line } = await opened();
  const rpc = new Rpc(client);
  const done = () => 1;
  await assert.rejects(rpc.call(5, "done"), /^TypeError: queue: 5/);
  await assert.rejects(rpc.call("a", undefined), /^TypeError: method: undefined/);
  await assert.rejects(rpc.serve(5, { done }), /^TypeError: queue: 5/);
  await assert.rejects(rpc.serve("a", []), /^TypeError: no interface/);
  await assert.rejects(rpc.serve("a", { done }, { version: 1.2 }), /^TypeError: version: 1\.2/);
  await assert.rejects(rpc.serve("a", [{ name: 5, handlers: { done } }]), /^TypeError: interface: 5/);
  assert.deepEqual(line.said.map(([kind]) => kind), [LOGIN]);
  await client.close();
});
