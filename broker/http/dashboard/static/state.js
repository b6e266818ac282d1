// What the page knows of the node, kept up to date by the live stream, and short histories for sparklines.

import { ask, stream } from "./api.js";

const POINTS = 120;
const MOST_HISTORIES = 6000;
const SILENCE = 10;
const BACK_OFF = [0.5, 1, 2, 4, 8];

// Short histories of figures, by name; the browser alone keeps them.
export class Histories {
  constructor() {
    this.byName = new Map();
  }

  add(name, value) {
    let points = this.byName.get(name);
    if (!points) {
      if (this.byName.size >= MOST_HISTORIES) this.byName.delete(this.byName.keys().next().value);
      this.byName.set(name, (points = []));
    }
    points.push(Number.isFinite(value) ? value : 0);
    if (points.length > POINTS) points.shift();
  }

  of(name) {
    return this.byName.get(name) ?? [];
  }
}

// Rates from counters that only grow, for nodes that do not say rates themselves.
class Counters {
  constructor() {
    this.before = new Map();
  }

  rate(name, value, at) {
    if (!Number.isFinite(value)) return undefined;
    const before = this.before.get(name);
    this.before.set(name, { value, at });
    if (!before || at <= before.at || value < before.value) return undefined;
    return ((value - before.value) * 1000) / (at - before.at);
  }
}

export class Live {
  constructor() {
    this.status = null;
    this.tree = null;
    this.at = 0;
    this.rates = {};
    this.connection = "connecting";
    this.error = "";
    this.histories = new Histories();
    this.counters = new Counters();
    this.listeners = new Set();
    this.parts = "status";
    this.controller = null;
    this.failures = 0;
    this.polling = false;
    document.addEventListener("visibilitychange", () => this.restart());
  }

  // Calls `listener()` after each update; returns how to stop that.
  listen(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  tell() {
    for (const listener of [...this.listeners]) listener();
  }

  // Which parts of the node's state the shown view wants.
  want(parts) {
    if (parts === this.parts && this.controller) return;
    this.parts = parts;
    this.restart();
  }

  restart() {
    this.controller?.abort();
    this.controller = null;
    if (!document.hidden) void this.run();
  }

  stop() {
    this.controller?.abort();
    this.controller = null;
  }

  async run() {
    const controller = (this.controller = new AbortController());
    const { signal } = controller;
    while (!signal.aborted) {
      try {
        if (this.polling) await this.askOnce(signal);
        else await stream("live", { query: { parts: this.parts, interval: 1 }, signal, silence: SILENCE }, (found) => this.take(found));
        if (!this.polling) this.failed("the node ended the stream");
      } catch (error) {
        if (signal.aborted) return;
        if (error.needsToken) return this.failed(error.message, "refused");
        if (error.status === 400 && this.parts !== "status") this.parts = "status";
        else if (error.isMissing) this.polling = true;
        else this.failed(error.status ? error.message : "the node does not answer");
      }
      await rest(this.polling && !this.failures ? 1 : BACK_OFF[Math.min(this.failures, BACK_OFF.length - 1)], signal);
    }
  }

  async askOnce(signal) {
    const status = await ask("status", { signal });
    this.take({ at: Date.now(), status });
  }

  failed(text, connection = "lost") {
    this.failures += 1;
    this.connection = connection;
    this.error = text;
    this.tell();
  }

  take(found) {
    this.failures = 0;
    this.connection = "live";
    this.error = "";
    if (found.tree) this.tree = found.tree;
    if (found.status) this.takeStatus(found.status, found.at ?? Date.now());
    this.tell();
  }

  takeStatus(status, at) {
    if (this.status && this.status.incarnation !== status.incarnation) this.counters = new Counters();
    this.status = status;
    this.at = at;
    this.rates = this.ratesOf(status, at);
    for (const [name, value] of Object.entries(this.rates)) this.histories.add(`rate:${name}`, value);
    this.histories.add("waiting", waitingOf(status));
    this.histories.add("dead", status.dead?.messages ?? 0);
    this.histories.add("sessions", countOf(status.sessions));
    for (const link of linksOf(status)) this.takeLink(link, at);
  }

  takeLink(link, at) {
    link.in_rate = link.in_per_s ?? this.counters.rate(`in:${link.name}`, link.in, at);
    link.out_rate = link.out_per_s ?? this.counters.rate(`out:${link.name}`, link.out, at);
    this.histories.add(`link:${link.name}`, (link.in_rate ?? 0) + (link.out_rate ?? 0));
  }

  ratesOf(status, at) {
    const given = status.rates ?? {};
    const counters = status.counters ?? {};
    const links = linksOf(status);
    const sum = (what) => links.reduce((total, link) => total + (link[what] ?? 0), 0);
    const fallback = {
      in: this.counters.rate("links in", sum("in"), at),
      out: this.counters.rate("links out", sum("out"), at),
      delivered: this.counters.rate("delivered", counters.delivered, at),
      entered: this.counters.rate("entered", counters.entered, at),
    };
    return Object.fromEntries(
      ["entered", "delivered", "in", "out"].map((name) => [name, given[`${name}_per_s`] ?? fallback[name]]),
    );
  }
}

const rest = (seconds, signal) =>
  new Promise((done) => {
    const timer = setTimeout(done, seconds * 1000);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      done();
    });
  });

// All links: of a node below a mesh to each node above, of a node of a mesh to the others, to the children.
export function linksOf(status) {
  const parents = status?.parents?.length ? status.parents : status?.parent ? [status.parent] : [];
  const mesh = status?.mesh ?? [];
  for (const link of mesh) link.relation ??= "mesh";
  return [...parents, ...mesh, ...(status?.children ?? [])];
}

// The head of a reason is a code: "EXPIRED: nobody took it" is EXPIRED.
export const head = (reason) => String(reason ?? "").split(/[:\s]/)[0];

// How many dead letters for each head, of the latest; and, without a figure, those that there once were.
export function headsOf(reasons, once = {}) {
  const found = new Map();
  for (const [reason, number] of Object.entries(reasons ?? {})) found.set(head(reason), (found.get(head(reason)) ?? 0) + number);
  for (const name of Object.keys(once ?? {})) if (!found.has(head(name))) found.set(head(name), 0);
  return found;
}

// A figure that may be a number, a list, or an object with a count.
export function countOf(value) {
  if (Array.isArray(value)) return value.length;
  if (value && typeof value === "object") return value.count ?? value.sessions ?? 0;
  return Number(value ?? 0);
}

// Everything that waits at this node: in queues and for links.
export function waitingOf(status) {
  const queues = (status.queues ?? []).reduce((total, queue) => total + (queue.messages ?? 0), 0);
  const links = linksOf(status).reduce((total, link) => total + (link.waiting ?? 0) + (link.outbox ?? 0), 0);
  return status.waiting?.messages ?? queues + links;
}

export function oldestOf(status) {
  const ages = [
    ...(status.queues ?? []).map((queue) => queue.oldest_s ?? 0),
    ...linksOf(status).map((link) => link.spool_oldest_s ?? 0),
  ];
  return ages.length ? Math.max(...ages) : 0;
}
