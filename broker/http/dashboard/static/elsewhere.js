// Which node a view asks: this one, or any other by its name, through the tree.

import { h } from "./dom.js";
import { visible } from "./format.js";

// A field in the head of a view. `asked(name)` is called when somebody has named another node; '' is this one.
export function whichNode(name, asked) {
  const input = h("input", { type: "text", value: name, placeholder: "this node", "aria-label": "Node to ask", autocomplete: "off", spellcheck: "false" });
  return h("form", { class: "head", on: { submit: (event) => {
    event.preventDefault();
    asked(input.value.trim());
  } } },
  h("label", { class: "field" }, h("span", { class: "muted" }, "at"), input),
  h("button", { type: "submit" }, "Ask it"));
}

export const titleAt = (title, name) => (name ? `${title} at ${visible(name)}` : title);
