import assert from "node:assert/strict";
import test from "node:test";

import { ConnectFailed } from "../src/errors.js";
import { decode } from "../src/msgpack.js";
import { destinationOf, messageOf, settled, shortened } from "../src/options.js";
import { Rpc } from "../src/rpc.js";
import { sessionUri } from "../src/socket.js";
import { Subscription } from "../src/subscription.js";
import { task } from "../src/tasks.js";
import { until } from "../src/waits.js";

const properties = (options) => decode(messageOf("queue:a", "x", options).message)[1];

test("destinations are read", () => {
  assert.deepEqual(destinationOf("queue:a/b"), ["queue", "a/b", ""]);
  assert.deepEqual(destinationOf("queue:a@hq"), ["queue", "a", "hq"]);
  assert.deepEqual(destinationOf("queue:a@local"), ["queue", "a", ""]);
  assert.deepEqual(destinationOf("topic:prices/#"), ["topic", "prices/#", ""]);
});

test("what is no destination is refused, and says what was expected", () => {
  for (const wrong of ["a", "queue:", "queue:a@", "queue:a@-x", "queue:\n", `queue:${"x".repeat(256)}`, "topic:", "cell:a"]) {
    assert.throws(() => destinationOf(wrong), RangeError, wrong);
  }
  for (const wrong of [undefined, null, 5, {}, "queue:\ud800"]) assert.throws(() => destinationOf(wrong), TypeError);
});

test("properties go by the names on the wire", () => {
  const moment = new Date(1_700_000_000_900);
  assert.deepEqual(properties({ correlationId: -5, replyTo: "r", expiresIn: 1.2, timestamp: moment, priority: 9 }), {
    "correlation-id": -5,
    "reply-to": "r",
    "expires-in": 2,
    timestamp: 1_700_000_000,
    priority: 9,
  });
  assert.deepEqual(properties({ foreign: { correlation: "id", contentEncoding: "gzip" } }), {
    foreign: { correlation: new Uint8Array(Buffer.from("id")), "content-encoding": "gzip" },
  });
  assert.equal(properties({ replyTo: undefined, timeout: 5 }), undefined);
});

test("a wrong option is refused at the call, by its name", () => {
  const wrong = {
    correlationId: ["5", 1.5, 2n ** 64n, null, 2 ** 60],
    replyTo: [5, null, "\ud800"],
    expiresIn: [-1, NaN, Infinity, "1"],
    timestamp: [new Date(NaN), -1, "now"],
    priority: [256, -1, 1.5],
    headers: ["x", [1], new Date(), { a: () => 1 }, { a: 2n ** 70n }, null],
    foreign: [{ qos: 3 }, { nothing: 1 }, "x", null],
    persistent: [1, "yes"],
    scope: [2, "tree"],
    correlationID: [5],
  };
  for (const [name, values] of Object.entries(wrong)) {
    for (const value of values) {
      assert.throws(() => messageOf("queue:a", "x", { [name]: value }), (error) => {
        assert.ok(error instanceof TypeError || error instanceof RangeError);
        assert.match(error.message, new RegExp(name));
        return true;
      });
    }
  }
  for (const payload of [5, null, undefined, {}, "\ud800"]) assert.throws(() => messageOf("queue:a", payload, {}), TypeError);
  assert.throws(() => messageOf("topic:a", "x", { tell: true, replyTo: "r" }), RangeError);
  assert.throws(() => messageOf("queue:a", "x", { tell: true }), RangeError);
});

test("the address of a node becomes that of its session", () => {
  const known = {
    hq: "ws://hq:7600/session",
    "http://hq": "ws://hq:7600/session",
    "https://hq:443/": "wss://hq:443/session",
    "ws://[::1]:80/x": "ws://[::1]:80/x",
    "[::1]": "ws://[::1]:7600/session",
  };
  for (const [address, uri] of Object.entries(known)) assert.equal(sessionUri(address), uri);
  for (const wrong of ["", "ftp://hq", "http://", "http://h q", "http://hq:99999"]) assert.throws(() => sessionUri(wrong), ConnectFailed);
  assert.throws(() => sessionUri(5), TypeError);
});

test("a wait ends when its time is over, or when its signal says so", async () => {
  const never = () => new Promise(() => {});
  const late = (cause) => new Error("late", { cause });
  await assert.rejects(until(never, { timeout: 5 }, late), /late/);
  await assert.rejects(until(never, { signal: AbortSignal.abort("why") }, late), (error) => error.cause === "why");
  assert.equal(await until(async () => 1, { timeout: 5000 }, late), 1);
});

test("nothing is begun by a wait that is wrong, or over", async () => {
  let begun = 0;
  const work = async () => ++begun;
  const late = (cause) => new Error("late", { cause });
  for (const wrong of [{ timeout: "5" }, { timeout: 0 }, { timeout: NaN }, { signal: {} }, { signal: null }]) {
    await assert.rejects(until(work, wrong, late), TypeError);
  }
  await assert.rejects(until(work, { signal: AbortSignal.abort() }, late), /late/);
  assert.equal(begun, 0);
});

test("a wait that has more time than a timer can count is one without an end", async () => {
  for (const timeout of [Infinity, 2 ** 40]) {
    const soon = () => new Promise((resolve) => setTimeout(resolve, 20, "done"));
    assert.equal(await until(soon, { timeout }, () => new Error("late")), "done");
  }
});

test("a text is made shorter between its characters", () => {
  assert.equal(shortened("a😀😀", 2), "a😀");
  assert.equal(shortened("abc", 9), "abc");
  assert.equal(shortened("😀".repeat(500), 300), "😀".repeat(300));
});

test("options that are none, and names that nobody reads, are refused", async () => {
  const late = () => new Error("late");
  const reading = new Subscription({}, 1, ["queue", "a", ""], "queue:a", { credit: 1 });
  for (const wrong of [null, 5, "x", [], AbortSignal.abort()]) {
    const uses = [
      async () => messageOf("queue:a", "x", wrong),
      async () => settled(wrong, {}, {}),
      async () => new Rpc(null, wrong),
      async () => new Rpc(null).serve("a", { b() {} }, wrong),
      () => until(async () => 1, wrong, late),
      () => reading.take(wrong),
      () => reading.ready(wrong),
    ];
    for (const use of uses) await assert.rejects(use, { name: "TypeError", message: /^options: .*expected an object/ });
  }
  for (const use of [() => reading.take({ timout: 5 }), async () => new Rpc(null, { timout: 5 })]) {
    await assert.rejects(use, { name: "TypeError", message: /^there is no option 'timout'/ });
  }
  await assert.rejects(new Rpc(null).serve("a", [null]), { name: "TypeError", message: /^an interface: null/ });
  assert.throws(() => task("x", null), { name: "TypeError", message: /^work: null .*expected a function/ });
  assert.throws(() => task(5, () => {}), { name: "TypeError", message: /^name: 5/ });
});
