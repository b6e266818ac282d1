/** The client library of Sapwood for JavaScript. How it is used stands in `docs/javascript.md`. */

export { Client, connect } from "./client.js";
export * from "./errors.js";
export { Delivery } from "./inbox.js";
export { Rpc } from "./rpc.js";
export { Server } from "./serving.js";
export { Subscription } from "./subscription.js";
export { currentTask, task } from "./tasks.js";
