// Ping, traceroute and who-has: whether a cell is there, which way a message for it would take now, and which node
// has a name or an incarnation.

import { ApiError, ask } from "./api.js";
import { h, replace } from "./dom.js";
import { milliseconds, visible } from "./format.js";
import { banner } from "./parts.js";

const HINT = "CELL@NODE, CELL@UUID, or a well-known CELL";

export function asking() {
  const input = h("input", { type: "text", placeholder: HINT, "aria-label": "Cell to ping", autocomplete: "off", spellcheck: "false" });
  const said = h("div", { class: "stack", role: "status" });
  const run = async (path, draw, queryOf = (address) => ({ address })) => {
    const address = input.value.trim();
    if (!address) return replace(said);
    replace(said, h("p", { class: "muted" }, "Asking…"));
    try {
      replace(said, draw(await ask(path, { query: queryOf(address) })));
    } catch (error) {
      replace(said, banner("warning", error instanceof ApiError ? error.message : "The node does not answer."));
    }
  };
  const ping = () => run("ping", pong);
  return h("div", { class: "stack" },
    h("form", { class: "head", on: { submit: (event) => {
      event.preventDefault();
      void ping();
    } } },
    h("span", { class: "field wide" }, input),
    h("button", { type: "submit" }, "Ping"),
    h("button", { type: "button", on: { click: () => run("traceroute", hops) } }, "Traceroute"),
    h("button", { type: "button", on: { click: () => run("who-has", holder, keyOf) } }, "Who has")),
    said);
}

function pong(found) {
  const where = `${visible(found.cell)}@${visible(found.node)}`;
  if (found.here) return h("p", {}, `${where} is there: ${milliseconds(found.ms)}.`);
  return banner("warning", `${visible(found.node)} answers in ${milliseconds(found.ms)}, but nobody reads ${visible(found.cell)} there.`);
}

// The name or the incarnation of an address: what stands behind the "@", if there is one.
const keyOf = (address) => ({ key: address.slice(address.indexOf("@") + 1) });

function holder(found) {
  const uris = found.addresses.length ? `, at ${found.addresses.map(visible).join(", ")}` : "";
  return h("p", {}, `${visible(found.name)} is ${visible(found.incarnation)}${uris}: ${visible(found.via)} says so.`);
}

function hops(found) {
  const lines = found.hops.map((hop) => h("li", {}, hopOf(hop)));
  const end = found.complete ? null : banner("warning", `It ends here: ${visible(found.why)}.`);
  return h("div", {}, h("ol", { class: "hops" }, lines), end);
}

function hopOf(hop) {
  if (hop.ms === null) return `${visible(hop.node)}: no answer`;
  const ways = hop.gateways.map((name) => (hop.down.includes(name) ? `${visible(name)} (down)` : visible(name)));
  const on = ways.length ? ` → ${ways.join(", ")}` : "";
  return `${visible(hop.node)}, ${milliseconds(hop.ms)}, by ${hop.how}${on} as ${visible(hop.address)}`;
}
