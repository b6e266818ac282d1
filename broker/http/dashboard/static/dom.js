// Makes and changes elements. Law: data becomes text, never markup; nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") {
      for (const [event, call] of Object.entries(value)) element.addEventListener(event, call);
    } else if (name === "dataset") {
      Object.assign(element.dataset, value);
    } else if (name === "value" || name === "checked" || name === "disabled") {
      element[name] = value;
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

// An element: h("td", {class: "number", on: {click}}, "text", child, …). No child is ever parsed.
export function h(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

export function svg(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

// Touch the document only where something has changed.
export function setText(element, text) {
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

export function setAttribute(element, name, value) {
  if (value === undefined || value === null || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, String(value));
}

export function replace(element, ...children) {
  const wrapped = document.createDocumentFragment();
  append(wrapped, children);
  element.replaceChildren(wrapped);
}

// Draw a part of the page again only when what it shows has changed.
export function drawer(element) {
  let shown;
  return (data, draw) => {
    const signature = JSON.stringify(data);
    if (signature === shown) return;
    shown = signature;
    replace(element, draw());
  };
}
