// Routes that an operator sets at a node, and ends: each asks first, and says what the node made of it.

import { ask } from "./api.js";
import { h, replace } from "./dom.js";
import { visible } from "./format.js";
import { act, facts, panel, sure } from "./parts.js";
import { KINDS } from "./route_kinds.js";

// Routes that follow a link or a consumer come and go by themselves; the others were set.
export const isSet = (row) => row.kind in KINDS && !(row.kind === "default" && row.via === "parent");

const told = ({ kind, destination, gateway }) => `${kind}${destination ? ` ${visible(destination)}` : ""} → ${visible(gateway)}`;

async function change(method, route, node) {
  const done = (found) => `At ${visible(found.node)} the route ${told(found)} is ${method === "POST" ? "set" : "removed"}.`;
  return act(() => ask("routes", { method, body: { ...route, node } }), done);
}

// A panel with a form. `node`: '' is this one; `changed()` is called when the route is set.
export function setRoute(node, changed) {
  const side = panel("Set a route");
  const kind = h("select", { "aria-label": "Kind of route", on: { change: () => drawFields() } }, Object.entries(KINDS).map(([name, { text }]) => h("option", { value: name }, text)));
  const field = (hint) => h("input", { type: "text", placeholder: hint, autocomplete: "off", spellcheck: "false", required: true });
  const address = field("CELL@NODE, or a well-known CELL");
  const gateway = field("");
  const fields = h("div", { class: "stack" });
  const drawFields = () => {
    const wanted = KINDS[kind.value];
    replace(fields,
      wanted.address ? h("label", { class: "above" }, "Address", h("span", { class: "field" }, address)) : null,
      h("label", { class: "above" }, wanted.gateway, h("span", { class: "field" }, gateway)));
  };
  const set = async (event) => {
    event.preventDefault();
    const route = { kind: kind.value, destination: KINDS[kind.value].address ? address.value.trim() : "", gateway: gateway.value.trim() };
    const question = `${told(route)}. It counts at once, is kept on disk, and stays until it is removed or the neighbour has gone.`;
    if (!(await sure(`Set this route at ${node ? visible(node) : "this node"}?`, question, "Set it", "primary"))) return;
    if (await change("POST", route, node)) {
      side.close();
      changed();
    }
  };
  drawFields();
  side.body.append(h("form", { class: "stack", on: { submit: set } },
    h("label", { class: "above" }, "Kind", h("span", { class: "field" }, kind)),
    fields,
    h("div", {}, h("button", { type: "submit", class: "primary" }, "Set the route…"))));
}

// A panel about one route; what was set can be removed there.
export function showRoute(row, node, state, changed) {
  const side = panel(visible(row.destination || row.kind));
  const remove = async () => {
    const question = `${told(row)}. What waits is routed anew, as the other routes say.`;
    if (!(await sure(`Remove this route at ${node ? visible(node) : "this node"}?`, question, "Remove it"))) return;
    if (await change("DELETE", { kind: row.kind, destination: row.destination, gateway: row.gateway }, node)) {
      side.close();
      changed();
    }
  };
  side.body.append(
    facts([
      ["Kind", row.kind],
      row.destination && ["Destination", visible(row.destination)],
      [row.kind === "alias" ? "Stands for" : "Through", visible(row.gateway)],
      ["State", state],
      row.origin && [isSet(row) ? "Set at" : "Consumer at", visible(row.origin)],
    ]),
    isSet(row) ? h("div", {}, h("button", { type: "button", class: "danger", on: { click: remove } }, "Remove the route…"))
      : h("p", { class: "muted" }, "It follows its link or its consumer, and comes and goes by itself."));
}
