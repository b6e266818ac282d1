// The frame of the page: which view is shown, the bar on top, keys, the token.

import { token, whenRefused } from "./api.js";
import { append, drawer, h, setAttribute, setText } from "./dom.js";
import { count, duration, short } from "./format.js";
import { glyph, linkState, shape } from "./icons.js";
import { closePanel } from "./parts.js";
import { countOf, linksOf, Live } from "./state.js";
import advisories from "./views/advisories.js";
import channels from "./views/channels.js";
import charts from "./views/charts.js";
import consumers from "./views/consumers.js";
import dead from "./views/dead.js";
import follow from "./views/follow.js";
import node from "./views/node.js";
import overview from "./views/overview.js";
import queues from "./views/queues.js";
import routes from "./views/routes.js";
import sessions from "./views/sessions.js";
import topology from "./views/topology.js";
import trace from "./views/trace.js";
import tree from "./views/tree.js";

// Each view: {name, title, key, parts?, show(place, {live, rest, go})} -> {stop()}.
const VIEWS = [overview, charts, tree, topology, queues, consumers, sessions, routes, channels, node, dead, advisories, trace, follow];
const RULES_AFTER = new Set(["topology", "node"]);
const live = new Live();
const content = document.getElementById("content");
let shown = null;

// --- which view

function here() {
  const [, name = "", ...rest] = location.hash.split("/");
  const view = VIEWS.find((found) => found.name === name) ?? overview;
  return { view, rest: rest.map(safelyDecoded) };
}

function safelyDecoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function go(name, ...rest) {
  location.hash = ["#", name, ...rest.map(encodeURIComponent)].join("/");
}

function showView() {
  const { view, rest } = here();
  closePanel();
  shown?.stop();
  content.replaceChildren();
  live.want(view.parts ?? "status");
  shown = view.show(content, { live, rest, go });
  for (const link of document.querySelectorAll("#views a")) {
    setAttribute(link, "aria-current", link.dataset.view === view.name ? "page" : null);
  }
  drawTitle();
}

// The same view, and the panel that its address names.
function showAgain() {
  const place = location.hash;
  closePanel();
  history.replaceState(null, "", place);
  showView();
}

function drawTitle() {
  const { view } = here();
  document.title = `${live.status?.name ? `${live.status.name} · ` : ""}${view.title} · Sapwood`;
}

// --- the frame

function buildViews() {
  const nav = document.getElementById("views");
  for (const view of VIEWS) {
    append(nav, [
      h("a", { href: `#/${view.name}`, dataset: { view: view.name }, title: `${view.title} (g ${view.key})` },
        glyph(view.name), h("span", {}, view.title), h("b", { class: "badge" })),
      RULES_AFTER.has(view.name) && h("div", { class: "rule", role: "presentation" }),
    ]);
  }
}

function buildTop() {
  const chain = h("div", { class: "chain", "aria-label": "The chain above this node" });
  const health = h("div", { class: "health" });
  const drawChain = drawer(chain);
  const drawHealth = drawer(health);
  append(document.getElementById("top"), [
    h("a", { class: "brand", href: "#/overview" }, h("img", { src: "icon.svg", alt: "" }), h("span", {}, "Sapwood")),
    chain,
    h("span", { class: "grow" }),
    health,
    h("button", { class: "plain", type: "button", title: "Keys (?)", "aria-label": "Keys", on: { click: showKeys } }, glyph("keys")),
    h("button", { class: "plain", type: "button", id: "theme", title: "Light or dark (t)", "aria-label": "Light or dark", on: { click: switchTheme } }, glyph("theme")),
  ]);
  live.listen(() => {
    const { status } = live;
    drawChain([status?.chain, status?.name, status?.role, status?.tree], () => chainParts(status));
    drawHealth([live.connection, live.error, status?.ready, status?.refusing, status?.disconnected, duration(status?.uptime_s)], () => healthParts(status));
    drawBadges(status);
    drawTitle();
  });
}

function chainParts(status) {
  if (!status) return [h("span", { class: "muted" }, "asking the node…")];
  // The chain runs from the node up to the root; people read it from the root down.
  const above = (status.chain ?? []).filter((name) => name !== status.name).reverse();
  return [
    above.map((name) => h("span", { class: "step" }, name)),
    h("strong", {}, status.name),
    h("span", { class: "tag" }, status.role),
    h("span", { class: "tag" }, `tree ${status.tree}`),
  ];
}

function healthParts(status) {
  const parts = [];
  if (status) {
    parts.push(h("span", { class: "wide" }, `up ${duration(status.uptime_s)}`));
    if (status.disconnected) parts.push(h("span", { title: "No core is linked" }, shape("down"), "disconnected"));
    if (status.ready === false) parts.push(h("span", { title: status.refusing }, shape("blocked"), "not ready"));
  }
  const word = { live: "live", connecting: "connecting", lost: "no answer", refused: "token needed" }[live.connection];
  const state = { live: "running", connecting: "connecting", lost: "down", refused: "blocked" }[live.connection];
  parts.push(h("span", { id: "connection", title: live.error, dataset: { connection: live.connection } }, shape(state), word));
  return parts;
}

function drawBadges(status) {
  if (!status) return;
  const bad = linksOf(status).filter((link) => ["down", "blocked"].includes(linkState(link))).length;
  badge("tree", bad ? count(bad) : "", bad > 0);
  badge("queues", status.queues?.length ? short(status.queues.length + (status.queues_more ?? 0)) : "", false);
  badge("dead", status.dead?.messages ? short(status.dead.messages) : "", Boolean(status.dead?.messages));
  badge("sessions", countOf(status.sessions) ? short(countOf(status.sessions)) : "", false);
}

function badge(name, text, alarm) {
  const element = document.querySelector(`#views a[data-view="${name}"] .badge`);
  setText(element, text);
  element.classList.toggle("alarm", alarm);
}

// --- light and dark

function switchTheme() {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const now = root.dataset.theme ?? system;
  const next = now === "dark" ? "light" : "dark";
  if (next === system) {
    delete root.dataset.theme;
    localStorage.removeItem("sapwood-theme");
  } else {
    root.dataset.theme = next;
    localStorage.setItem("sapwood-theme", next);
  }
}

// --- keys

const MOVES = new Set(["ArrowDown", "ArrowUp", "PageDown", "PageUp", "Home", "End", "Enter"]);
let leader = -Infinity; // when `g` was pressed, as the browser tells it: a page that is busy hears of keys late

// From the page's own ground the arrows lead into the list of the view; a control that has the focus keeps its keys.
function moveIntoList(event) {
  const list = content.querySelector(".rows, .topology");
  const free = event.target === document.body || event.target === content;
  if (!list || !free || document.querySelector(".panel, dialog")) return false;
  list.focus({ preventScroll: true });
  list.dispatchEvent(new KeyboardEvent("keydown", { key: event.key }));
  event.preventDefault();
  return true;
}

function key(event) {
  const typing = event.target.closest?.("input, textarea, select, dialog");
  if (event.key === "Escape") {
    if (typing?.matches("input")) typing.blur();
    else if (!typing) closePanel();
    return;
  }
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.timeStamp - leader < 1500) {
    leader = -Infinity;
    const view = VIEWS.find((found) => found.key === event.key);
    if (view) go(view.name);
    return;
  }
  if (MOVES.has(event.key) && moveIntoList(event)) return;
  if (event.key === "g") leader = event.timeStamp;
  else if (event.key === "t") switchTheme();
  else if (event.key === "?") showKeys();
  else if (event.key === "/") {
    const search = content.querySelector("[data-search] input");
    if (!search) return;
    search.focus();
    search.select();
    event.preventDefault();
  }
}

function showKeys() {
  const rows = [
    ...VIEWS.map((view) => [["g", view.key], view.title]),
    [["/"], "search in this view"],
    [["↑", "↓"], "choose a row; Page Up, Page Down, Home and End too"],
    [["←", "→"], "fold and unfold a branch of the tree"],
    [["Enter"], "open the chosen row, or lead into a card of the topology"],
    [["Backspace"], "in the topology: up again"],
    [["Escape"], "close the panel, clear the search"],
    [["t"], "light or dark"],
  ];
  const dialog = h("dialog", { "aria-label": "Keys", on: { close: () => dialog.remove() } },
    h("h2", {}, "Keys"),
    h("div", { class: "stack" },
      h("div", { class: "keys" }, rows.map(([keys, text]) => [
        h("span", {}, keys.map((name) => [h("kbd", {}, name), " "])), h("span", {}, text)])),
      h("div", { class: "actions" }, h("button", { type: "button", on: { click: () => dialog.close() } }, "Close"))));
  document.body.append(dialog);
  dialog.showModal();
}

// --- the token

let asking = false;

function askForToken(error) {
  if (asking) return;
  asking = true;
  live.stop();
  const input = h("input", { type: "password", autocomplete: "off", required: true, "aria-label": "Token" });
  const given = (event) => {
    event.preventDefault();
    token.set(input.value.trim());
    asking = false;
    dialog.remove();
    live.failures = 0;
    live.restart();
    showAgain();
  };
  const dialog = h("dialog", { id: "token", "aria-label": "Token of this node", on: { cancel: (event) => event.preventDefault() } },
    h("h2", {}, "This node wants its token"),
    h("p", {}, "It is what the node's file names under http (token_file or token_env), or one of an operator or of the issuer that it names. It is kept in this tab only, until you close it."),
    h("form", { on: { submit: given } },
      token.get() && h("p", { class: "problem" }, "The token that was given is not the right one."),
      error.message && !token.get() && h("p", {}, error.message),
      h("label", { class: "above" }, "Token", h("span", { class: "field" }, input)),
      h("div", { class: "actions" }, h("button", { class: "primary", type: "submit" }, "Go on"))));
  document.body.append(dialog);
  dialog.showModal();
  input.focus();
}

buildViews();
buildTop();
whenRefused(askForToken);
addEventListener("hashchange", showView);
addEventListener("keydown", key);
showView();
live.restart();
