// The queues of this node, and in a panel what one of them holds.

import { ask, poll } from "../api.js";
import { h, replace } from "../dom.js";
import { age, bytes, count, duration, plural, rate, short, visible } from "../format.js";
import { shape } from "../icons.js";
import { dim, figure, includes, listing } from "../listing.js";
import { createQueue, publishMessage } from "../publishing.js";
import { queueMessages } from "../queue_messages.js";
import { act, facts, marked, missing, panel, sure } from "../parts.js";
import { sparkline } from "../sparkline.js";

const ORDERS = { oldest: "oldest_s", in: "in_per_s", out: "out_per_s", latency: "latency_s" };

function show(root, { live, rest, go }) {
  const sparks = new WeakMap();
  const made = listing(root, {
    title: "Queues",
    extras: [
      h("button", { type: "button", on: { click: () => publishMessage("") } }, "Publish…"),
      h("button", { type: "button", on: { click: () => createQueue((queue) => go("queues", queue)) } }, "Create a queue…"),
    ],
    path: "queues",
    searches: true,
    what: "its queues",
    one: "queue",
    every: 1,
    placeholder: "Search a queue",
    list: (answer) => answer?.queues,
    query: () => ({ sort: ORDERS[made?.table.sortBy] ?? made?.table.sortBy ?? "messages" }),
    sortsAtNode: true,
    told: (answer) => {
      for (const row of answer?.queues ?? []) live.histories.add(`queue:${row.name}`, row.messages);
    },
    fallback: (error) => (error.isMissing ? live.status?.queues ?? [] : null),
    found: (row, lower) => includes(lower, row.name),
    empty: "No queues at this node.",
    keyOf: (row) => row.name,
    // The list stays as it is below the panel, with its row and the focus.
    open: (row) => {
      history.pushState(null, "", `#/queues/${encodeURIComponent(row.name)}`);
      showQueue(row.name, { live });
    },
    sortBy: "messages",
    descending: true,
    columns: [
      { key: "name", title: "Queue", width: "minmax(220px, 2.4fr)", narrow: "minmax(0, 1fr)", sort: (row) => row.name, text: (row) => JSON.stringify([row.name, made.searched, row.transient, row.home]), draw: (row) => nameCell(row, made.searched), hint: (row) => visible(row.name) },
      { key: "messages", title: "Messages", width: "92px", narrow: "90px", number: true, sort: (row) => row.messages, text: (row) => count(row.messages), draw: (row) => dim(count(row.messages)) },
      { key: "bytes", title: "Bytes", width: "82px", number: true, sort: (row) => row.bytes, text: (row) => (row.messages ? bytes(row.bytes) : "") },
      { key: "oldest", title: "Oldest", width: "76px", number: true, sort: (row) => row.oldest_s, text: (row) => (row.messages ? age(row.oldest_s) : "") },
      { key: "readers", title: "Readers", width: "76px", narrow: "66px", number: true, sort: (row) => row.readers, text: (row) => `${count(row.readers)} ${row.messages && !(row.targets ?? []).length}`, draw: (row) => readersCell(row) },
      { key: "in", title: "In/s", width: "64px", yields: 4, number: true, sort: (row) => row.in_per_s, text: (row) => figure(row.in_per_s, rate), draw: (row) => dim(figure(row.in_per_s, rate)) },
      { key: "out", title: "Out/s", width: "64px", yields: 4, number: true, sort: (row) => row.out_per_s, text: (row) => figure(row.out_per_s, rate), draw: (row) => dim(figure(row.out_per_s, rate)) },
      { key: "latency", title: "Latency", width: "76px", yields: 2, number: true, sort: (row) => row.latency_s, text: (row) => (row.latency_s ? duration(row.latency_s) : "") },
      {
        key: "spark", title: "Depth", width: "92px", yields: 1,
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
      { key: "targets", title: "Goes to", width: "minmax(110px, 1.2fr)", yields: 3, text: (row) => (row.targets ?? []).join(", ") },
    ],
  });
  const unlisten = live.listen(() => made.draw());
  if (rest[0]) showQueue(rest[0], { live });
  return {
    stop: () => {
      unlisten();
      made.stop();
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

// --- one queue

function showQueue(name, { live }) {
  const path = `queues/${encodeURIComponent(name)}`;
  const here = location.hash;
  const side = panel(visible(name), () => {
    asking.stop();
    messages.stop();
    if (location.hash === here) history.replaceState(null, "", "#/queues");
  });
  const about = h("div", {});
  const readers = h("section", {});
  const messages = queueMessages(name, path);
  const remove = async () => {
    if (!(await sure("Delete this queue?", `${visible(name)} and all its messages at this node will be gone for good.`, "Delete the queue"))) return;
    // Until the answer comes nobody asks about a queue that may be gone.
    asking.stop();
    messages.stop();
    if (await act(() => ask(path, { method: "DELETE" }), () => `${visible(name)} is deleted.`)) return side.close();
    asking.soon();
    messages.soon();
  };
  const purge = async () => {
    if (!(await sure("Throw away all that waits?", `All messages that wait in ${visible(name)} will be gone for good. Its readers stay, with what they have.`, "Throw away"))) return;
    if (await act(() => ask(`${path}/purge`, { method: "POST" }), (found) => `${plural(found?.messages ?? 0, "message")} thrown away.`)) messages.soon();
  };
  side.body.append(about, readers, messages.opened, messages.element,
    h("div", {}, h("button", { type: "button", on: { click: () => publishMessage(name, messages.soon) } }, "Publish…"), " ", h("button", { class: "danger", type: "button", on: { click: purge } }, "Purge…"), " ", h("button", { class: "danger", type: "button", on: { click: remove } }, "Delete the queue…")));
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
}

function queueFacts(queue) {
  return facts([
    ["Messages", `${count(queue.messages)}${queue.messages ? `, ${bytes(queue.bytes)}` : ""}`],
    ["Oldest", queue.messages ? age(queue.oldest_s) : "–"],
    ["Readers", `${count(queue.readers)}${queue.given ? `, who have ${plural(queue.given, "message")}` : ""}`],
    queue.in_per_s !== undefined && ["In, out per second", `${rate(queue.in_per_s)}, ${rate(queue.out_per_s)}`],
    queue.in_total !== undefined && ["In, out in all", `${short(queue.in_total)}, ${short(queue.out_total)}`],
    queue.latency_s !== undefined && ["Latency", latencyOf(queue)],
    ["Goes to", (queue.targets ?? []).join(", ") || "nowhere else"],
    queue.held_back?.length && ["Held back for", queue.held_back.join(", ")],
    ["Kind", [queue.transient ? "transient" : queue.created ? "created here" : "passing through", queue.home ? "home" : ""].filter(Boolean).join(", ")],
  ]);
}

// From arrival here to acknowledgement: the mean, and what half and nearly all stayed below.
function latencyOf(queue) {
  if (!queue.latency_s) return "–";
  const { p50_s: half, p99_s: most } = queue.latency ?? {};
  return `lately ${duration(queue.latency_s)}${half && most ? `; since the start half below ${duration(half)}, 99% below ${duration(most)}` : ""}`;
}

function readersTable(found) {
  const list = found?.reading ?? [];
  if (!list.length) return "";
  return [h("h3", {}, "Read by"), h("ul", { class: "lines framed" }, list.map((item) => h("li", {}, shape("running"), h("span", {}, h("span", { class: "mono" }, visible(item.session ?? "")), " ", h("span", { class: "muted" }, item.address || "by transfer")),
    h("span", { class: "side" }, item.outstanding === undefined ? "" : `has ${plural(item.outstanding, "message")}${item.credit ? ` of ${count(item.credit)}` : ""}`))))];
}

export default { name: "queues", title: "Queues", key: "q", show };
