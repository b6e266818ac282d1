// What views share: their head with search, the panel at the side, questions, notices, what is missing.

import { ApiError } from "./api.js";
import { h, replace, setText } from "./dom.js";
import { glyph, shape } from "./icons.js";

// The head of a view. Returns {element, sum, search}; `search` calls `searched(text)` shortly after typing.
export function head(title, { placeholder, searched, initial = "" } = {}, ...others) {
  const sum = h("span", { class: "sum" });
  const search = searched ? searchField(placeholder, searched, initial) : null;
  const element = h("div", { class: "head" }, h("h1", {}, title), sum, h("span", { class: "grow" }), others, search?.element);
  return { element, sum, search };
}

export function searchField(placeholder, searched, initial = "") {
  let timer = 0;
  const input = h("input", { type: "search", placeholder, "aria-label": placeholder, value: initial, autocomplete: "off", spellcheck: "false", on: {
    input: () => {
      clearTimeout(timer);
      timer = setTimeout(() => searched(input.value.trim()), 120);
    },
    keydown: (event) => {
      if (event.key === "Escape" && input.value) {
        input.value = "";
        searched("");
        event.stopPropagation();
      }
    },
  } });
  const element = h("span", { class: "field search", dataset: { search: "" } }, glyph("search"), input, h("kbd", {}, "/"));
  return { element, input };
}

// Buttons of which one is pressed. `options`: [value, text, figure].
export function segments(label, chosen) {
  const element = h("div", { class: "segments", role: "group", "aria-label": label });
  let shown = "";
  return {
    element,
    draw(options, value) {
      const signature = JSON.stringify([options, value]);
      if (signature === shown) return;
      shown = signature;
      replace(element, options.map(([option, text, figure]) =>
        h("button", { type: "button", "aria-pressed": String(option === value), on: { click: () => chosen(option) } },
          text, figure === undefined ? null : h("span", { class: "figure" }, figure))));
    },
  };
}

// Says in place of a section why it shows nothing.
export function missing(error, what) {
  if (error instanceof ApiError && error.isMissing) return `This node does not tell ${what}: it runs a version without that.`;
  if (error instanceof ApiError && error.needsToken) return `The node does not tell ${what} without its token.`;
  if (error instanceof ApiError) return `The node could not tell ${what}: ${error.message}`;
  return `The node does not answer; ${what} will be here when it does.`;
}

export function banner(kind, ...children) {
  return h("div", { class: `banner ${kind}` }, shape(kind === "bad" ? "down" : "warning"), h("div", {}, children));
}

// --- the panel at the side

let openPanel = null;

// What had the focus, or, if the view was drawn anew meanwhile, what is there for it now.
const again = (before) => (before?.isConnected || !before?.dataset.node ? before : document.querySelector(`[data-node="${CSS.escape(before.dataset.node)}"]`));

// Shows a panel over the view. `closed()` is called once, however it goes. Returns {body, title, close}.
export function panel(title, closed = () => {}) {
  openPanel?.close();
  const before = document.activeElement;
  const name = h("h2", {}, title);
  const body = h("div", { class: "body" });
  const element = h("section", { class: "panel", role: "dialog", "aria-label": title, tabindex: -1 },
    h("header", {}, name, h("span", { class: "grow" }),
      h("button", { class: "plain", type: "button", title: "Close (Escape)", "aria-label": "Close", on: { click: () => made.close() } }, glyph("close"))),
    body);
  const made = {
    body,
    rename: (text) => setText(name, text),
    close() {
      if (openPanel !== made) return;
      openPanel = null;
      element.remove();
      closed();
      again(before)?.focus({ preventScroll: true });
    },
  };
  openPanel = made;
  document.getElementById("panel-place").append(element);
  element.focus({ preventScroll: true });
  return made;
}

export function closePanel() {
  if (!openPanel) return false;
  openPanel.close();
  return true;
}

// --- questions and notices

// Asks before something is changed, or cannot be taken back. Resolves to true only for the button that says so.
export function sure(title, text, action, kind = "danger primary") {
  return new Promise((decided) => {
    const answer = (yes) => {
      dialog.remove();
      decided(yes);
    };
    const dialog = h("dialog", { "aria-label": title, on: { cancel: () => answer(false) } },
      h("h2", {}, title),
      h("p", {}, text),
      h("div", { class: "stack" }, h("div", { class: "actions" },
        h("button", { type: "button", on: { click: () => answer(false) } }, "Cancel"),
        h("button", { type: "button", class: kind, on: { click: () => answer(true) } }, action))));
    document.body.append(dialog);
    dialog.showModal();
  });
}

// A form over the page. `send()` resolves to whether all is done, and the form closes then. A second click meanwhile does nothing.
export function dialogForm(title, button, fields, send) {
  let sending = false;
  const submit = async (event) => {
    event.preventDefault();
    if (sending) return;
    sending = true;
    try {
      if (await send()) dialog.close();
    } finally {
      sending = false;
    }
  };
  const dialog = h("dialog", { class: "form", "aria-label": title, on: { close: () => dialog.remove() } },
    h("h2", {}, title),
    h("form", { on: { submit } }, fields, h("div", { class: "actions" },
      h("button", { type: "button", on: { click: () => dialog.close() } }, "Cancel"),
      h("button", { type: "submit", class: "primary" }, button))));
  document.body.append(dialog);
  dialog.showModal();
}

export const field = (name, input) => h("label", { class: "above" }, name, h("span", { class: "field" }, input));

export function notice(text, kind = "") {
  const element = h("div", { class: `notice ${kind}` }, text);
  document.getElementById("notices").append(element);
  setTimeout(() => element.remove(), kind === "bad" ? 9000 : 4500);
}

// Does something at the node and says how it went. Resolves to the answer, or null if it failed.
export async function act(call, done) {
  try {
    const found = await call();
    notice(done(found));
    return found ?? {};
  } catch (error) {
    notice(error instanceof ApiError ? error.message : "The node does not answer.", "bad");
    return null;
  }
}

// The found part of a name is marked.
export function marked(text, searched) {
  const place = searched ? text.toLowerCase().indexOf(searched.toLowerCase()) : -1;
  if (place < 0) return [text];
  const end = place + searched.length;
  return [text.slice(0, place), h("mark", {}, text.slice(place, end)), text.slice(end)];
}

export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(Boolean).map(([name, value]) => h("div", { class: String(value?.textContent ?? value).length > 24 ? "wide" : null }, h("dt", {}, name), h("dd", {}, value))));
}
