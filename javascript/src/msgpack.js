/**
 * MessagePack (https://github.com/msgpack/msgpack/blob/master/spec.md), as frames and headers need it.
 *
 * A whole number that a `number` cannot hold is a `bigint`, in both directions. Bytes are a `Uint8Array`, a point in
 * time is a `Date`. What is read is bounded by its own bytes: no length is believed that they do not cover.
 */

const DEEPEST = 64;
const TIMESTAMP = -1;
const LEAST_INTEGER = -(1n << 63n);
const MOST_INTEGER = (1n << 64n) - 1n;

const toBytes = new TextEncoder();
const toText = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** What was read is no MessagePack. */
export class Unreadable extends Error {
  name = "Unreadable";
}

class Writer {
  #bytes = new Uint8Array(256);
  #view = new DataView(this.#bytes.buffer);
  #size = 0;

  get written() {
    return this.#bytes.slice(0, this.#size);
  }

  #room(size) {
    const at = this.#size;
    this.#size += size;
    if (this.#size > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(this.#size, 2 * this.#bytes.length));
      larger.set(this.#bytes);
      this.#bytes = larger;
      this.#view = new DataView(larger.buffer);
    }
    return at;
  }

  value(value, depth) {
    if (depth > DEEPEST) throw new TypeError(`a value is nested more than ${DEEPEST} levels deep`);
    switch (typeof value) {
      case "undefined":
        return this.#byte(0xc0);
      case "boolean":
        return this.#byte(value ? 0xc3 : 0xc2);
      case "number":
        return Number.isSafeInteger(value) ? this.#integer(value) : this.#double(value);
      case "bigint":
        return this.#large(value);
      case "string":
        return this.#text(value);
      case "object":
        return this.#object(value, depth);
      default:
        throw new TypeError(`a ${typeof value} cannot be said in MessagePack`);
    }
  }

  #byte(byte) {
    const at = this.#room(1); // it may move the bytes
    this.#bytes[at] = byte;
  }

  #number(head, size, set, value) {
    const at = this.#room(1 + size);
    this.#bytes[at] = head;
    this.#view[set](at + 1, value);
  }

  #double(value) {
    this.#number(0xcb, 8, "setFloat64", value);
  }

  #integer(value) {
    if (value >= 0) {
      if (value < 0x80) this.#byte(value);
      else if (value <= 0xff) this.#number(0xcc, 1, "setUint8", value);
      else if (value <= 0xffff) this.#number(0xcd, 2, "setUint16", value);
      else if (value <= 0xffffffff) this.#number(0xce, 4, "setUint32", value);
      else this.#number(0xcf, 8, "setBigUint64", BigInt(value));
    } else if (value >= -0x20) this.#byte(value & 0xff);
    else if (value >= -0x80) this.#number(0xd0, 1, "setInt8", value);
    else if (value >= -0x8000) this.#number(0xd1, 2, "setInt16", value);
    else if (value >= -0x80000000) this.#number(0xd2, 4, "setInt32", value);
    else this.#number(0xd3, 8, "setBigInt64", BigInt(value));
  }

  #large(value) {
    if (value < LEAST_INTEGER || value > MOST_INTEGER) throw new RangeError(`${value} has more than 64 bits`);
    if (value >= 0n) this.#number(0xcf, 8, "setBigUint64", value);
    else this.#number(0xd3, 8, "setBigInt64", value);
  }

  #text(value) {
    const bytes = toBytes.encode(wellFormed(value));
    if (bytes.length < 32) this.#byte(0xa0 | bytes.length);
    else this.#head(bytes.length, 0xd9, 0xda, 0xdb);
    this.raw(bytes);
  }

  #head(size, ...heads) {
    const [small, middle, large] = heads;
    if (size <= 0xff && small) this.#number(small, 1, "setUint8", size);
    else if (size <= 0xffff) this.#number(middle, 2, "setUint16", size);
    else this.#number(large, 4, "setUint32", size);
  }

  raw(bytes) {
    const at = this.#room(bytes.length);
    this.#bytes.set(bytes, at);
  }

  #object(value, depth) {
    if (value === null) this.#byte(0xc0);
    else if (value instanceof Uint8Array) this.#binary(value);
    else if (value instanceof ArrayBuffer) this.#binary(new Uint8Array(value));
    else if (Array.isArray(value)) this.#array(value, depth);
    else if (value instanceof Date) this.#moment(value);
    else if (value instanceof Map) this.#map([...value], depth);
    else if ([Object.prototype, null].includes(Object.getPrototypeOf(value))) this.#map(Object.entries(value), depth);
    else throw new TypeError(`a ${value.constructor?.name} cannot be said in MessagePack`);
  }

  #binary(bytes) {
    this.#head(bytes.length, 0xc4, 0xc5, 0xc6);
    this.raw(bytes);
  }

  #array(values, depth) {
    if (values.length < 16) this.#byte(0x90 | values.length);
    else this.#head(values.length, 0, 0xdc, 0xdd);
    for (const each of values) this.value(each, depth + 1);
  }

  #map(entries, depth) {
    if (entries.length < 16) this.#byte(0x80 | entries.length);
    else this.#head(entries.length, 0, 0xde, 0xdf);
    for (const [name, each] of entries) {
      this.value(name, depth + 1);
      this.value(each, depth + 1);
    }
  }

  /** The form of 96 bits, which holds every `Date`. */
  #moment(moment) {
    const milliseconds = moment.getTime();
    if (Number.isNaN(milliseconds)) throw new RangeError("a Date without a time");
    const seconds = Math.floor(milliseconds / 1000);
    this.#byte(0xc7);
    this.#byte(12);
    this.#byte(TIMESTAMP & 0xff);
    const at = this.#room(12);
    this.#view.setUint32(at, (milliseconds - seconds * 1000) * 1e6);
    this.#view.setBigInt64(at + 4, BigInt(seconds));
  }
}

/** A text without half characters, as it can be sent. Throws `TypeError`. */
export function wellFormed(value) {
  if (/\p{Surrogate}/u.test(value)) throw new TypeError(`a text with half a character in it: ${JSON.stringify(value)}`);
  return value;
}

/** The bytes of a value. Throws `TypeError` or `RangeError` for what MessagePack cannot say. */
export function encode(value) {
  const writer = new Writer();
  writer.value(value, 0);
  return writer.written;
}

/** The bytes before so many values of an array. */
export function arrayHead(count) {
  return count < 16 ? Uint8Array.of(0x90 | count) : Uint8Array.of(0xdc, count >> 8, count & 0xff);
}

/** Reads one value after the other. Bytes that it returns are views of its own. */
export class Reader {
  #bytes;
  #view;

  constructor(bytes) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = 0;
  }

  get isOver() {
    return this.at >= this.#bytes.length;
  }

  #take(size) {
    const at = this.at;
    if (size > this.#bytes.length - at) throw new Unreadable(`${size} bytes at ${at}: only ${this.#bytes.length - at} follow`);
    this.at += size;
    return at;
  }

  #bytesOf(size) {
    const at = this.#take(size);
    return this.#bytes.subarray(at, at + size);
  }

  #textOf(size) {
    const bytes = this.#bytesOf(size);
    try {
      return toText.decode(bytes);
    } catch {
      throw new Unreadable(`a text at ${this.at - size} is no UTF-8`);
    }
  }

  #unsigned(size) {
    const at = this.#take(size);
    if (size === 1) return this.#view.getUint8(at);
    return size === 2 ? this.#view.getUint16(at) : this.#view.getUint32(at);
  }

  /** Throws `Unreadable`. */
  value(depth = 0) {
    if (depth > DEEPEST) throw new Unreadable(`more than ${DEEPEST} levels deep`);
    const head = this.#view.getUint8(this.#take(1));
    if (head < 0x80) return head;
    if (head < 0x90) return this.#map(head & 0x0f, depth);
    if (head < 0xa0) return this.#array(head & 0x0f, depth);
    if (head < 0xc0) return this.#textOf(head & 0x1f);
    if (head >= 0xe0) return head - 0x100;
    return this.#headed(head, depth);
  }

  #headed(head, depth) {
    switch (head) {
      case 0xc0:
        return null;
      case 0xc2:
        return false;
      case 0xc3:
        return true;
      case 0xc4:
      case 0xc5:
      case 0xc6:
        return this.#bytesOf(this.#unsigned(1 << (head - 0xc4)));
      case 0xc7:
      case 0xc8:
      case 0xc9:
        return this.#extension(this.#unsigned(1 << (head - 0xc7)));
      case 0xca:
        return this.#view.getFloat32(this.#take(4));
      case 0xcb:
        return this.#view.getFloat64(this.#take(8));
      case 0xcc:
      case 0xcd:
      case 0xce:
        return this.#unsigned(1 << (head - 0xcc));
      case 0xcf:
        return integer(this.#view.getBigUint64(this.#take(8)));
      case 0xd0:
        return this.#view.getInt8(this.#take(1));
      case 0xd1:
        return this.#view.getInt16(this.#take(2));
      case 0xd2:
        return this.#view.getInt32(this.#take(4));
      case 0xd3:
        return integer(this.#view.getBigInt64(this.#take(8)));
      case 0xd4:
      case 0xd5:
      case 0xd6:
      case 0xd7:
      case 0xd8:
        return this.#extension(1 << (head - 0xd4));
      case 0xd9:
      case 0xda:
      case 0xdb:
        return this.#textOf(this.#unsigned(1 << (head - 0xd9)));
      case 0xdc:
      case 0xdd:
        return this.#array(this.#unsigned(2 << (head - 0xdc)), depth);
      case 0xde:
      case 0xdf:
        return this.#map(this.#unsigned(2 << (head - 0xde)), depth);
      default:
        throw new Unreadable(`no value begins with byte ${head}`);
    }
  }

  #array(count, depth) {
    if (count > this.#bytes.length - this.at) throw new Unreadable(`${count} values in too few bytes`);
    const values = [];
    for (let index = 0; index < count; index++) values.push(this.value(depth + 1));
    return values;
  }

  #map(count, depth) {
    if (2 * count > this.#bytes.length - this.at) throw new Unreadable(`${count} names in too few bytes`);
    const entries = [];
    for (let index = 0; index < count; index++) entries.push([String(this.value(depth + 1)), this.value(depth + 1)]);
    return Object.fromEntries(entries); // `__proto__` is a name like any other then
  }

  #extension(size) {
    const at = this.#take(1 + size);
    const type = this.#view.getInt8(at);
    if (type === TIMESTAMP && size === 4) return new Date(this.#view.getUint32(at + 1) * 1000);
    if (type === TIMESTAMP && size === 8) {
      const both = this.#view.getBigUint64(at + 1);
      return new Date(Number(both & 0x3ffffffffn) * 1000 + Math.floor(Number(both >> 34n) / 1e6));
    }
    if (type === TIMESTAMP && size === 12) {
      const seconds = Number(this.#view.getBigInt64(at + 5));
      return new Date(seconds * 1000 + Math.floor(this.#view.getUint32(at + 1) / 1e6));
    }
    return { extension: type, bytes: this.#bytes.subarray(at + 1, at + 1 + size) };
  }

  /** Passes over one value without looking into it; whether its texts are texts does not matter. */
  skip() {
    let left = 1;
    while (left-- > 0) {
      const head = this.#view.getUint8(this.#take(1));
      left += this.#after(head);
    }
  }

  /** Passes over what follows a head; returns how many values still belong to it. */
  #after(head) {
    if (head < 0x80 || head >= 0xe0 || head === 0xc0 || head === 0xc2 || head === 0xc3) return 0;
    if (head < 0x90) return 2 * (head & 0x0f);
    if (head < 0xa0) return head & 0x0f;
    if (head < 0xc0) return this.#pass(head & 0x1f);
    if (head === 0xc1) throw new Unreadable("no value begins with byte 193");
    if (head <= 0xc6) return this.#pass(this.#unsigned(1 << (head - 0xc4)));
    if (head <= 0xc9) return this.#pass(1 + this.#unsigned(1 << (head - 0xc7)));
    if (head <= 0xcb) return this.#pass(4 << (head - 0xca));
    if (head <= 0xcf) return this.#pass(1 << (head - 0xcc));
    if (head <= 0xd3) return this.#pass(1 << (head - 0xd0));
    if (head <= 0xd8) return this.#pass(1 + (1 << (head - 0xd4)));
    if (head <= 0xdb) return this.#pass(this.#unsigned(1 << (head - 0xd9)));
    if (head <= 0xdd) return this.#unsigned(2 << (head - 0xdc));
    return 2 * this.#unsigned(2 << (head - 0xde));
  }

  #pass(size) {
    this.#take(size);
    return 0;
  }
}

function integer(large) {
  const small = Number(large);
  return Number.isSafeInteger(small) ? small : large;
}

/** The value that these bytes are, all of them. Throws `Unreadable`. */
export function decode(bytes) {
  const reader = new Reader(bytes);
  const value = reader.value();
  if (!reader.isOver) throw new Unreadable(`${bytes.length - reader.at} bytes follow the value`);
  return value;
}
