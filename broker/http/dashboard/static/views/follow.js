// Messages that match a filter, as they go through this node.

import { ApiError, stream } from "../api.js";
import { h, setText } from "../dom.js";
import { clock, date, plural, visible } from "../format.js";
import { head, missing } from "../parts.js";
import { hueOf, wordOf } from "../paths.js";
import { Table } from "../table.js";
import { shortId } from "../queue_messages.js";

const KEPT = 2000;
const FIELDS = [
  ["destination", "Destination, as queue:sales or topic:offers/#"],
  ["task", "Task id"],
  ["correlation_id", "Correlation id"],
];

function show(root, { rest }) {
  let controller = null;
  let events = [];
  let numbered = 0;
  let dropped = 0;
  let waiting = 0;
  const inputs = Object.fromEntries(FIELDS.map(([name, text]) => [name, h("input", { type: "text", placeholder: text, "aria-label": text, autocomplete: "off", spellcheck: "false" })]));
  inputs.destination.value = rest[0] ?? "";
  const payloads = h("input", { type: "checkbox", id: "payloads" });
  const button = h("button", { type: "submit", class: "primary" }, "Follow");
  const top = head("Follow", {});
  const form = h("form", { class: "head", on: { submit: (event) => {
    event.preventDefault();
    if (controller) stop();
    else start();
  } } }, FIELDS.map(([name], place) => h("span", { class: place ? "field" : "field wide" }, inputs[name])),
  h("label", { for: "payloads", class: "twig" }, payloads, "with payloads"), button);
  const table = new Table({
    label: "Followed messages",
    keyOf: (row) => row.order,
    empty: "Say what to follow, or nothing to follow everything, and press Follow.",
    columns: [
      { key: "at", title: "At", width: "104px", narrow: "72px", text: (row) => clock(row.at), hint: (row) => date(row.at) },
      { key: "kind", title: "What", width: "minmax(130px, 0.7fr)", narrow: "minmax(0, 0.8fr)", text: (row) => wordOf(row.event ?? row.kind ?? ""), draw: (row) => [h("span", { class: `pip hue-${hueOf(row.event ?? row.kind)}` }), wordOf(row.event ?? row.kind ?? "")], hint: (row) => row.reason || null },
      { key: "destination", title: "Destination", width: "minmax(180px, 1.6fr)", narrow: "minmax(0, 1fr)", text: (row) => visible(row.destination ?? row.queue ?? "") },
      { key: "id", title: "Message", width: "160px", yields: 4, text: (row) => idOf(row), draw: (row) => (idOf(row) ? h("a", { class: "mono", href: `#/trace/message/${encodeURIComponent(idOf(row))}` }, shortId(idOf(row))) : "") },
      { key: "who", title: "With", width: "minmax(120px, 0.8fr)", yields: 3, text: (row) => visible(row.session ?? row.peer ?? "") },
      { key: "correlation", title: "Correlation", width: "92px", yields: 1, number: true, text: (row) => String(row.correlation_id ?? "") },
      { key: "task", title: "Task", width: "minmax(90px, 0.7fr)", yields: 2, text: (row) => visible(row.task_id ?? row.task ?? ""), draw: (row) => ((row.task_id ?? row.task) ? h("a", { href: `#/trace/task/${encodeURIComponent(row.task_id ?? row.task)}` }, visible(row.task_id ?? row.task)) : "") },
      { key: "payload", title: "Payload", width: "minmax(160px, 1.6fr)", yields: 5, text: (row) => (row.reason ? visible(row.reason) : visible(String(row.payload ?? "").slice(0, 300))) },
    ],
  });
  root.append(top.element, form, h("div", { class: "fill" }, table.element));

  const draw = () => {
    waiting = 0;
    table.setRows(events);
    setText(top.sum, `${plural(numbered, "event")}${dropped ? `, ${plural(dropped, "more", "more")} left out: too many at once` : ""}`);
  };
  const take = (event) => {
    dropped += event.dropped ?? 0;
    if (event.dropped !== undefined) return;
    numbered += 1;
    events = [{ ...event, order: numbered }, ...events.slice(0, KEPT - 1)];
    if (!waiting) waiting = setTimeout(draw, 200);
  };
  const start = async () => {
    controller = new AbortController();
    const mine = controller;
    button.textContent = "Stop";
    const query = Object.fromEntries(FIELDS.map(([name]) => [name, inputs[name].value.trim()]));
    table.setRows(events, { empty: "Following; nothing has matched yet." });
    try {
      await stream("follow", { query: { ...query, payload: payloads.checked ? 1 : 0 }, signal: mine.signal }, take);
    } catch (error) {
      if (!mine.signal.aborted) table.setRows(events, { empty: error instanceof ApiError ? missing(error, "what goes through it") : "The stream has ended." });
    }
    if (controller === mine) stop();
  };
  const stop = () => {
    controller?.abort();
    controller = null;
    button.textContent = "Follow";
  };
  return {
    stop: () => {
      stop();
      clearTimeout(waiting);
      table.stop();
    },
  };
}

const idOf = (row) => (typeof row.id === "string" ? row.id : row.message ?? "");

export default { name: "follow", title: "Follow", key: "f", show };
