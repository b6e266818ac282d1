// The routing table: through which gateway each destination is reached, by kind and gateway.

import { asking } from "../asking.js";
import { h } from "../dom.js";
import { titleAt, whichNode } from "../elsewhere.js";
import { short, visible } from "../format.js";
import { stateMark } from "../icons.js";
import { includes, listing } from "../listing.js";
import { segments } from "../parts.js";
import { isSet, setRoute, showRoute } from "../setting.js";

const MOST_GATEWAYS = 12;
const ARROWS = { local: "●", parent: "↑", child: "↓", mesh: "↔" };

// Figures by kind and by gateway, from {"queue/york": 4} or {"queue": {"york": 4}}.
export function tally(counts) {
  const kinds = new Map();
  const gateways = new Map();
  const add = (kind, gateway, number) => {
    kinds.set(kind, (kinds.get(kind) ?? 0) + number);
    gateways.set(gateway, (gateways.get(gateway) ?? 0) + number);
  };
  for (const [name, value] of Object.entries(counts ?? {})) {
    if (value && typeof value === "object") for (const [gateway, number] of Object.entries(value)) add(name, gateway, Number(number));
    else if (name.includes("/")) add(name.slice(0, name.indexOf("/")), name.slice(name.indexOf("/") + 1), Number(value));
    else kinds.set(name, (kinds.get(name) ?? 0) + Number(value));
  }
  return { kinds, gateways };
}

const stateOf = (row) => (row.live === false ? "dormant" : row.up === false ? "down" : "live");

function show(root, { live, rest, go }) {
  const [node = ""] = rest;
  let kind = "";
  let gateway = "";
  let counts = null;
  const kinds = segments("Kind", (value) => {
    kind = value;
    again();
  });
  const gateways = segments("Gateway", (value) => {
    gateway = value;
    again();
  });
  const again = () => {
    drawChoices();
    made.renew();
  };
  const drawChoices = () => {
    const found = tally(counts ?? (node ? {} : live.status?.routes));
    const largest = [...found.gateways].sort((one, other) => other[1] - one[1]).slice(0, MOST_GATEWAYS);
    if (gateway && !largest.some(([name]) => name === gateway)) largest.push([gateway, found.gateways.get(gateway) ?? 0]);
    kinds.draw([["", "All kinds"], ...[...found.kinds].map(([name, number]) => [name, name, short(number)])], kind);
    gateways.draw([["", "All gateways"], ...largest.map(([name, number]) => [name, name, short(number)])], gateway);
  };
  const made = listing(root, {
    title: titleAt("Routes", node),
    path: "routes",
    searches: true,
    what: "its routes",
    one: "route",
    every: 3,
    placeholder: "Search a destination",
    extras: [h("button", { type: "button", on: { click: () => setRoute(node, () => made.soon()) } }, "Set a route…")],
    above: [h("div", { class: "columns" }, asking(), whichNode(node, (other) => go("routes", other))), h("div", { class: "head" }, kinds.element), h("div", { class: "head" }, gateways.element)],
    query: () => ({ kind, gateway, node }),
    list: (answer) => answer?.routes,
    told: (answer) => {
      counts = answer.counts && Object.keys(answer.counts).length ? answer.counts : null;
      drawChoices();
    },
    found: (row, lower) => includes(lower, row.destination, row.name, row.gateway),
    keyOf: (row) => [row.kind, row.destination, row.gateway].join(" "),
    empty: "No routes of that kind.",
    sortBy: "destination",
    open: (row) => showRoute(row, node, stateOf(row), () => made.soon()),
    columns: [
      { key: "kind", title: "Kind", width: "80px", sort: (row) => row.kind, text: (row) => row.kind },
      { key: "destination", title: "Destination", width: "minmax(200px, 2fr)", narrow: "minmax(0, 1fr)", sort: (row) => row.destination, text: (row) => visible(row.destination) },
      { key: "gateway", title: "Gateway", width: "minmax(120px, 1fr)", narrow: "84px", sort: (row) => row.gateway, text: (row) => `${ARROWS[row.via] ?? "→"} ${visible(row.gateway)}` },
      { key: "live", title: "State", width: "110px", narrow: "78px", sort: (row) => stateOf(row), text: (row) => stateOf(row), draw: (row) => stateMark(stateOf(row)) },
      { key: "origin", title: "Consumer at", width: "minmax(120px, 1fr)", sort: (row) => row.origin, text: (row) => (isSet(row) ? "set by hand" : visible(row.origin ?? "")) },
    ],
    drawn: () => drawChoices(),
  });
  return made;
}

export default { name: "routes", title: "Routes", key: "r", show };
