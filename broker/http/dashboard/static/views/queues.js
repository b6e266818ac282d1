// The queues of this node, and in a panel what one of them holds.

import { ask, poll } from "../api.js";
import { h, replace } from "../dom.js";
import { age, bytes, count, duration, plural, rate, short, visible } from "../format.js";
import { shape } from "../icons.js";
import { act, facts, head, marked, missing, panel, sure } from "../parts.js";
import { sparkline } from "../sparkline.js";
import { Table } from "../table.js";

const PAGE = 500;
const MOST = 5000;

function show(root, { live, rest, go }) {
  let searched = "";
  let limit = PAGE;
  let rows = [];
  let more = 0;
  let failed = null;
  const top = head("Queues", { placeholder: "Search a queue", searched: (text) => {
    searched = text;
    draw();
    asking.soon();
  } });
  const sparks = new WeakMap();
  const table = new Table({
    label: "Queues",
    keyOf: (row) => row.name,
    open: (row) => go("queues", row.name),
    sortBy: "messages",
    descending: true,
    columns: [
      { key: "name", title: "Queue", width: "minmax(220px, 2.4fr)", sort: (row) => row.name, text: (row) => JSON.stringify([row.name, searched, row.transient, row.home]), draw: (row) => nameCell(row, searched), hint: (row) => visible(row.name) },
      { key: "messages", title: "Messages", width: "92px", number: true, sort: (row) => row.messages, text: (row) => count(row.messages), draw: (row) => dim(count(row.messages)) },
      { key: "bytes", title: "Bytes", width: "82px", number: true, sort: (row) => row.bytes, text: (row) => (row.messages ? bytes(row.bytes) : "") },
      { key: "oldest", title: "Oldest", width: "76px", number: true, sort: (row) => row.oldest_s, text: (row) => (row.messages ? age(row.oldest_s) : "") },
      { key: "readers", title: "Readers", width: "76px", number: true, sort: (row) => row.readers, text: (row) => `${count(row.readers)} ${row.messages && !(row.targets ?? []).length}`, draw: (row) => readersCell(row) },
      { key: "in", title: "In/s", width: "64px", number: true, sort: (row) => row.in_per_s, text: (row) => figure(row.in_per_s, rate), draw: (row) => dim(figure(row.in_per_s, rate)) },
      { key: "out", title: "Out/s", width: "64px", number: true, sort: (row) => row.out_per_s, text: (row) => figure(row.out_per_s, rate), draw: (row) => dim(figure(row.out_per_s, rate)) },
      { key: "latency", title: "Latency", width: "76px", number: true, sort: (row) => row.latency_s, text: (row) => (row.latency_s ? duration(row.latency_s) : "") },
      {
        key: "spark", title: "Depth", width: "92px",
        live: (cell, row) => {
          const points = live.histories.of(`queue:${row.name}`);
          if (points.length < 2) return cell.replaceChildren();
          let spark = sparks.get(cell);
          if (!spark || !cell.firstChild) {
            spark = sparkline("how many waited, the last minutes");
            sparks.set(cell, spark);
            cell.replaceChildren(spark.element);
          }
          spark.draw(points);
        },
      },
      { key: "targets", title: "Goes to", width: "minmax(110px, 1.2fr)", text: (row) => (row.targets ?? []).join(", ") },
    ],
    sorted: () => asking.soon(),
  });
  table.body.addEventListener("scroll", () => {
    if (more && limit < MOST && table.body.scrollTop + table.body.clientHeight > table.body.scrollHeight - 600) {
      limit += PAGE;
      asking.soon();
    }
  });
  root.append(top.element, h("div", { class: "fill" }, table.element));

  const draw = () => {
    const fallback = failed?.isMissing ? live.status?.queues ?? [] : null;
    const lower = searched.toLowerCase();
    const shown = (fallback ?? rows).filter((row) => row.name.toLowerCase().includes(lower));
    table.setRows(shown, { empty: failed && !fallback ? missing(failed, "its queues") : searched ? "No queue of that name." : "No queues at this node." });
    top.sum.textContent = failed && !fallback ? "" : `${plural(shown.length, "queue")}${more ? ` of ${count(shown.length + more)}` : ""}`;
  };
  const asking = poll("queues", () => (rows.length > PAGE ? 3 : 1), () => ({ query: { search: searched, sort: table.sortBy === "name" ? "name" : { oldest: "oldest_s", in: "in_per_s", out: "out_per_s", latency: "latency_s" }[table.sortBy] ?? table.sortBy, limit } }),
    (found) => {
      failed = null;
      rows = found?.queues ?? [];
      more = found?.more ?? 0;
      for (const row of rows) live.histories.add(`queue:${row.name}`, row.messages);
      draw();
    },
    (error) => {
      failed = error;
      draw();
    });
  const unlisten = live.listen(() => failed && draw());
  if (rest[0]) showQueue(rest[0], { live, go });
  return {
    stop: () => {
      asking.stop();
      unlisten();
      table.stop();
    },
  };
}

function nameCell(row, searched) {
  return [
    h("span", {}, prefixed(visible(row.name), searched)),
    row.transient && [" ", h("span", { class: "tag" }, "transient")],
    row.home && [" ", h("span", { class: "tag" }, "home")],
  ];
}

// What kind of place it is stands in front of every name, and is read once.
function prefixed(name, searched) {
  const end = name.startsWith("queue:") && !"queue:".includes(searched.toLowerCase() || "-") ? 6 : 0;
  return [end ? h("span", { class: "sub" }, name.slice(0, end)) : null, marked(name.slice(end), searched)];
}

function readersCell(row) {
  if (row.readers) return count(row.readers);
  const unread = row.messages && !(row.targets ?? []).length;
  return unread ? h("span", { class: "warn state-warning", title: "messages wait, and nobody reads them" }, shape("warning"), "0") : dim("0");
}

function figure(value, format) {
  return value === undefined || value === null ? "" : format(value);
}

function dim(text) {
  return text === "0" ? h("span", { class: "zero" }, "0") : text;
}

// --- one queue

function showQueue(name, { live, go }) {
  const path = `queues/${encodeURIComponent(name)}`;
  const side = panel(visible(name), () => {
    asking.stop();
    reading.stop();
    if (location.hash.startsWith("#/queues/")) go("queues");
  });
  const about = h("div", {});
  const readers = h("section", {});
  const messages = h("section", {});
  const remove = async () => {
    if (!(await sure("Delete this queue?", `${visible(name)} and all its messages at this node will be gone for good.`, "Delete the queue"))) return;
    if (await act(() => ask(path, { method: "DELETE" }), () => `${visible(name)} is deleted.`)) side.close();
  };
  side.body.append(about, readers, messages,
    h("div", {}, h("button", { class: "danger", type: "button", on: { click: remove } }, "Delete the queue…")));
  const fallback = (error) => {
    const known = (live.status?.queues ?? []).find((queue) => queue.name === name);
    if (known && error.isMissing) replace(about, queueFacts(known));
    else replace(about, h("p", { class: "muted" }, error.status === 404 ? error.message || "This node has no such queue." : missing(error, "this queue")));
  };
  const asking = poll(path, () => 1, () => ({}), (found) => {
    const queue = found?.queue ?? found ?? {};
    replace(about, queueFacts(queue));
    replace(readers, readersTable(found));
  }, fallback);
  const drop = async (message) => {
    if (!(await sure("Delete this message?", `${message.id} will be gone for good.`, "Delete the message"))) return;
    if (await act(() => ask(`${path}/messages/${encodeURIComponent(message.id)}`, { method: "DELETE" }), () => "The message is deleted.")) reading.soon();
  };
  let listed = "";
  const reading = poll(`${path}/messages`, () => 2, () => ({ query: { limit: 100 } }), (found) => {
    const shown = JSON.stringify((found?.messages ?? []).map((message) => [message.id, message.given, age(message.age_s)]));
    if (shown === listed) return;
    listed = shown;
    replace(messages, messagesTable(found, drop, go));
  }, (error) => replace(messages, h("p", { class: "muted" }, missing(error, "its messages"))));
}

function queueFacts(queue) {
  return facts([
    ["Messages", `${count(queue.messages)}${queue.messages ? `, ${bytes(queue.bytes)}` : ""}`],
    ["Oldest", queue.messages ? age(queue.oldest_s) : "–"],
    ["Readers", count(queue.readers)],
    queue.in_per_s !== undefined && ["In, out per second", `${rate(queue.in_per_s)}, ${rate(queue.out_per_s)}`],
    queue.in_total !== undefined && ["In, out in all", `${short(queue.in_total)}, ${short(queue.out_total)}`],
    queue.latency_s !== undefined && ["Latency", queue.latency_s ? duration(queue.latency_s) : "–"],
    ["Goes to", (queue.targets ?? []).join(", ") || "nowhere else"],
    queue.held_back?.length && ["Held back for", queue.held_back.join(", ")],
    ["Kind", [queue.transient ? "transient" : queue.created ? "created here" : "passing through", queue.home ? "home" : ""].filter(Boolean).join(", ")],
  ]);
}

function readersTable(found) {
  const list = found?.sessions ?? found?.reading ?? (Array.isArray(found?.readers) ? found.readers : []);
  if (!list.length) return "";
  return [h("h3", {}, "Read by"), h("ul", { class: "lines framed" }, list.map((item) => h("li", {}, shape("running"), h("span", { class: "mono" }, visible(typeof item === "string" ? item : item.session ?? item.name ?? "")), h("span", { class: "side" }, typeof item === "object" && item.unacknowledged !== undefined ? `${count(item.unacknowledged)} unacknowledged` : ""))))];
}

function messagesTable(found, drop, go) {
  const list = found?.messages ?? [];
  if (!list.length) return [h("h3", {}, "Messages"), h("p", { class: "muted" }, "None.")];
  return [
    h("h3", {}, "Messages", h("span", { class: "muted" }, found.more ? `the first ${count(list.length)} of ${count(list.length + found.more)}` : "")),
    h("div", { class: "framed" }, h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, h("th", {}, "Message"), h("th", { class: "number" }, "Age"), h("th", { class: "number" }, "Size"), h("th", {}, "Begins with"), h("th", {}, ""))),
      h("tbody", {}, list.map((message) => h("tr", {},
        h("td", { class: "name" }, h("a", { class: "mono", title: `${message.id}: show its path`, href: `#/trace/message/${encodeURIComponent(message.id)}` }, shortId(message.id)),
          h("div", { class: "muted" }, [message.origin && `from ${visible(message.origin)}`, message.given && "given", message.deliveries > 1 && `${count(message.deliveries)} deliveries`].filter(Boolean).join(" · "))),
        h("td", { class: "number" }, age(message.age_s)),
        h("td", { class: "number" }, bytes(message.size)),
        h("td", { class: "wrap mono" }, message.encoding === "base64" ? h("span", { class: "tag" }, "base64") : "", visible(String(message.preview ?? "").slice(0, 160))),
        h("td", { class: "number" }, h("button", { type: "button", class: "danger small", on: { click: () => drop(message) } }, "Delete"))))))),
  ];
}

// Ids are long; their ends tell them apart.
export function shortId(id) {
  const text = String(id ?? "");
  return text.length > 18 ? `${text.slice(0, 6)}…${text.slice(-9)}` : text;
}

export default { name: "queues", title: "Queues", key: "q", show };
