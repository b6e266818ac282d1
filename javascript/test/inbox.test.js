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
  const end = { ...nothing, ack: (id, bundle, index) => memory.acknowledge(bundle, index) };
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
  const end = { ...nothing, ack: (id, bundle, index) => memory.acknowledge(bundle, index) };
  const come = (byte) => unpacked(frame(["x"], { bundle: new Uint8Array(16).fill(byte) }), memory, end).deliveries;
  for (const byte of [1, 2, 3]) come(byte)[0].ack();
  assert.deepEqual(come(3), []);
  assert.equal(come(1).length, 1);
});

test("what the application has is remembered, however much comes after it", () => {
  const memory = new Memory(2);
  const end = { ...nothing, ack: (id, bundle, index) => memory.acknowledge(bundle, index) };
  const come = (byte) => unpacked(frame(["x"], { bundle: new Uint8Array(16).fill(byte) }), memory, end).deliveries;
  come(1);
  for (const byte of [2, 3, 4, 5, 6]) come(byte)[0].ack();
  assert.deepEqual(come(1), []);
});

test("of several ends of one delivery the first counts", () => {
  const told = [];
  const end = Object.fromEntries(["ack", "nack", "reject"].map((what) => [what, (id) => told.push(`${what} ${id}`)]));
  const { deliveries } = unpacked(frame(["1", "2", "3"]), new Memory(9), end);
  for (const [index, first] of ["ack", "nack", "reject"].entries()) {
    deliveries[index][first]();
    for (const more of ["ack", "nack", "reject"]) deliveries[index][more]();
  }
  assert.deepEqual(told, ["ack 100", "nack 101", "reject 102"]);
});

test("a delivery that could not be ended is not", () => {
  const end = { ...nothing, nack: () => { throw new Error("not known there"); }, ack: () => (acked = true) };
  let acked = false;
  const [delivery] = unpacked(frame(["1"]), new Memory(9), end).deliveries;
  assert.throws(() => delivery.nack(), /not known/);
  assert.throws(() => delivery.reject(5), TypeError);
  delivery.ack();
  assert.equal(acked, true);
});

test("what was given back, rejected or is unreadable is new when it comes again", () => {
  const memory = new Memory(9);
  const wrong = encode(["no bytes"]);
  const come = () => unpacked(frame(["1", wrong]), memory, nothing);
  come();
  assert.deepEqual([texts(come()), come().unreadable.map(({ id }) => id)], [[], [101]]);
  memory.forget("0".repeat(32), 0);
  assert.deepEqual(texts(come()), ["1"]);
});

test("a message has the transfer id by which the node knows it now", () => {
  const memory = new Memory(9);
  const bundle = "0".repeat(32);
  assert.equal(memory.idOf(bundle, 1, 7), 7);
  unpacked(frame(["2", "3"], { position: 1 }), memory, nothing);
  assert.deepEqual([memory.idOf(bundle, 1, 7), memory.idOf(bundle, 2, 7)], [100, 101]);
  unpacked(frame(["2"], { position: 1, first: 500 }), memory, nothing);
  assert.equal(memory.idOf(bundle, 1, 7), 500);
});
