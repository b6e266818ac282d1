/** Waits that end when the caller says so. */

import { milliseconds } from "./options.js";

/**
 * What `promise` becomes; or throws what `late(cause)` makes of it when `timeout` milliseconds are over, or `signal` says so.
 */
export async function until(promise, { timeout, signal }, late) {
  if (timeout === undefined && signal === undefined) return promise;
  if (timeout !== undefined) milliseconds("timeout", timeout);
  if (signal !== undefined && !(signal instanceof AbortSignal)) throw new TypeError("signal: expected an AbortSignal");
  let timer;
  let abort;
  const ended = new Promise((_, reject) => {
    const end = (cause) => reject(late(cause));
    abort = () => end(signal.reason);
    if (timeout !== undefined) timer = setTimeout(end, timeout, new Error(`${timeout} ms are over`));
    if (signal?.aborted) abort();
    else signal?.addEventListener("abort", abort);
  });
  try {
    return await Promise.race([promise, ended]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  }
}

export const sleep = (time) => new Promise((resolve) => setTimeout(resolve, time));
