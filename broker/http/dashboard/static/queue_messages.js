// The messages of one queue: looked at, chosen, moved, deleted.

import { ask, poll } from "./api.js";
import { h, replace, setText } from "./dom.js";
import { age, bytes, count, plural, visible } from "./format.js";
import { act, dialogForm, field, missing, sure } from "./parts.js";
import { wholeMessage } from "./whole.js";

// Returns {opened, element, soon(), stop()}: where a message is shown whole, and the list.
export function queueMessages(name, path) {
  const opened = h("section", {});
  const list = h("div", {});
  const chosen = new Set();
  const ages = new Map(); // of each message the cell that tells it: whoever reaches for a button finds it still there
  let found = null;
  const move = h("button", { type: "button", class: "small", on: { click: () => moveMessages(name, path, [...chosen], changed) } });
  const away = h("button", { type: "button", class: "small danger", on: { click: () => dropThem([...chosen]) } });
  const changed = () => {
    chosen.clear();
    asking.soon();
    draw();
  };
  const dropThem = async (ids) => {
    const what = ids.length === 1 ? "the message" : plural(ids.length, "message");
    if (!(await sure(`Delete ${what}?`, `${ids.length === 1 ? ids[0] : "They"} will be gone for good.`, `Delete ${what}`))) return;
    const each = async () => {
      for (const id of ids) await ask(`${path}/messages/${encodeURIComponent(id)}`, { method: "DELETE" });
    };
    await act(each, () => `${plural(ids.length, "message")} deleted.`);
    changed();
  };
  const look = async (message) => {
    try {
      replace(opened, wholeMessage(await ask(`${path}/messages/${encodeURIComponent(message.id)}`), () => replace(opened)));
      opened.scrollIntoView({ block: "nearest" });
    } catch (error) {
      replace(opened, h("p", { class: "muted" }, missing(error, "this message")));
    }
  };
  const choose = (message, wanted) => {
    if (wanted) chosen.add(message.id);
    else chosen.delete(message.id);
    drawButtons();
  };
  const drawButtons = () => {
    move.textContent = chosen.size ? `Move ${count(chosen.size)}…` : "Move all…";
    away.textContent = `Delete ${count(chosen.size)}…`;
    move.disabled = !(found?.messages ?? []).length;
    away.disabled = !chosen.size;
  };
  const draw = () => {
    const present = new Set((found?.messages ?? []).map((message) => message.id));
    for (const id of chosen) if (!present.has(id)) chosen.delete(id);
    ages.clear();
    replace(list, messagesTable(found, { chosen, ages, choose, look, drop: (message) => dropThem([message.id]) }));
    drawButtons();
    grow();
  };
  const grow = () => (found?.messages ?? []).forEach((message) => setText(ages.get(message.id), age(message.age_s)));
  let listed = "";
  const asking = poll(`${path}/messages`, () => 2, () => ({ query: { limit: 100 } }), (answer) => {
    const shown = JSON.stringify([answer?.more, (answer?.messages ?? []).map(({ id, given, session, deliveries }) => [id, given, session, deliveries])]);
    found = answer;
    if (shown === listed) return grow();
    listed = shown;
    draw();
  }, (error) => {
    listed = "";
    replace(list, h("p", { class: "muted" }, missing(error, "its messages")));
  });
  drawButtons();
  const element = h("section", {}, h("div", { class: "head" }, h("h3", {}, "Messages"), h("span", { class: "grow" }), move, away), list);
  return { opened, element, soon: asking.soon, stop: asking.stop };
}

// A form that moves messages; no ids: all that wait.
function moveMessages(name, path, ids, done) {
  const what = ids.length ? plural(ids.length, "message") : "all that waits";
  const to = h("input", { type: "text", placeholder: "NAME or NAME@NODE", autocomplete: "off", spellcheck: "false" });
  const moving = async () => {
    const body = { to: to.value.trim(), ...(ids.length ? { ids } : { all: true }) };
    const answer = await act(() => ask(`${path}/move`, { method: "POST", body }),
      (found) => `${plural(found.moved, "message")} moved to ${visible(found.to)}.${found.why ? ` The rest stays: ${found.why}` : ""}`);
    if (answer) done();
    return answer;
  };
  dialogForm(`Move ${what}`, "Move", [
    h("p", {}, `From ${visible(name)}, as new messages of this node. Those that readers have stay with them.`),
    field("To the queue; nothing: behind all others of the same queue", to),
  ], moving);
}

function messagesTable(found, { chosen, ages, choose, look, drop }) {
  const list = found?.messages ?? [];
  if (!list.length) return h("p", { class: "muted" }, "None.");
  return [
    found.more && h("p", { class: "muted" }, `The oldest ${count(list.length)}.`),
    h("div", { class: "framed" }, h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, h("th", { "aria-label": "Chosen" }, ""), h("th", {}, "Message"), h("th", { class: "number" }, "Age"), h("th", { class: "number" }, "Size"), h("th", {}, "Begins with"), h("th", { "aria-label": "Actions" }, ""))),
      h("tbody", {}, list.map((message) => h("tr", {},
        h("td", {}, h("input", { type: "checkbox", "aria-label": `Choose ${message.id}`, checked: chosen.has(message.id), disabled: Boolean(message.given), on: { change: (event) => choose(message, event.target.checked) } })),
        h("td", { class: "name" }, h("a", { class: "mono", title: `${message.id}: show its path`, href: `#/trace/message/${encodeURIComponent(message.id)}` }, shortId(message.id)), h("div", { class: "muted" }, aboutOf(message))),
        ageCell(ages, message),
        h("td", { class: "number" }, bytes(message.size)),
        h("td", { class: "wrap mono" }, message.encoding === "base64" ? h("span", { class: "tag" }, "base64") : "", message.unreadable ? h("span", { class: "bad" }, visible(message.unreadable)) : `${visible(String(message.preview ?? "").slice(0, 160))}${message.truncated ? "…" : ""}`),
        h("td", { class: "number" }, h("button", { type: "button", class: "small", on: { click: () => look(message) } }, "Show"), " ", h("button", { type: "button", class: "danger small", on: { click: () => drop(message) } }, "Delete"))))))),
  ];
}

function ageCell(ages, message) {
  const cell = h("td", { class: "number" });
  ages.set(message.id, cell);
  return cell;
}

function aboutOf(message) {
  const parts = [
    message.origin && `from ${visible(message.origin)}`,
    message.given && (message.session ? `given to ${visible(message.session)}` : "given"),
    message.task_id && h("a", { href: `#/trace/task/${encodeURIComponent(message.task_id)}` }, "its task"),
    message.deliveries > 1 && `${count(message.deliveries)} deliveries`,
  ];
  return parts.filter(Boolean).flatMap((part, place) => (place ? [" · ", part] : [part]));
}

// Ids are long; their ends tell them apart.
export function shortId(id) {
  const text = String(id ?? "");
  return text.length > 18 ? `${text.slice(0, 6)}…${text.slice(-9)}` : text;
}
