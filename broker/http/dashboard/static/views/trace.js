// The path of one message, hop by hop; or everything that a task did, across nodes, as one timeline.

import { ApiError, ask } from "../api.js";
import { h, replace } from "../dom.js";
import { clock, count, date, milliseconds, offset, plural, repeated, visible } from "../format.js";
import { banner, facts, head, missing, segments } from "../parts.js";
import { messagePath, taskTimeline } from "../paths.js";
import { legend, timeline } from "../timeline.js";

const MESSAGE_ID = /^[0-9a-f]{16,64}[-:.]\d+$/i;
const LISTED = 500;
const LEGENDS = {
  message: [["commit", "to disk"], ["wait", "waits for its next hop or reader"], ["line", "on the line"], ["work", "with its reader"], ["bad", "went wrong"]],
  task: [["commit", "request"], ["work", "with its reader"], ["line", "reply (dashed)"], ["wait", "returned or routed again"], ["bad", "went wrong"]],
};

function show(root, { rest, go }) {
  const [kind = "", id = ""] = rest;
  let even = true;
  let found = null;
  const input = h("input", { type: "search", placeholder: "A message's id, or the id of a task", "aria-label": "Message or task id", value: id, autocomplete: "off", spellcheck: "false" });
  const scale = segments("Scale", (value) => {
    even = value === "even";
    draw();
  });
  const top = head("Trace", {}, scale.element);
  const place = h("div", { class: "fill" });
  const form = h("form", { class: "head", on: { submit: (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (text) go("trace", MESSAGE_ID.test(text) ? "message" : "task", text);
  } } },
  h("span", { class: "field wide", dataset: { search: "" } }, input),
  h("button", { type: "submit", class: "primary" }, "Show"),
  id && h("button", { type: "button", on: { click: () => load() } }, "Ask again"));
  root.append(top.element, form, place);

  const draw = () => {
    if (!found) return;
    scale.draw([["even", "Pauses shortened"], ["true", "True to scale"]], even ? "even" : "true");
    const width = Math.max(place.clientWidth - 4, 640);
    replace(place, kind === "task" ? taskPage(found, id, { even, width }) : messagePage(found, id, { even, width }));
  };
  const load = async () => {
    if (!id) {
      replace(place, h("p", { class: "section-missing" }, "Ids of messages are in the lists of queues and dead letters, in what a sender is told, and in the logs. A task's id goes with all requests and replies that belong together."));
      return;
    }
    try {
      found = await ask(`trace/${kind === "task" ? "task" : "message"}/${encodeURIComponent(id)}`);
      draw();
    } catch (error) {
      const gone = error instanceof ApiError && error.status === 404 && error.code;
      replace(place, h("p", { class: "section-missing" }, gone ? `${error.message}` : missing(error, "the path of messages")));
    }
  };
  const resized = () => draw();
  addEventListener("resize", resized);
  void load();
  return { stop: () => removeEventListener("resize", resized) };
}

function notes(found) {
  return [
    said(found, "unreachable", "Cannot be reached now"),
    said(found, "refused", "Did not tell"),
    found.unknown_at?.length ? banner("warning", `No more is remembered at ${found.unknown_at.join(", ")}: a node keeps its latest events only.`) : null,
    found.not_asked ? banner("warning", `${plural(found.not_asked, "more node")} could have been asked, and were not.`) : null,
    found.complete === false && found.hops?.length && !found.unreachable?.length && !found.unknown_at?.length ? h("p", { class: "muted" }, "Its way is not over yet.") : null,
  ];
}

function said(found, what, words) {
  const names = Array.isArray(found[what]) ? found[what] : Object.keys(found[what] ?? {});
  if (!names.length) return null;
  return banner("warning", `${words}: ${names.map((name) => (found.why?.[name] ? `${name} (${found.why[name]})` : name)).join(", ")}.`);
}

function messagePage(found, id, options) {
  const { picture, rows, first } = messagePath(found);
  const last = rows.at(-1);
  return [
    h("div", { class: "stack" },
      notes(found),
      facts([
        ["Message", h("span", { class: "mono" }, visible(found.id ?? id))],
        ["Destination", visible(found.destination ?? "–")],
        found.origin && ["Entered at", visible(found.origin)],
        ["Nodes", count(picture.lanes.length)],
        ["From first to last", last ? milliseconds(last.ms) : "–"],
        ["Began", first ? date(first) : "–"],
        found.task_id && ["Task", h("a", { href: `#/trace/task/${encodeURIComponent(found.task_id)}` }, visible(found.task_id))],
      ])),
    picture.lanes.length ? [h("div", { class: "gap" }), legend(LEGENDS.message), timeline(picture, options), eventTable(rows)] : h("p", { class: "section-missing" }, "No node that could be asked remembers this message."),
  ];
}

function taskPage(found, id, options) {
  const { picture, rows, first, messages } = taskTimeline(found);
  const last = rows.at(-1);
  return [
    h("div", { class: "stack" },
      notes(found),
      facts([
        ["Task", h("span", { class: "mono" }, visible(found.task ?? id))],
        ["Requests and replies", plural(messages, "message")],
        ["Nodes", count(picture.lanes.length)],
        ["From first to last", last ? milliseconds(last.ms) : "–"],
        ["Began", first ? date(first) : "–"],
      ])),
    picture.lanes.length ? [h("div", { class: "gap" }), legend(LEGENDS.task), timeline(picture, options), eventTable(rows)] : h("p", { class: "section-missing" }, "No node that could be asked remembers anything of this task."),
  ];
}

function eventTable(rows) {
  return h("section", { class: "card" },
    h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, h("th", { class: "number" }, "After"), h("th", {}, "At"), h("th", {}, "Node"), h("th", {}, "What"), h("th", { "aria-label": "More" }, ""))),
      h("tbody", {}, rows.slice(0, LISTED).map((row) => h("tr", {},
        h("td", { class: "number" }, offset(row.ms)),
        h("td", {}, clock(row.at) + repeated(row.at)),
        h("td", {}, visible(row.node)),
        h("td", {}, h("span", { class: `pip hue-${row.hue}` }), row.what),
        h("td", { class: "wrap" }, row.reply ? h("span", { class: "tag" }, "reply") : null, " ",
          row.message ? h("a", { href: `#/trace/message/${encodeURIComponent(row.message)}` }, row.more || "its path") : row.more))))),
    rows.length > LISTED && h("div", { class: "calm" }, `and ${count(rows.length - LISTED)} more`));
}

export default { name: "trace", title: "Trace", key: "p", show };
