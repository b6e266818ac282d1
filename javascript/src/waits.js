/** Waits that end when the caller says so. */

import { setTimeout as setTimer } from "node:timers/promises";

import { LONGEST, milliseconds, settled } from "./options.js";

/**
 * What `work()` becomes; or throws what `late(cause)` makes of it when `timeout` milliseconds are over, or `signal` says so.
 * Nothing is begun where they are wrong, or it says so already.
 */
export async function until(work, given, late) {
  const { timeout: time, signal } = settled(given, { timeout: LONGEST, signal: undefined }, { timeout: milliseconds });
  if (signal !== undefined && !(signal instanceof AbortSignal)) throw new TypeError("signal: expected an AbortSignal");
  if (signal?.aborted) throw late(signal.reason);
  const promise = work();
  if (time === LONGEST && !signal) return promise;
  let timer;
  let abort;
  const ended = new Promise((_, reject) => {
    const end = (cause) => reject(late(cause));
    abort = () => end(signal.reason);
    if (time < LONGEST) timer = setTimeout(() => end(new Error(`${time} ms are over`)), time);
    signal?.addEventListener("abort", abort);
  });
  try {
    return await Promise.race([promise, ended]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  }
}

/** `signal` ends it early. Only where `ref` is not false does it keep the process alive. */
export const sleep = (time, given) => setTimer(time, undefined, given).catch(() => {});
