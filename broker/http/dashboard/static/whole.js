// One message of a queue with its whole payload: as text, JSON with its lines, or bytes in hexadecimal.

import { h } from "./dom.js";
import { bytes, count, visible } from "./format.js";
import { facts } from "./parts.js";

const MOST_SHOWN = 256 * 1024;
const A_LINE = 16;

// `close()` is called by the button that hides it.
export function wholeMessage(message, close) {
  const data = dataOf(message);
  const properties = Object.entries(message.properties ?? {}).map(([name, value]) => [name, visible(typeof value === "object" ? JSON.stringify(value) : String(value))]);
  return [
    h("h3", {}, "The whole message", h("span", { class: "muted" }, `${bytes(message.size)}${data.length > MOST_SHOWN ? `, the first ${bytes(MOST_SHOWN)} are shown` : ""}`)),
    facts([["Message", message.id], ["For", visible(message.destination)], message.origin && ["From", visible(message.origin)], ["Deliveries", count(message.deliveries)], ...properties]),
    h("pre", { class: "payload", tabindex: "0", "aria-label": "The payload" }, readable(message, data.subarray(0, MOST_SHOWN))),
    h("div", {}, h("button", { type: "button", on: { click: () => download(message, data) } }, "Download"), " ", h("button", { type: "button", on: { click: close } }, "Hide")),
  ];
}

function dataOf(message) {
  if (message.encoding !== "base64") return new TextEncoder().encode(message.payload);
  return Uint8Array.from(atob(message.payload), (letter) => letter.charCodeAt(0));
}

function readable(message, shown) {
  if (message.encoding === "base64") return hexadecimal(shown);
  const text = new TextDecoder().decode(shown);
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
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

function download(message, data) {
  const link = h("a", { download: `${message.id}.bin`, href: URL.createObjectURL(new Blob([data])) });
  link.click();
  URL.revokeObjectURL(link.href);
}
