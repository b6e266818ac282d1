// Forms that make something: a message that is published from here, and a queue.

import { ask, publish } from "./api.js";
import { h } from "./dom.js";
import { bytes, visible } from "./format.js";
import { act, dialogForm, field } from "./parts.js";

const text = (hint, more = {}) => h("input", { type: "text", placeholder: hint, autocomplete: "off", spellcheck: "false", ...more });

// `destination`: filled in; `done()` is called when the message is on disk.
export function publishMessage(destination, done = () => {}) {
  const inputs = {
    destination: text("queue:NAME, queue:NAME@NODE or topic:NAME", { required: true, value: destination }),
    payload: h("textarea", { rows: 8, spellcheck: "false", "aria-label": "Payload" }),
    file: h("input", { type: "file", "aria-label": "Payload from a file" }),
    content_type: text("as application/json"),
    reply_to: text("queue:NAME"),
    correlation_id: h("input", { type: "number", min: 0, step: 1 }),
    expires_in: h("input", { type: "number", min: 0, step: "any", placeholder: "never" }),
    headers: h("textarea", { rows: 3, spellcheck: "false", placeholder: "NAME: VALUE, one a line", "aria-label": "Headers" }),
    retained: h("input", { type: "checkbox" }),
  };
  const send = async () => {
    const data = inputs.file.files[0] ?? new Blob([inputs.payload.value]);
    const query = { retained: inputs.retained.checked ? 1 : "", headers: headersOf(inputs.headers.value) };
    for (const name of ["reply_to", "correlation_id", "expires_in"]) query[name] = inputs[name].value.trim();
    const made = await act(() => publish(inputs.destination.value.trim(), data, inputs.content_type.value.trim(), query),
      (found) => `${bytes(data.size)} for ${visible(found.destination)} are on this node's disk.`);
    if (made) done();
    return made;
  };
  dialogForm("Publish a message", "Publish", [
    field("Destination", inputs.destination),
    h("label", { class: "above" }, "Payload", inputs.payload),
    h("label", { class: "above" }, "…or a file as it is", inputs.file),
    h("div", { class: "pairs" },
      field("Content type", inputs.content_type), field("Reply to", inputs.reply_to),
      field("Correlation id", inputs.correlation_id), field("Expires in seconds", inputs.expires_in)),
    h("label", { class: "above" }, "Headers", inputs.headers),
    h("label", { class: "check" }, inputs.retained, "Keep it for those who subscribe to the topic later"),
  ], send);
}

// A JSON object of lines such as `kind: refund`.
function headersOf(lines) {
  const pairs = lines.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
    const colon = line.indexOf(":");
    return colon < 0 ? [line, ""] : [line.slice(0, colon).trim(), line.slice(colon + 1).trim()];
  });
  return pairs.length ? JSON.stringify(Object.fromEntries(pairs)) : "";
}

export function createQueue(done) {
  const name = text("its name", { required: true });
  const home = h("input", { type: "checkbox" });
  const make = async () => {
    const query = { home: home.checked ? 1 : "" };
    const made = await act(() => ask(`queues/${encodeURIComponent(name.value.trim())}`, { method: "POST", query }),
      (found) => `${visible(found.queue)} is ${found.made ? "created" : "there already"}.`);
    if (made) done(made.queue);
    return made;
  };
  dialogForm("Create a queue", "Create", [
    field("Name", name),
    h("label", { class: "check" }, home, "Its messages stay at this node, whoever reads it elsewhere (home)"),
    h("p", {}, "Limits and policies are those that the site's file has for this name."),
  ], make);
}
