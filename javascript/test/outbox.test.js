import assert from "node:assert/strict";
import test from "node:test";

import { SendRejected } from "../src/errors.js";
import { decode } from "../src/msgpack.js";
import { messageOf } from "../src/options.js";
import { Call, Outbox } from "../src/outbox.js";

const MANY = 1e6;

function sent(outbox, where, ...payloads) {
  const call = new Call();
  payloads.forEach((payload) => outbox.add(messageOf(where, payload, {}), call));
  call.end();
  return call;
}

const numbers = (frames) => frames.map((frame) => decode(frame)).map(([, first, , count]) => [first, count]);
const isSettled = (call) => Promise.race([call.promise.then(() => true), Promise.resolve().then(() => false)]);

test("messages of one destination share a frame, others have their own", () => {
  const outbox = new Outbox(MANY, MANY);
  sent(outbox, "queue:a", "1", "2");
  sent(outbox, "queue:b", "3");
  sent(outbox, "queue:a", "4");
  assert.deepEqual(numbers(outbox.framesToSend()), [[1, 3], [4, 1]]);
  assert.deepEqual(outbox.framesToSend(), []);
});

test("a frame has no more than 256 messages", () => {
  const outbox = new Outbox(MANY, MANY);
  sent(outbox, "queue:a", ...Array.from({ length: 600 }, String));
  assert.deepEqual(numbers(outbox.framesToSend()), [[1, 256], [257, 256], [513, 88]]);
});

test("while much is under way a frame waits for a confirmation, and grows", () => {
  const outbox = new Outbox(MANY, MANY);
  sent(outbox, "queue:a", ...Array.from({ length: 512 }, String));
  assert.deepEqual(numbers(outbox.framesToSend()), [[1, 256], [257, 256]]);
  for (const payload of ["1", "2"]) {
    sent(outbox, "queue:b", payload);
    assert.deepEqual(outbox.framesToSend(), []);
  }
  sent(outbox, "queue:a", ...Array.from({ length: 256 }, String)); // a full one waits for nothing
  assert.deepEqual(numbers(outbox.framesToSend()), [[513, 256]]);
  outbox.confirm(512);
  assert.deepEqual(numbers(outbox.framesToSend()), [[769, 2]]);
});

test("full frames that go on and on keep no other back", () => {
  const outbox = new Outbox(MANY, MANY);
  const many = Array.from({ length: 256 }, String);
  sent(outbox, "queue:a", ...many, ...many);
  outbox.framesToSend();
  sent(outbox, "queue:b", "1");
  sent(outbox, "queue:a", ...many);
  assert.deepEqual(numbers(outbox.framesToSend()), [[513, 256]]);
  outbox.confirm(256);
  sent(outbox, "queue:a", ...many);
  assert.deepEqual(numbers(outbox.framesToSend()), [[769, 256], [1025, 1]]);
});

test("whoever waits is told when the last of it is confirmed", async () => {
  const outbox = new Outbox(MANY, MANY);
  const call = sent(outbox, "queue:a", "1", "2");
  outbox.framesToSend();
  outbox.confirm(1);
  assert.equal(await isSettled(call), false);
  outbox.confirm(2);
  assert.equal(await isSettled(call), true);
  assert.deepEqual([outbox.messages, outbox.bytes], [0, 0]);
});

test("after a lost connection the same bytes go again, but for what the node has", () => {
  const outbox = new Outbox(MANY, MANY);
  sent(outbox, "queue:a", "1");
  const [first] = outbox.framesToSend();
  sent(outbox, "queue:a", "2");
  const [second] = outbox.framesToSend();
  assert.equal(outbox.begin(0, []), true);
  assert.deepEqual(outbox.framesToSend(), [first, second]);
  assert.equal(outbox.begin(1, []), true);
  assert.deepEqual(outbox.framesToSend(), [second]);
  assert.equal(outbox.begin(5, []), false);
});

test("a producer that goes on numbers from where it was", () => {
  const outbox = new Outbox(MANY, MANY);
  assert.equal(outbox.begin(41, []), true);
  sent(outbox, "queue:a", "1");
  assert.deepEqual(numbers(outbox.framesToSend()), [[42, 1]]);
});

test("a rejection ends its own message alone, once it is final", async () => {
  const outbox = new Outbox(MANY, MANY);
  const [one, two, three] = ["1", "2", "3"].map((each) => sent(outbox, "queue:a", each));
  outbox.framesToSend();
  outbox.reject({ first: 2, last: 2, code: "QUEUE_FULL", text: "no room" });
  assert.equal(await isSettled(one), false);
  outbox.confirm(3);
  await one.promise;
  await three.promise;
  await assert.rejects(two.promise, (error) => error instanceof SendRejected && error.code === "QUEUE_FULL" && error.count === 1);
});

test("rejections that were told with the login are known", async () => {
  const outbox = new Outbox(MANY, MANY);
  const call = sent(outbox, "queue:a", "1");
  outbox.framesToSend();
  outbox.begin(1, [{ first: 1, last: 1, code: "TOO_LARGE", text: "…" }]);
  await assert.rejects(call.promise, SendRejected);
});

test("what is not sent can be taken back", () => {
  const outbox = new Outbox(MANY, MANY);
  sent(outbox, "queue:a", "kept");
  const call = sent(outbox, "queue:a", "back", "again");
  assert.equal(outbox.withdraw(call), true);
  assert.equal(outbox.messages, 1);
  assert.deepEqual(numbers(outbox.framesToSend()), [[1, 1]]);
  const late = sent(outbox, "queue:a", "gone");
  outbox.framesToSend();
  assert.equal(outbox.withdraw(late), false);
  assert.equal(outbox.messages, 2);
});

test("the window counts what is not confirmed", () => {
  const outbox = new Outbox(2, MANY);
  sent(outbox, "queue:a", "1");
  assert.equal(outbox.hasRoom, true);
  sent(outbox, "queue:a", "2");
  assert.equal(outbox.hasRoom, false);
  outbox.framesToSend();
  outbox.confirm(1);
  assert.equal(outbox.hasRoom, false);
  outbox.confirm(2);
  assert.equal(outbox.hasRoom, true);
});

test("what the window has no room for goes in its order, as room comes", async () => {
  const outbox = new Outbox(2, MANY);
  const calls = ["1", "2", "3", "4", "5"].map((each) => sent(outbox, "queue:a", each));
  assert.deepEqual([outbox.messages, outbox.unconfirmed], [2, 5]);
  assert.deepEqual(numbers(outbox.framesToSend()), [[1, 2]]);
  outbox.confirm(2);
  assert.deepEqual([outbox.messages, outbox.unconfirmed], [2, 3]);
  assert.equal(await isSettled(calls[1]), true);
  const [frame] = outbox.framesToSend();
  assert.equal(new TextDecoder().decode(decode(frame)[4]).replace(/[^0-9]/g, ""), "34");
  outbox.confirm(4);
  assert.deepEqual(numbers(outbox.framesToSend()), [[5, 1]]);
  outbox.confirm(5);
  assert.equal(outbox.unconfirmed, 0);
  await Promise.all(calls.map(({ promise }) => promise));
});

test("a window of bytes lets one message in, however large", () => {
  const outbox = new Outbox(MANY, 1);
  sent(outbox, "queue:a", "large", "waits");
  assert.deepEqual([outbox.messages, outbox.unconfirmed], [1, 2]);
});

test("who waits for room can be taken back, and makes room for others", () => {
  const outbox = new Outbox(1, MANY);
  const [first, second, third] = ["1", "2", "3"].map((each) => sent(outbox, "queue:a", each));
  assert.equal(outbox.withdraw(second), true);
  assert.deepEqual([outbox.messages, outbox.unconfirmed], [1, 2]);
  assert.equal(outbox.withdraw(first), true);
  assert.deepEqual(numbers(outbox.framesToSend()), [[1, 1]]);
  assert.equal(outbox.withdraw(third), false);
});

test("when the client ends, who waits for room is told too", async () => {
  const outbox = new Outbox(1, MANY);
  const calls = ["1", "2"].map((each) => sent(outbox, "queue:a", each));
  outbox.fail(new Error("over"));
  for (const { promise } of calls) await assert.rejects(promise, /over/);
});

test("rejections in a row with one reason are told as one", async () => {
  const outbox = new Outbox(MANY, MANY);
  const call = sent(outbox, "queue:a", ..."12345");
  outbox.framesToSend();
  for (const number of [2, 3, 5]) outbox.reject({ first: number, last: number, code: "QUEUE_FULL", text: "no room" });
  outbox.confirm(5);
  const { count, rejections } = await call.promise.catch((error) => error);
  assert.deepEqual([count, rejections.map(({ first, last }) => [first, last])], [3, [[2, 3], [5, 5]]]);
});

test("of many that are given up at once nothing is left, whatever they share", () => {
  const outbox = new Outbox(500, MANY);
  const calls = Array.from({ length: 800 }, (_, index) => sent(outbox, `queue:${index % 3}`, "x"));
  const kept = calls.splice(400, 1);
  for (const call of calls) assert.equal(outbox.withdraw(call), true);
  assert.deepEqual([outbox.messages, outbox.bytes > 0, outbox.unconfirmed], [1, true, 1]);
  assert.deepEqual(numbers(outbox.framesToSend()), [[1, 1]]);
  assert.equal(kept[0].isSent, true);
});
