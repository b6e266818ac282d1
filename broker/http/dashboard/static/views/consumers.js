// Who reads at this node: what makes its routes, and with them the advisories up the tree.

import { ask } from "../api.js";
import { h } from "../dom.js";
import { count, plural, visible } from "../format.js";
import { dim, figure, includes, listing } from "../listing.js";
import { act, facts, panel, sure } from "../parts.js";

const nameOf = (row) => row.destination ?? row.name ?? row.queue ?? row.pattern ?? "";
const kindOf = (row) => row.kind ?? (String(nameOf(row)).split(":").length > 1 ? String(nameOf(row)).split(":")[0] : "");

function show(root) {
  const made = listing(root, {
    title: "Consumers",
    path: "consumers",
    searches: true,
    what: "who reads here",
    one: "consumer",
    placeholder: "Search a destination or session",
    list: (answer) => numbered(answer?.consumers ?? []),
    found: (row, lower) => includes(lower, nameOf(row), row.session, row.id),
    keyOf: (row) => [nameOf(row), row.session, row.id, row.number, row.order].join(" "),
    empty: "Nobody reads at this node.",
    sortBy: "name",
    open: (row) => showConsumer(row, () => made.soon()),
    columns: [
      { key: "kind", title: "Kind", width: "80px", sort: kindOf, text: kindOf },
      { key: "name", title: "Destination", width: "minmax(150px, 2fr)", narrow: "minmax(0, 1fr)", sort: nameOf, text: (row) => visible(nameOf(row)) },
      { key: "session", title: "Session", width: "minmax(140px, 1fr)", sort: (row) => row.session, text: (row) => visible(sessionsOf(row)) },
      { key: "outstanding", title: "Has", width: "70px", number: true, sort: (row) => row.outstanding, text: (row) => figure(row.outstanding, count), draw: (row) => dim(figure(row.outstanding, count)) },
      { key: "credit", title: "Credit", width: "78px", number: true, sort: (row) => row.credit, text: (row) => figure(row.credit, count), draw: (row) => dim(figure(row.credit, count)) },
      { key: "waiting", title: "Waiting", width: "90px", narrow: "64px", number: true, sort: (row) => row.messages, text: (row) => figure(row.messages, count), draw: (row) => dim(figure(row.messages, count)) },
      { key: "state", title: "State", width: "minmax(110px, 0.8fr)", narrow: "64px", sort: stateOf, text: stateOf },
    ],
  });
  return made;
}

function showConsumer(row, ended) {
  const side = panel(visible(nameOf(row)));
  const end = async () => {
    if (!(await sure("End this subscription?", `${visible(row.durable || row.id)} and what waits for it will be gone for good.`, "End it"))) return;
    if (await act(() => ask(`subscriptions/${encodeURIComponent(row.id)}`, { method: "DELETE" }), (found) => `The subscription is ended, with ${plural(found?.messages ?? 0, "message")}.`)) {
      side.close();
      ended();
    }
  };
  side.body.append(
    facts([
      ["Destination", visible(nameOf(row))],
      ["Session", visible(row.session ?? "none now")],
      ["Has", plural(row.outstanding ?? 0, "message")],
      ["Credit", count(row.credit)],
      row.id && ["Waiting", plural(row.messages ?? 0, "message")],
      stateOf(row) && ["State", stateOf(row)],
    ]),
    row.id ? h("div", {}, h("button", { type: "button", class: "danger", on: { click: end } }, "End the subscription…")) : "",
  );
}

// One session may read one queue more than once.
function numbered(rows) {
  const seen = new Map();
  return rows.map((row) => {
    const name = [nameOf(row), row.session, row.id].join(" ");
    seen.set(name, (seen.get(name) ?? 0) + 1);
    return { ...row, order: seen.get(name) };
  });
}

function sessionsOf(row) {
  if (row.session) return row.session;
  if (Array.isArray(row.sessions)) return row.sessions.join(", ");
  return row.readers !== undefined ? plural(row.readers, "reader") : "";
}

function stateOf(row) {
  const notes = [];
  if (row.recovering) notes.push("recovering");
  if (row.durable) notes.push(`durable as ${visible(row.durable)}`);
  if (row.attached === false) notes.push("away");
  return notes.join(", ") || (row.state ?? "");
}

export default { name: "consumers", title: "Consumers", key: "c", show };
