// A node's definitions as one file: written here, or taken from one. A file is looked at by the node before it changes anything.

import { ApiError, ask } from "./api.js";
import { h, replace } from "./dom.js";
import { plural, visible } from "./format.js";
import { act, banner, panel, sure } from "./parts.js";
import { download } from "./saving.js";

const PATH = "definitions";
const ONES = { queues: "queue", subscriptions: "durable subscription", routes: "route", permits: "permit" };
const PARTS = "queues, durable subscriptions, static routes and permits";

export function showDefinitions() {
  const side = panel("Definitions");
  const file = h("input", { type: "file", accept: ".json,application/json", "aria-label": "A file of definitions" });
  const said = h("div", { class: "stack", role: "status" });
  const look = async () => {
    const chosen = file.files[0];
    if (!chosen) return;
    replace(said, h("p", { class: "muted" }, "The node looks at it…"));
    replace(said, await lookedAt(chosen, () => look()));
  };
  file.addEventListener("click", () => {
    file.value = ""; // so that the same file, mended, can be chosen again
  });
  file.addEventListener("change", () => void look());
  side.body.append(
    h("p", {}, `All that this node has when nothing waits: ${PARTS}. No messages and no secrets.`),
    h("p", { class: "actions" }, h("button", { type: "button", on: { click: () => void write() } }, "Export")),
    h("h3", {}, "Import"),
    h("p", {}, "What is missing here is made; nothing is taken away. The node looks at the whole file first."),
    file, said);
}

async function write() {
  await act(() => ask(PATH), (found) => {
    download(`${found.node}-definitions.json`, `${JSON.stringify(found, null, 1)}\n`);
    return `${listed(Object.fromEntries(Object.keys(ONES).map((name) => [name, found[name].length])))} exported.`
      + (found.left_out ? ` Left out: ${plural(found.left_out, "durable subscription")} without an account, or of MQTT clients.` : "");
  });
}

// Resolves to what is said of a file, with the button that takes it; `done()` is called when it was taken.
async function lookedAt(chosen, done) {
  let body;
  try {
    body = JSON.parse(await chosen.text());
  } catch {
    return banner("warning", `${visible(chosen.name)} is no JSON: expected a file that was exported.`);
  }
  try {
    const found = await ask(PATH, { method: "POST", body, query: { check: 1 } });
    return outcome(found, body, visible(chosen.name), done);
  } catch (error) {
    const text = error instanceof ApiError ? error.message : "The node does not answer.";
    return banner("warning", text.split("\n").map((line) => h("div", {}, visible(line))));
  }
}

function outcome(found, body, name, done) {
  const take = async () => {
    if (!(await sure("Import definitions", `Make ${listed(found.made)} of ${name} at ${found.node}?`, "Import", "primary"))) return;
    if (await act(() => ask(PATH, { method: "POST", body }), (made) => `${listed(made.made)} made at ${visible(made.node)}.`)) done();
  };
  const isNew = Object.values(found.made).some(Boolean);
  return [
    h("p", {}, `To be made: ${listed(found.made)}. There already: ${listed(found.same)}.`),
    found.differences.length > 0 && [h("p", {}, "Otherwise here, and stays so:"), h("ul", { class: "plain" }, found.differences.map((each) => h("li", {}, visible(each))))],
    isNew && h("p", { class: "actions" }, h("button", { type: "button", class: "primary", on: { click: () => void take() } }, "Import…")),
  ];
}

function listed(counts) {
  return Object.entries(ONES).filter(([name]) => counts[name]).map(([name, one]) => plural(counts[name], one)).join(", ") || "nothing";
}
