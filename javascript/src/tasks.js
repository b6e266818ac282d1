/**
 * Tasks: what belongs together, from the outermost call down to the last message that it causes. The id travels with each
 * message (`taskId`); `sapwood trace --task NAME` shows all of it as one timeline.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import { randomUUID } from "node:crypto";

import { listener, text } from "./options.js";

const current = new AsyncLocalStorage();

/** Id of the task that this code runs for; '' = none. */
export function currentTask() {
  return current.getStore() ?? "";
}

/** Runs `work` with everything that it calls or sends as one task, `name`, or a fresh one where that is ''. */
export function task(name, work) {
  text("name", name);
  listener("work", work);
  return current.run(name || newTask(), work);
}

export function newTask() {
  return randomUUID().replaceAll("-", "");
}
