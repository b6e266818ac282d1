// A picture of the tree: a node, the chain above it, and a card for each child with all that is below it.
//
// A card shows how many nodes below it are up and down, as they are told of upward; each of them is a small square.
// A click or Enter leads into a card. One level is drawn at a time, and of many children groups of a hundred, so that
// thousands of nodes cost no more than what is looked at.

import { askAll, poll } from "../api.js";
import { drawer, h, svg } from "../dom.js";
import { count, duration, plural, visible } from "../format.js";
import { linkState, linkWhy, shape, stateMark } from "../icons.js";
import { arrows, lines } from "../picture.js";
import { head, marked, missing, segments } from "../parts.js";
import { below, showNode, treeOf } from "./tree.js";

const EVERY = 5;
const GROUP = 100;
const MOST_CARDS = 120;
const MOST_SQUARES = 600;
const SHOW = [["all", "All"], ["down", "With one down"]];
const SIZES = { up: 3, down: 5 };

// The picture that takes the focus: it was led to from a card of the one before, which is drawn on until it is left.
let led = "";

const ask = (name, options) => askAll(name ? `tree/${encodeURIComponent(name)}` : "tree", "children", options);
const placeOf = (path) => ["#/topology", ...path.map(encodeURIComponent)].join("/");
const byName = (one, other) => (one.name < other.name ? -1 : 1);

// A child as a card: how its link is, and the nodes below it, each with its name and whether it is live.
function cardOf(link) {
  const names = below(link);
  const state = linkState(link);
  const down = names.filter((item) => !item.live).length + (state === "down" ? 1 : 0);
  return { key: link.name, name: link.name, role: link.role, state, link, names, down, nodes: names.length + (link.below_more ?? 0) + 1, leads: names.length > 0 || link.role === "branch" };
}

// A node that only another one told of.
const hearsay = (teller) => (item) => ({ key: item.name, name: item.name, state: item.live ? "live" : "down", names: [], down: item.live ? 0 : 1, nodes: 1, leads: false, hearsay: teller });

// Those that come one after the other by name, as one card.
function grouped(cards, open) {
  if (cards.length <= MOST_CARDS) return cards;
  const found = [];
  for (let start = 0; start < cards.length; start += GROUP) {
    const part = cards.slice(start, start + GROUP);
    const key = `${part[0].name}…`;
    const sum = (what) => part.reduce((total, card) => total + card[what], 0);
    const names = part.flatMap((card) => [{ name: card.name, live: card.state !== "down" }, ...card.names]);
    found.push({ key, group: true, open: open.has(key), name: `${part[0].name} – ${part.at(-1).name}`, names, down: sum("down"), nodes: sum("nodes"), state: "running", leads: true });
    if (open.has(key)) found.push(...part);
  }
  return found;
}

function show(root, { live, rest, go }) {
  const path = rest.filter(Boolean);
  const name = path.at(-1) ?? "";
  let [found, told, error, searched, only] = [null, null, null, "", "all"];
  const open = new Set();
  const states = segments("Show", (value) => {
    only = value;
    draw();
  });
  const top = head("Topology", { placeholder: "Search a node", searched: (text) => {
    searched = text.toLowerCase();
    draw();
  } }, states.element);
  const chain = h("div", { class: "way" });
  const cards = h("div", { class: "cards" });
  const wires = svg("svg", { class: "wires", "aria-hidden": "true" });
  const note = h("p", { class: "muted" });
  const picture = h("div", { class: "topology", tabindex: -1, role: "group", "aria-label": "The tree as a picture", on: {
    keydown: (event) => {
      if (event.key === "Backspace" && path.length) leave();
      else if (!arrows(picture, event)) return;
      event.preventDefault();
    },
  } }, wires, chain, cards, note);
  root.append(top.element, picture);

  const leave = () => lead(path.slice(0, -1));
  const lead = (names) => {
    led = placeOf(names);
    go("topology", ...names);
  };
  const chosen = (card) => {
    if (card.group) {
      if (!open.delete(card.key)) open.add(card.key);
      draw();
    } else if (card.path && !card.here) lead(card.path);
    else if (card.leads && !card.here) lead([...path, card.name]);
    else showNode({ ...card, own: !path.length && !card.here }, go);
  };
  const drawWay = drawer(chain);
  const drawCards = drawer(cards);

  const draw = () => {
    if (!live.status) return;
    const wanted = (card) => (only === "all" || card.down) && (!searched || foundIn(card, searched).length);
    const children = (found ? found.children.map(cardOf) : (told ?? [])).sort(byName);
    const shown = grouped(children.filter(wanted), open);
    const focus = document.activeElement?.dataset?.node;
    drawWay([path, found, live.status.name, live.status.chain], () => wayOf(path, found, live).map((card) => cardElement(card, "", chosen)));
    drawCards([shown, searched], () => shown.map((card) => cardElement(card, searched, chosen)));
    states.draw(SHOW, only);
    top.sum.textContent = sumOf(children, path, live.status);
    note.textContent = noteOf(error, found, children, shown, name);
    lines(wires, picture, chain, cards);
    if (led === placeOf(path) && (found || told)) {
      led = "";
      picture.querySelector("[data-here]")?.focus();
    } else if (focus && document.activeElement === document.body) picture.querySelector(`[data-node="${CSS.escape(focus)}"]`)?.focus();
  };
  const asking = poll("tree", () => EVERY, () => ({}), (answer) => {
    [found, told, error] = [treeOf({ tree: answer }), null, null];
    draw();
  }, async (problem) => {
    [found, error] = [null, problem];
    told = path.length === 1 ? await toldBelow(name).catch(() => null) : null;
    draw();
  }, (_path, options) => ask(name, options));
  const watching = new ResizeObserver(() => lines(wires, picture, chain, cards));
  watching.observe(picture);
  draw();
  const unlisten = live.listen(draw);
  return {
    stop: () => {
      asking.stop();
      watching.disconnect();
      unlisten();
    },
  };
}

// What this node knows of a child that does not answer: the names below it.
async function toldBelow(name) {
  const own = treeOf({ tree: await ask("") });
  const link = own.children.find((child) => child.name === name);
  return link ? below(link).map(hearsay(own.name)) : null;
}

const foundIn = (card, searched) => [card.name, ...card.names.map((item) => item.name)].filter((name) => name.toLowerCase().includes(searched));

// The cards from the root down to the node that is looked at.
function wayOf(path, found, live) {
  const { status } = live;
  const own = path.length ? null : found;
  const parents = new Map((own?.parents ?? []).map((link) => [link.name, link]));
  const above = (status.chain ?? []).filter((name) => name !== status.name).reverse();
  const names = [...new Set([...above, ...parents.keys()])];
  const bare = { names: [], down: 0, nodes: 0 };
  const way = names.map((name) => ({ ...bare, key: `above/${name}`, name, above: true, link: parents.get(name), state: parents.has(name) ? linkState(parents.get(name)) : "unknown" }));
  for (const link of own?.mesh ?? []) way.push({ ...bare, key: `beside/${link.name}`, name: link.name, beside: true, link, state: linkState(link) });
  way.push({ ...bare, key: "self", name: status.name, role: status.role, self: true, state: "running", path: [], here: !path.length });
  path.forEach((name, place) => way.push({ ...bare, key: `way/${name}`, name, role: place === path.length - 1 ? found?.role : "branch", state: "unknown", path: path.slice(0, place + 1), here: place === path.length - 1 }));
  return way;
}

function sumOf(children, path, status) {
  const sum = (what) => children.reduce((total, card) => total + card[what], 0);
  const { nodes, down, down_since_s: since } = path.length ? { nodes: sum("nodes"), down: sum("down") } : (status.below ?? { nodes: sum("nodes"), down: sum("down") });
  const longest = since ? `, for up to ${duration(since)}` : "";
  return `${plural(children.length, "child", "children")}, ${plural(nodes, "node")} below, ${down ? `${count(down)} down${longest}` : "none down"}`;
}

function noteOf(error, found, children, shown, name) {
  if (error) return `${missing(error, "its links")}${children.length ? " Here is what the node above it knows." : ""}`;
  if (!found) return "asking the node…";
  if (found.more) return `${count(found.more)} children more are not drawn.`;
  if (!children.length) return `Nothing is below ${name ? visible(name) : "this node"}.`;
  return shown.length ? "" : "No node here is like that.";
}

// --- a card

function cardElement(card, searched, chosen) {
  const names = searched && card.names.length ? foundIn({ name: "", names: card.names }, searched) : [];
  const why = card.link ? linkWhy(card.link) : card.hearsay ? `as ${card.hearsay} says` : "";
  const nested = card.names.length || card.nodes > 1;
  const properties = {
    type: "button", class: `node state-${card.group ? (card.down ? "down" : "running") : card.state}${card.group ? " group" : ""}${card.here ? " here" : ""}`, title: why || null,
    "aria-label": labelOf(card), "aria-expanded": card.group ? String(card.open) : null, dataset: { node: card.key, state: card.state, ...(card.here ? { here: "" } : {}) }, on: { click: () => chosen(card) },
  };
  const mark = card.group || card.state === "unknown" || card.self ? null : nested ? shape(card.state) : stateMark(card.state);
  return h("button", properties,
    h("span", { class: "title" }, nested && mark, h("b", {}, marked(visible(card.name), searched))),
    h("span", { class: "counts" }, roleOf(card) && h("span", { class: "tag" }, roleOf(card)), nested ? countsOf(card) : mark),
    names.length ? h("span", { class: "why" }, names.slice(0, 3).map(visible).join(", "), names.length > 3 ? ` and ${count(names.length - 3)} more` : "") : null,
    !nested && why ? h("span", { class: "why" }, visible(why)) : null,
    card.names.length && !card.open ? squares(card.names) : null);
}

const roleOf = (card) => (card.group ? (card.open ? "close" : "group") : card.above ? "above" : card.beside ? "same mesh" : card.role);

function countsOf(card) {
  return [h("span", {}, `${count(card.nodes - card.down)} up`), card.down ? h("span", { class: "bad" }, `${count(card.down)} down`) : null,
    ["running", "live"].includes(card.state) ? null : h("span", { class: "link" }, `link ${card.state}`)];
}

function labelOf(card) {
  const counts = card.names.length ? `${card.nodes - card.down} up, ${card.down} down` : "";
  return [visible(card.name), roleOf(card), card.self ? "this node" : card.group || card.state === "unknown" ? "" : card.state, counts].filter(Boolean).join(", ");
}

// One small square for each node below; those that are down are larger too, not only of another colour.
function squares(names) {
  if (names.length > MOST_SQUARES) return null;
  const [pitch, width] = [7, 21];
  const paths = { up: "", down: "" };
  [...names].sort(byName).forEach((item, place) => {
    const size = SIZES[item.live ? "up" : "down"];
    const [x, y] = [(place % width) * pitch + (pitch - size) / 2, Math.floor(place / width) * pitch + (pitch - size) / 2];
    paths[item.live ? "up" : "down"] += `M${x} ${y}h${size}v${size}h-${size}z`;
  });
  const height = Math.ceil(names.length / width) * pitch;
  return svg("svg", { class: "squares", viewBox: `0 0 ${width * pitch} ${height}`, width: width * pitch, height, "aria-hidden": "true" },
    svg("path", { class: "up", d: paths.up }), svg("path", { class: "down", d: paths.down }));
}

export default { name: "topology", title: "Topology", key: "y", show };
