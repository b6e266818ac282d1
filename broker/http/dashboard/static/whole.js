// One message of a queue with its whole payload: as text, JSON with its lines, or bytes in hexadecimal, as one chooses.

import { h, setText } from "./dom.js";
import { bytes, count, visible } from "./format.js";
import { facts, segments } from "./parts.js";
import { download } from "./saving.js";

const MOST_SHOWN = 256 * 1024;
const A_LINE = 16;
const DEEPEST = 200;
const FORMS = { text: ["Text", asText], json: ["JSON", asJson], hex: ["Hex", hexadecimal] };

// `close()` is called by the button that hides it.
export function wholeMessage(message, close) {
  const data = dataOf(message);
  const shown = data.subarray(0, MOST_SHOWN);
  const payload = h("pre", { class: "payload", tabindex: "0", "aria-label": "The payload" });
  const forms = segments("Show it as", (form) => draw(form));
  const options = Object.entries(FORMS).filter(([form]) => form !== "json" || asJson(shown) !== null).map(([form, [name]]) => [form, name]);
  const draw = (form) => {
    forms.draw(options, form);
    setText(payload, FORMS[form][1](shown));
  };
  draw(message.encoding === "base64" ? "hex" : options.some(([form]) => form === "json") ? "json" : "text");
  const properties = Object.entries(message.properties ?? {}).map(([name, value]) => [name, visible(typeof value === "object" ? JSON.stringify(value) : String(value))]);
  return [
    h("h3", {}, "The whole message", h("span", { class: "muted" }, `${bytes(message.size)}${data.length > MOST_SHOWN ? `, the first ${bytes(MOST_SHOWN)} are shown` : ""}`)),
    facts([["Message", message.id], ["For", visible(message.destination)], message.origin && ["From", visible(message.origin)], ["Deliveries", count(message.deliveries)], ...properties]),
    h("p", { class: "actions" }, forms.element),
    payload,
    h("div", {}, h("button", { type: "button", on: { click: () => download(`${message.id}.bin`, data) } }, "Download"), " ", h("button", { type: "button", on: { click: close } }, "Hide")),
  ];
}

function dataOf(message) {
  if (message.encoding !== "base64") return new TextEncoder().encode(message.payload);
  return Uint8Array.from(atob(message.payload), (letter) => letter.charCodeAt(0));
}

function asText(data) {
  return new TextDecoder().decode(data);
}

const TOKENS = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

// With its lines; null where it is none, or too deep to be read. Its texts and numbers stay as they were written: a number of 64 bits is
// more than this language keeps.
function asJson(data) {
  const text = new TextDecoder().decode(data);
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  let depth = 0;
  let before = "";
  let written = "";
  const line = () => `\n${"  ".repeat(depth)}`;
  for (const [token] of text.matchAll(TOKENS)) {
    const ends = token === "}" || token === "]";
    if (ends) depth -= 1;
    if (ends ? before !== "{" && before !== "[" : before === "{" || before === "[" || before === ",") written += line();
    written += token === ":" ? ": " : token;
    if (token === "{" || token === "[") depth += 1;
    if (depth > DEEPEST) return null;
    before = token;
  }
  return written;
}

function hexadecimal(data) {
  const lines = [];
  for (let start = 0; start < data.length; start += A_LINE) {
    const part = Array.from(data.subarray(start, start + A_LINE));
    const codes = part.map((code) => code.toString(16).padStart(2, "0")).join(" ");
    const letters = part.map((code) => (code > 31 && code < 127 ? String.fromCharCode(code) : ".")).join("");
    lines.push(`${start.toString(16).padStart(8, "0")}  ${codes.padEnd(3 * A_LINE)} ${letters}`);
  }
  return lines.join("\n");
}
