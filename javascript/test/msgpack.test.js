import assert from "node:assert/strict";
import test from "node:test";

import { Reader, Unreadable, decode, encode } from "../src/msgpack.js";

const nested = (depth) => Array.from({ length: depth }).reduce((inner) => [inner], 1);

test("whole numbers of every length come back", () => {
  const edges = [0, 0x7f, 0x80, 0xff, 0x100, 0xffff, 0x10000, 0xffffffff, 0x100000000, Number.MAX_SAFE_INTEGER];
  for (const edge of edges) for (const value of [edge, -edge - 1]) assert.equal(decode(encode(value)), value);
});

test("what a number cannot hold is a bigint", () => {
  for (const value of [2n ** 64n - 1n, -(2n ** 63n), 2n ** 53n]) assert.equal(decode(encode(value)), value);
  assert.equal(decode(encode(5n)), 5);
  assert.throws(() => encode(2n ** 64n), RangeError);
});

test("texts, bytes, arrays and names of every length come back", () => {
  for (const length of [0, 1, 15, 16, 31, 32, 255, 256, 65_535, 65_536]) {
    assert.equal(decode(encode("ü".repeat(length))), "ü".repeat(length));
    assert.deepEqual(decode(encode(new Uint8Array(length).fill(7))), new Uint8Array(length).fill(7));
    const numbers = Array.from({ length }, (_, index) => index);
    assert.deepEqual(decode(encode(numbers)), numbers);
    const names = Object.fromEntries(numbers.map((number) => [`name ${number}`, number]));
    assert.deepEqual(decode(encode(names)), names);
  }
});

test("a point in time comes back, before 1970 as well", () => {
  for (const time of [0, 1_700_000_000_123, -1, -62_135_596_800_000]) {
    assert.deepEqual(decode(encode(new Date(time))), new Date(time));
  }
});

test("__proto__ is a name like any other", () => {
  const found = decode(encode(new Map([["__proto__", { polluted: true }]])));
  assert.equal({}.polluted, undefined);
  assert.deepEqual(Object.keys(found), ["__proto__"]);
});

test("what cannot be said is refused", () => {
  for (const value of [() => 1, Symbol("s"), new (class Thing {})(), "half \ud800", new Date(NaN), nested(70)]) {
    assert.throws(() => encode(value), Error);
  }
});

test("no length is believed that its bytes do not cover", () => {
  for (const bytes of ["dd7fffffff00", "df7fffffff00", "c67fffffff00", "db7fffffff00", "c97fffffff0100", "c1", "92c0"]) {
    assert.throws(() => decode(Buffer.from(bytes, "hex")), Unreadable);
    assert.throws(() => new Reader(Buffer.from(bytes, "hex")).skip(), Unreadable);
  }
  assert.throws(() => decode(Buffer.from("a1ff", "hex")), /UTF-8/);
  assert.throws(() => decode(Buffer.from("0102", "hex")), /follow/);
  assert.throws(() => decode(new Uint8Array(100_000).fill(0x91)), Unreadable);
});

test("to pass over a value ends where it ends", () => {
  const values = [1, -1, 200, 70_000, 2n ** 60n, 1.5, "x".repeat(300), new Uint8Array(70_000), [[1], { a: [new Date(0)] }], null];
  for (const value of values) {
    const reader = new Reader(encode(value));
    reader.skip();
    assert.ok(reader.isOver);
  }
});
