// What neighbours said lately: who reads what has come or gone. The newest is on top.

import { h } from "../dom.js";
import { clock, date, visible } from "../format.js";
import { shape } from "../icons.js";
import { includes, listing } from "../listing.js";
import { segments } from "../parts.js";

const STATES = { add: "running", remove: "unknown", live: "live", dormant: "dormant", up: "running", down: "down", blocked: "blocked", start: "running", stop: "down" };
const FROM = { up: "↑ from the child", down: "↓ from the parent", mesh: "↔ from the core" };

function show(root) {
  let op = "";
  const ops = segments("Operation", (value) => {
    op = value;
    made.draw();
  });
  const tally = new Map();
  const made = listing(root, {
    title: "Recent advisories",
    path: "advisories",
    what: "its recent advisories",
    one: "advisory",
    many: "advisories",
    placeholder: "Search a destination, node or cause",
    extras: [ops.element],
    list: (answer) => {
      const rows = (answer?.advisories ?? []).map((row, place, all) => ({ ...row, order: all.length - place }));
      tally.clear();
      for (const row of rows) tally.set(row.op, (tally.get(row.op) ?? 0) + 1);
      return rows;
    },
    kept: (row) => !op || row.op === op,
    found: (row, lower) => includes(lower, row.destination, row.peer, row.origin, row.cause),
    keyOf: (row) => [row.at, row.op, row.kind, row.destination, row.peer, row.order].join(" "),
    empty: "No advisory has come since this node started.",
    columns: [
      { key: "at", title: "At", width: "104px", narrow: "72px", text: (row) => clock(row.at), hint: (row) => date(row.at) },
      { key: "op", title: "What", width: "98px", narrow: "80px", sort: (row) => row.op, text: (row) => row.op, draw: (row) => h("span", { class: "twig" }, shape(STATES[row.op] ?? "unknown"), row.op) },
      { key: "kind", title: "Kind", width: "72px", sort: (row) => row.kind, text: (row) => row.kind ?? "" },
      { key: "destination", title: "Destination", width: "minmax(200px, 1.8fr)", narrow: "minmax(0, 1fr)", sort: (row) => row.destination, text: (row) => visible(row.destination) },
      { key: "peer", title: "Told by", width: "minmax(170px, 1fr)", sort: (row) => row.peer, text: (row) => (row.event === "consumer" ? "a consumer here" : `${row.event === "link" ? "the link of" : FROM[row.direction] ?? ""} ${visible(row.peer ?? "")}`.trim()) },
      { key: "origin", title: "Consumer at", width: "minmax(100px, 0.8fr)", sort: (row) => row.origin, text: (row) => visible(row.origin ?? "") },
      { key: "cause", title: "Cause", width: "minmax(120px, 1fr)", sort: (row) => row.cause, text: (row) => visible(row.cause ?? ""), draw: (row) => h("span", { class: "mono sub" }, visible(row.cause ?? "")) },
    ],
    drawn: () => ops.draw([["", "All"], ...[...tally].map(([name, number]) => [name, name, String(number)])], op),
  });
  return made;
}

export default { name: "advisories", title: "Advisories", key: "a", show };
