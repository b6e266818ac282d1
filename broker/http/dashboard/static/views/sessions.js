// Applications at this node: their sessions, and in a panel the connections of one. Tokens come masked.

import { h } from "../dom.js";
import { bytes, count, duration, plural, short, visible } from "../format.js";
import { dim, includes, listing } from "../listing.js";
import { ask } from "../api.js";
import { act, facts, panel, sure } from "../parts.js";

const connectionsOf = (row) => row.connections ?? [];
const heardOf = (row) => Math.min(...connectionsOf(row).map((connection) => connection.heard_s ?? Infinity));
const sum = (row, what) => connectionsOf(row).reduce((total, connection) => total + (connection[what] ?? 0), 0);
const total = (row, what) => row[what] ?? sum(row, what);
const lengthOf = (value) => (Array.isArray(value) ? value.length : value ?? 0);
const readsOf = (row) => row.subscriptions_total ?? lengthOf(row.subscriptions);
const nameOf = (item) => (typeof item === "string" ? item : item?.destination ?? item?.queue ?? item?.name ?? "");

function show(root) {
  return listing(root, {
    title: "Sessions",
    path: "sessions",
    what: "who is logged in",
    one: "session",
    placeholder: "Search a session, address or queue",
    list: (answer) => answer?.sessions,
    found: (row, lower) => includes(lower, row.session, ...connectionsOf(row).map((item) => item.address), ...(Array.isArray(row.subscriptions) ? row.subscriptions.map(nameOf) : [])),
    keyOf: (row) => row.session,
    empty: "No application is logged in at this node.",
    sortBy: "session",
    open: showSession,
    columns: [
      { key: "session", title: "Session", width: "minmax(160px, 1.4fr)", narrow: "minmax(0, 1fr)", sort: (row) => row.session, text: (row) => visible(row.session), draw: (row) => h("span", { class: "mono" }, visible(row.session)) },
      { key: "links", title: "Connections", width: "98px", narrow: "98px", number: true, sort: (row) => connectionsOf(row).length, text: (row) => count(connectionsOf(row).length) },
      { key: "kind", title: "Kind", width: "96px", text: (row) => [...new Set(connectionsOf(row).map((item) => item.kind))].join(", ") },
      { key: "address", title: "Address", width: "minmax(140px, 1.2fr)", text: (row) => connectionsOf(row)[0]?.address ?? "" },
      { key: "heard", title: "Last heard", width: "88px", narrow: "78px", number: true, sort: heardOf, text: (row) => (Number.isFinite(heardOf(row)) ? duration(Math.floor(heardOf(row))) : "") },
      { key: "subscriptions", title: "Reads", width: "70px", number: true, sort: readsOf, text: (row) => count(readsOf(row)), draw: (row) => dim(count(readsOf(row))) },
      { key: "unacknowledged", title: "Unacknowledged", width: "118px", number: true, sort: (row) => row.unacknowledged, text: (row) => count(row.unacknowledged), draw: (row) => dim(count(row.unacknowledged)) },
      { key: "in", title: "Sent", width: "78px", number: true, sort: (row) => total(row, "in"), text: (row) => short(total(row, "in")), draw: (row) => dim(short(total(row, "in"))) },
      { key: "out", title: "Received", width: "78px", number: true, sort: (row) => total(row, "out"), text: (row) => short(total(row, "out")), draw: (row) => dim(short(total(row, "out"))) },
    ],
  });
}

function showSession(row) {
  const side = panel(visible(row.session));
  const reads = Array.isArray(row.subscriptions) ? row.subscriptions : [];
  const transient = Array.isArray(row.transient) ? row.transient : [];
  const close = async () => {
    if (!(await sure("Close this session?", `Its ${plural(connectionsOf(row).length, "connection")} will be closed. What it has not acknowledged goes to others; its application may come back.`, "Close the session"))) return;
    if (await act(() => ask(`sessions/${encodeURIComponent(row.session)}`, { method: "DELETE" }), (found) => `${plural(found?.connections ?? 0, "connection")} closed.`)) side.close();
  };
  side.body.append(
    facts([
      ["Connections", count(connectionsOf(row).length)],
      ["Unacknowledged", plural(row.unacknowledged ?? 0, "message")],
      ["Transient queues", count(lengthOf(row.transient))],
      ["Sent", `${short(total(row, "in"))}, ${bytes(total(row, "bytes_in"))}`],
      ["Received", `${short(total(row, "out"))}, ${bytes(total(row, "bytes_out"))}`],
    ]),
    h("section", {}, h("h3", {}, "Connections"), h("div", { class: "framed" }, h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, h("th", {}, "Address"), h("th", {}, "Kind"), h("th", { class: "number" }, "Heard"), h("th", { class: "number" }, "Sent"), h("th", { class: "number" }, "Received"))),
      h("tbody", {}, connectionsOf(row).map((item) => h("tr", {},
        h("td", { class: "mono" }, item.address),
        h("td", {}, item.kind ?? ""),
        h("td", { class: "number" }, `${duration(item.heard_s)} ago`),
        h("td", { class: "number" }, `${short(item.in)} · ${bytes(item.bytes_in)}`),
        h("td", { class: "number" }, `${short(item.out)} · ${bytes(item.bytes_out)}`))))))),
    names("Reads", reads),
    names("Transient queues", transient),
    h("div", {}, h("button", { class: "danger", type: "button", on: { click: close } }, "Close the session…")),
  );
}

function names(title, list) {
  if (!list.length) return "";
  return h("section", {}, h("h3", {}, title), h("ul", { class: "lines framed" }, list.slice(0, 200).map((item) => h("li", {}, h("span", {}), h("span", {}, visible(nameOf(item))), h("span", {})))));
}

export default { name: "sessions", title: "Sessions", key: "s", show };
