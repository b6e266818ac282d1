// The node at a glance: figures with their last two minutes, what needs somebody, its links and queues.

import { askAll, poll } from "../api.js";
import { showDefinitions } from "../definitions.js";
import { drawer, h, setText } from "../dom.js";
import { age, bytes, count, duration, plural, rate, short, visible } from "../format.js";
import { linkState, linkWhy, shape, stateMark } from "../icons.js";
import { sparkline } from "../sparkline.js";
import { countOf, headsOf, linksOf, oldestOf, waitingOf } from "../state.js";

const LISTED = 12;
const OLD = 60;

// A figure with its history. `place`: where a click leads.
function tile(name, place, withSpark = true) {
  const figure = h("div", { class: "figure" });
  const more = h("span", { class: "more" });
  const spark = withSpark ? sparkline(`${name}, the last two minutes`) : null;
  const foot = spark ? spark.element : h("div", { class: "foot" });
  const element = h("a", { class: "tile", href: `#/${place}` }, h("div", { class: "name" }, name, more), figure, foot);
  const drawFigure = drawer(figure);
  return {
    element,
    draw({ value, unit = "", note = "", points, alarm = "", foot: text = "" }) {
      drawFigure([value, unit], () => [value, unit && h("small", {}, unit)]);
      setText(more, note);
      element.classList.toggle("alarm", alarm === "alarm");
      element.classList.toggle("warn", alarm === "warn");
      if (spark) spark.draw(points ?? []);
      else setText(foot, text);
    },
  };
}

// Nodes further below that are down, as far as the routes tell.
function downBelow(tree) {
  return (tree?.children ?? []).filter((child) => !child.dormant).flatMap((child) =>
    (child.below ?? []).filter((node) => node.live === false).map((node) => ({ name: node.name, via: child.name })));
}

const NAMED = { child: (name) => `The link of ${name}`, mesh: (name) => `The link to ${name}, of the same mesh,` };
const ARROWS = { child: "↓ ", mesh: "↔ " };

// What an operator should look at, the worst first.
export function attention(status, away, at) {
  const found = [];
  const add = (weight, state, what, why, side, place) => found.push({ weight, state, what, why, side, place });
  for (const warning of status.warnings ?? []) add(1, "warning", visible(String(warning?.text ?? warning)), "", "", "overview");
  if (status.ready === false) add(0, "blocked", "The node takes no new messages", status.refusing || "", "", "overview");
  if (status.disconnected) add(0, "down", "This satellite is disconnected", "it is linked with no core", "", "tree");
  for (const alarm of status.alarms ?? []) {
    const now = alarm.now ? `, now ${alarm.now}` : "";
    add(alarm.severity === "critical" ? 0 : alarm.severity === "warning" ? 1 : 5, alarm.severity === "critical" ? "down" : "warning",
      `Alarm ${alarm.name}`, `${alarm.condition}${now}`, duration((at - Date.parse(alarm.since)) / 1000), "charts");
  }
  // One of several parents stands in for the others.
  const spare = (status.parents ?? []).some((link) => linkState(link) === "running");
  for (const link of linksOf(status)) {
    const state = linkState(link);
    const other = NAMED[link.relation]?.(link.name) ?? `The link to the parent${link.name ? ` ${link.name}` : ""}`;
    const why = linkWhy(link);
    const since = link.since_s === undefined ? "" : duration(link.since_s);
    if (state === "down" || state === "connecting") add(NAMED[link.relation] || spare ? 2 : 1, state, `${other} is ${state}`, why, since, "tree");
    if (state === "blocked") add(2, state, `${other} is blocked`, why, since, "tree");
    if (link.gaps) add(5, "warning", `${link.name} has lost state`, plural(link.gaps, "gap"), "", "tree");
  }
  const below = status.below ?? {};
  if (below.down) add(2, "down", `${count(below.down)} of ${plural(below.nodes, "node")} below ${below.down === 1 ? "is" : "are"} down`, away.slice(0, LISTED / 2).map(({ name }) => name).join(", "), duration(below.down_since_s), "tree");
  else if (away.length > LISTED / 2) add(4, "down", `${plural(away.length, "node")} below ${plural(new Set(away.map(({ via }) => via)).size, "child", "children")} are down`, "", "", "tree");
  else for (const { name, via } of away) add(4, "down", `${name} is down`, `as ${via} says`, "", "tree");
  const broker = status.site_broker;
  if (broker && broker.state !== "running") add(1, "down", `The site's broker is ${broker.state}`, visible(broker.error || broker.uri), duration(broker.since_s ?? 0), "consumers");
  else if (broker?.unknown) add(5, "warning", "Not all consumers of the site's broker are known", plural(broker.unknown, "subscription"), "", "consumers");
  else if (/does not tell/.test(broker?.discovery ?? "")) add(5, "warning", "The site's broker does not tell who its consumers are", "sapwood node check prints what it lacks", "", "consumers");
  if (broker?.blocked) add(2, "blocked", "The site's broker takes no messages now", visible(broker.blocked), "", "consumers");
  for (const why of Object.values(broker?.lacks ?? {})) add(5, "warning", "The site's broker lacks something", visible(why), "", "consumers");
  for (const [name, why] of Object.entries(broker?.other_ways ?? {}).slice(0, LISTED)) add(5, "warning", `${visible(name)} comes another way than the tree's, too`, visible(why), "", "consumers");
  for (const queue of status.queues ?? []) {
    if (queue.messages && !queue.readers && !(queue.targets ?? []).length && (queue.oldest_s ?? 0) > OLD) {
      add(6, "warning", `Nobody reads ${visible(queue.name)}`, plural(queue.messages, "message"), age(queue.oldest_s), `queues/${encodeURIComponent(queue.name)}`);
    }
  }
  const dead = status.dead ?? {};
  if (dead.messages) {
    const reasons = [...headsOf(dead.reasons)].map(([reason, number]) => `${count(number)} ${reason || "without a reason"}`).join(", ");
    add(3, "warning", plural(dead.messages, "dead letter"), reasons, "", "dead");
  }
  return found.sort((one, other) => one.weight - other.weight);
}

function attentionLines(found) {
  if (!found.length) return h("div", { class: "calm" }, shape("running"), "Nothing. All links run, nothing is dead, every queue is read.");
  const shown = found.slice(0, LISTED);
  return [
    h("ul", { class: "lines" }, shown.map((item) => h("li", {},
      shape(item.state),
      h("div", {}, h("a", { class: "what", href: `#/${item.place}` }, item.what), item.why && h("div", { class: "why" }, visible(item.why))),
      h("span", { class: "side" }, item.side)))),
    found.length > shown.length && h("div", { class: "calm" }, `and ${plural(found.length - shown.length, "more", "more")}`),
  ];
}

function linkRows(links) {
  return h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, h("th", {}, "Link"), h("th", {}, "State"), h("th", { class: "number minor" }, "Since"),
      h("th", { class: "number" }, "Waiting"), h("th", { class: "number minor" }, "In/s"), h("th", { class: "number minor" }, "Out/s"))),
    h("tbody", {}, links.map((link) => h("tr", {},
      h("td", { class: "name" }, ARROWS[link.relation] ?? "↑ ", link.name || link.dialling?.uris?.[0] || "the parent"),
      h("td", {}, stateMark(linkState(link))),
      h("td", { class: "number minor" }, duration(link.since_s)),
      h("td", { class: "number" }, waiting(link)),
      h("td", { class: "number minor" }, zero(rate(link.in_rate ?? 0))),
      h("td", { class: "number minor" }, zero(rate(link.out_rate ?? 0)))))));
}

const waiting = (link) => zero(short((link.waiting ?? 0) + (link.outbox ?? 0)));
const zero = (text) => (text === "0" ? h("span", { class: "zero" }, "0") : text);

function queueRows(queues) {
  return h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, h("th", {}, "Queue"), h("th", { class: "number" }, "Messages"), h("th", { class: "number minor" }, "Bytes"),
      h("th", { class: "number minor" }, "Oldest"), h("th", { class: "number" }, "Readers"))),
    h("tbody", {}, queues.map((queue) => h("tr", {},
      h("td", { class: "name" }, h("a", { href: `#/queues/${encodeURIComponent(queue.name)}` }, visible(queue.name))),
      h("td", { class: "number" }, zero(count(queue.messages))),
      h("td", { class: "number minor" }, queue.messages ? bytes(queue.bytes) : zero("0")),
      h("td", { class: "number minor" }, queue.messages ? age(queue.oldest_s) : ""),
      h("td", { class: "number" }, zero(count(queue.readers)))))));
}

const ORDER = ["down", "blocked", "connecting", "unknown", "running"];

// Parents and the others of the mesh first, then the children that are not well, then the busiest.
function foremost(links) {
  const rank = (link) => (link.relation === "child" ? ORDER.indexOf(linkState(link)) : -1);
  return [...links].sort((one, other) => rank(one) - rank(other) || (other.out_rate ?? 0) - (one.out_rate ?? 0)).slice(0, LISTED);
}

function card(title, place, placeName) {
  const body = h("div", {});
  const element = h("section", { class: "card" }, h("h2", {}, title, place && h("a", { href: `#/${place}` }, placeName)), body);
  return { element, draw: drawer(body) };
}

function show(root, { live }) {
  const tiles = {
    entered: tile("Entering here", "queues"),
    delivered: tile("Delivered here", "consumers"),
    in: tile("Over links, in", "tree"),
    out: tile("Over links, out", "tree"),
    waiting: tile("Waiting", "queues"),
    dead: tile("Dead letters", "dead"),
    sessions: tile("Sessions", "sessions"),
    store: tile("Store", "overview", false),
  };
  const cards = {
    attention: card("Needs attention"),
    links: card("Links", "tree", "the whole tree"),
    queues: card("Queues", "queues", "all queues"),
  };
  const unlinked = h("div", { class: "columns" }, cards.attention.element, cards.links.element);
  root.append(
    h("div", { class: "head" }, h("h1", {}, "Overview"), h("span", { class: "grow" }), h("button", { type: "button", on: { click: showDefinitions } }, "Definitions…")),
    h("div", { class: "tiles" }, Object.values(tiles).map((made) => made.element)),
    unlinked,
    cards.queues.element,
  );
  let away = [];
  const asking = poll("tree", () => 10, () => ({}), (found) => {
    away = downBelow(found);
    draw();
  }, () => {}, (path, options) => askAll(path, "children", options));
  const draw = () => {
    const { status, rates, histories } = live;
    if (!status) return;
    for (const name of ["entered", "delivered", "in", "out"]) {
      const points = histories.of(`rate:${name}`);
      tiles[name].draw({ value: rate(rates[name]), unit: "msg/s", points, note: points.length > 1 ? `peak ${rate(Math.max(...points))}` : "" });
    }
    drawState(tiles, status, histories);
    const links = foremost(linksOf(status));
    const all = linksOf(status).length + (status.children_more ?? 0);
    const found = attention(status, away, live.at);
    cards.attention.draw(found, () => attentionLines(found));
    cards.links.draw([all, links.map((link) => [link.name, linkState(link), duration(link.since_s), link.waiting, link.outbox, rate(link.in_rate ?? 0), rate(link.out_rate ?? 0)])],
      () => (links.length ? [linkRows(links), all > links.length && h("div", { class: "calm" }, `and ${count(all - links.length)} more`)]
        : h("div", { class: "calm" }, "This node has neither a parent nor children.")));
    const busy = (status.queues ?? []).slice(0, LISTED);
    cards.queues.draw(busy.map((queue) => [queue.name, queue.messages, queue.bytes, age(queue.oldest_s), queue.readers]),
      () => (busy.length ? queueRows(busy) : h("div", { class: "calm" }, "No queues at this node.")));
  };
  draw();
  const unlisten = live.listen(draw);
  return {
    stop: () => {
      unlisten();
      asking.stop();
    },
  };
}

function drawState(tiles, status, histories) {
  const oldest = oldestOf(status);
  const waits = waitingOf(status);
  tiles.waiting.draw({ value: short(waits), unit: waits === 1 ? "message" : "messages", points: histories.of("waiting"), note: waits ? `oldest ${age(oldest)}` : "" });
  const dead = status.dead?.messages ?? 0;
  tiles.dead.draw({ value: short(dead), points: histories.of("dead"), note: dead ? bytes(status.dead.bytes) : "", alarm: dead ? "warn" : "" });
  tiles.sessions.draw({ value: short(countOf(status.sessions)), points: histories.of("sessions") });
  const store = status.store ?? {};
  const [value, unit] = bytes(store.used_bytes).split(" ");
  tiles.store.draw({
    value,
    unit: unit ? `${unit} used` : "",
    note: store.commits ? `${short(store.commits)} ${store.commits === 1 ? "commit" : "commits"}` : "",
    foot: `${bytes(store.disk_free)} free${store.commit_s ? ` · commit ${duration(store.commit_s)}` : ""}`,
  });
}

export default { name: "overview", title: "Overview", key: "o", show };
