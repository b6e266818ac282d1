// Links and cells of this node, or of any other that answers: what it says of itself, asked through the tree.

import { titleAt, whichNode } from "../elsewhere.js";
import { h } from "../dom.js";
import { count, duration, visible } from "../format.js";
import { stateMark } from "../icons.js";
import { dim, figure, includes, listing } from "../listing.js";
import { facts, panel, segments } from "../parts.js";

const EVERY = 3;
const ARROWS = { parent: "↑", mesh: "↔", child: "↓" };
const number = (key, title, width) => ({
  key, title, width, number: true, sort: (row) => row[key], text: (row) => figure(row[key], count), draw: (row) => dim(figure(row[key], count)),
});

const LINKS = {
  title: "Links",
  path: "links",
  what: "its links",
  one: "link",
  placeholder: "Search a neighbour",
  list: (answer) => answer?.links,
  found: (row, lower) => includes(lower, row.name, row.zone, row.incarnation, ...(row.addresses ?? [])),
  keyOf: (row) => row.name,
  empty: "It has neither a parent nor children.",
  sortBy: "name",
  open: showLink,
  columns: [
    { key: "name", title: "Neighbour", width: "minmax(160px, 1.2fr)", narrow: "minmax(0, 1fr)", sort: (row) => row.name, text: (row) => `${ARROWS[row.relation] ?? ""} ${visible(row.name)}` },
    { key: "relation", title: "Relation", width: "90px", sort: (row) => row.relation, text: (row) => row.relation },
    { key: "state", title: "State", width: "118px", narrow: "96px", sort: (row) => row.state, text: (row) => row.state, draw: (row) => stateMark(row.state) },
    { key: "since", title: "Since", width: "78px", narrow: "64px", number: true, sort: (row) => row.since_s, text: (row) => duration(row.since_s) },
    number("routes", "Routes", "84px"),
    number("set", "Set", "62px"),
    number("refused", "Refused", "84px"),
    { key: "zone", title: "Zone", width: "minmax(80px, 0.6fr)", yields: 1, sort: (row) => row.zone, text: (row) => visible(row.zone ?? "") },
    { key: "why", title: "Why", width: "minmax(150px, 1.6fr)", yields: 9, text: (row) => visible(row.error ?? "") },
  ],
};

const CELLS = {
  title: "Cells",
  path: "cells",
  what: "its cells",
  one: "cell",
  placeholder: "Search a cell",
  list: (answer) => answer?.cells,
  found: (row, lower) => includes(lower, row.name),
  keyOf: (row) => `${row.own} ${row.name}`,
  empty: "It has no cells.",
  sortBy: "name",
  columns: [
    { key: "name", title: "Cell", width: "minmax(200px, 1.4fr)", narrow: "minmax(0, 1fr)", sort: (row) => row.name, text: (row) => visible(row.name) },
    { key: "what", title: "What it is", width: "110px", narrow: "84px", sort: (row) => String(row.own), text: (row) => (row.own ? "the node's" : "queue") },
    number("readers", "Readers", "90px"),
    number("messages", "Messages", "96px"),
    { key: "also", title: "Also read behind", width: "minmax(140px, 1fr)", text: (row) => visible((row.also ?? []).join(", ")) },
  ],
};

function showLink(row) {
  const side = panel(visible(row.name));
  side.body.append(
    h("p", {}, stateMark(row.state, ` for ${duration(row.since_s)}`), row.error && h("span", { class: "muted" }, ` · ${visible(row.error)}`)),
    facts([
      ["Relation", row.relation],
      row.incarnation && ["Incarnation", row.incarnation],
      row.addresses?.length && ["Addresses", row.addresses.map(visible).join(", ")],
      row.over && ["Over", visible(row.over)],
      row.proof && ["Its name is proven by", visible(row.proof)],
      row.zone && ["Zone", visible(row.zone)],
      ["Routes learned from it", count(row.routes)],
      ["Routes set through it", count(row.set)],
      row.refused && ["Refused of it", count(row.refused)],
      row.refused_us && ["Refused of ours by it", count(row.refused_us)],
    ]));
}

function show(root, { rest, go }) {
  const [name = "", part = "links"] = rest;
  const shown = part === "cells" ? CELLS : LINKS;
  const parts = segments("Show", (value) => go("node", name, value));
  parts.draw([["links", "Links"], ["cells", "Cells"]], shown.path);
  return listing(root, {
    ...shown,
    title: titleAt(shown.title, name),
    every: EVERY,
    query: () => ({ node: name }),
    above: [h("div", { class: "head" }, whichNode(name, (other) => go("node", other, shown.path)), parts.element)],
  });
}

export default { name: "node", title: "Links and cells", key: "n", show };
