import assert from "node:assert/strict";
import test from "node:test";

import { joined } from "../src/frames.js";
import { Acks, Memory, unpacked } from "../src/inbox.js";
import { encode } from "../src/msgpack.js";

const nothing = { ack() {}, nack() {}, reject() {} };

function frame(bodies, more = {}) {
  const parts = bodies.map((body) => (body instanceof Uint8Array ? body : encode([new TextEncoder().encode(body)])));
  const base = { where: ["queue", "a", ""], first: 100, position: 0, flags: 1, bundle: new Uint8Array(16), skip: new Uint8Array() };
  return { ...base, count: parts.length, body: joined(parts), ...more };
}

const texts = ({ deliveries }) => deliveries.map((delivery) => delivery.text());

test("acknowledgements are told as ranges", () => {
  const acks = new Acks();
  for (const id of [5, 6, 9, 7, 1]) acks.add(id, id);
  assert.deepEqual(acks.take(), [[[1, 1], [5, 7], [9, 9]]]);
  assert.deepEqual(acks.take(), []);
});

test("what was handed out is not handed out again, and what was acknowledged is acknowledged again", () => {
  const memory = new Memory(10);
  const end = { ...nothing, ack: (id, bundle, bit) => memory.acknowledge(bundle, bit) };
  const first = unpacked(frame(["1", "2", "3"]), memory, end);
  assert.deepEqual(texts(first), ["1", "2", "3"]);
  first.deliveries[1].ack();
  const again = unpacked(frame(["1", "2", "3"], { first: 200 }), memory, end);
  assert.deepEqual([texts(again), again.again], [[], [201]]);
});

test("of a slice of a bundle the place counts", () => {
  const memory = new Memory(10);
  unpacked(frame(["1", "2"]), memory, nothing);
  const found = unpacked(frame(["2", "3"], { position: 1 }), memory, nothing);
  assert.deepEqual(texts(found), ["3"]);
  assert.match(found.deliveries[0].id, /^0{32}-2$/);
});

test("what is for others is left out", () => {
  assert.deepEqual(texts(unpacked(frame(["1", "2", "3"], { skip: Uint8Array.of(0b010) }), new Memory(9), nothing)), ["1", "3"]);
});

test("one message that cannot be read ends alone", () => {
  const wrong = [encode(["no bytes"]), Uint8Array.of(0x92, 0xc4, 0, 0x81, 0xa1, 0xff, 1), encode({ a: 1 })];
  for (const each of wrong) {
    const found = unpacked(frame(["1", each, "3"]), new Memory(9), nothing);
    assert.deepEqual(texts(found), ["1", "3"]);
    assert.deepEqual(found.unreadable.map(({ id }) => id), [101]);
  }
});

test("a body that is none is unreadable as a whole", () => {
  for (const body of [Uint8Array.of(0x91), Uint8Array.of(0x01, 0x02, 0x03), new Uint8Array()]) {
    const found = unpacked(frame(["1", "2"], { body }), new Memory(9), nothing);
    assert.deepEqual([texts(found), found.unreadable.length], [[], 2]);
  }
});

test("the memory is bounded", () => {
  const memory = new Memory(2);
  for (const byte of [1, 2, 3]) unpacked(frame(["x"], { bundle: new Uint8Array(16).fill(byte) }), memory, nothing);
  assert.deepEqual(texts(unpacked(frame(["x"], { bundle: new Uint8Array(16).fill(3) }), memory, nothing)), []);
  assert.deepEqual(texts(unpacked(frame(["x"], { bundle: new Uint8Array(16).fill(1) }), memory, nothing)), ["x"]);
});
