// The tree as this node sees it: the chain above, itself, and everything below.
//
// A node knows its own links, and of what is below a child only names and whether they are live. Unfolding a
// child asks that node itself, through this one, for its links; while it is unfolded it is asked again.

import { ask, askAll, poll } from "../api.js";
import { h } from "../dom.js";
import { age, bytes, count, duration, plural, rate, short, visible } from "../format.js";
import { glyph, linkState, linkWhy, shape, stateMark } from "../icons.js";
import { act, facts, head, marked, missing, panel, segments, sure } from "../parts.js";
import { sparkline } from "../sparkline.js";
import { Table } from "../table.js";

const AGAIN = 4;
const MOST_ASKED = 24;
const SHOW = ["all", "running", "blocked", "connecting", "down"];

// A node's place, with all its children.
const withChildren = (path, options) => askAll(path, "children", options);

// A name below a child: an object, a pair, or a bare name.
export function named(item) {
  if (typeof item === "string") return { name: item, live: true };
  if (Array.isArray(item)) return { name: String(item[0]), live: item[1] !== false && item[1] !== "dormant" };
  return { name: String(item.name ?? ""), live: item.live ?? item.state !== "dormant", role: item.role };
}

export function below(link) {
  return (link.below ?? link.names ?? link.descendants ?? []).map(named).filter((item) => item.name !== link.name);
}

// Links as the tree has them, with what the status says more; null if neither has any.
function both(told, status) {
  const more = new Map((status ?? []).map((link) => [link.name, link]));
  const links = told?.length ? told : (status ?? []);
  return links.length ? links.map((link) => ({ ...link, ...more.get(link.name) })) : null;
}

// The same form, whether the node told its tree or only its status.
export function treeOf(live) {
  const status = live.status ?? {};
  const told = live.tree ?? {};
  const rates = new Map((status.children ?? []).map((child) => [child.name, child]));
  const parent = told.parent || status.parent ? { ...told.parent, ...status.parent } : null;
  const children = (told.children ?? status.children ?? []).map((child) => ({ ...rates.get(child.name), ...child }));
  return {
    name: told.node?.name ?? told.name ?? status.name ?? "",
    role: told.node?.role ?? told.role ?? status.role ?? "",
    chain: told.chain ?? status.chain ?? [],
    parents: both(told.parents, status.parents) ?? (parent ? [parent] : []),
    mesh: both(told.mesh, status.mesh) ?? [],
    children,
    more: (told.children ? told.children_more : status.children_more) ?? 0,
  };
}

class Below {
  // What unfolded nodes say of themselves, asked through this node.
  constructor(changed) {
    this.changed = changed;
    this.known = new Map();
    this.open = new Map();
  }

  toggle(path, name) {
    if (this.open.has(path)) this.fold(path);
    else this.unfold(path, name);
  }

  unfold(path, name) {
    if (this.open.has(path)) return;
    let asking = null;
    if (this.open.size < MOST_ASKED) {
      asking = poll(`tree/${encodeURIComponent(name)}`, () => AGAIN, () => ({}),
        (found) => this.learn(name, { tree: found }),
        (error) => this.learn(name, { ...this.known.get(name), error }), withChildren);
    }
    this.open.set(path, asking);
  }

  learn(name, what) {
    this.known.set(name, what);
    this.changed();
  }

  fold(path) {
    for (const [open, asking] of this.open) {
      if (open === path || open.startsWith(`${path}/`)) {
        asking?.stop();
        this.open.delete(open);
      }
    }
  }

  stop() {
    for (const asking of this.open.values()) asking?.stop();
    this.open.clear();
  }
}

// The rows of the table, in the order of the tree. `wanted(row)`: shown for itself; its way up is shown too.
function rowsOf(tree, below_, wanted, filtering) {
  const rows = [];
  const above = [...tree.chain].filter((name) => name !== tree.name).reverse();
  // Of a mesh the chain has one name only; all of it that this node is linked with stand in its place.
  const level = Math.max(above.length, tree.parents.length ? 1 : 0);
  above.slice(0, level - 1).forEach((name, place) => rows.push({ key: `above/${name}`, name, level: place, above: true, link: null, state: "unknown" }));
  const parents = tree.parents.length || !level ? tree.parents : [null];
  for (const link of parents) {
    const name = link?.name || above.at(-1) || "the parent";
    rows.push({ key: `above/${name}`, name, level: level - 1, above: true, link, state: linkState(link) });
  }
  for (const link of tree.mesh) rows.push({ key: `beside/${link.name}`, name: link.name, level, beside: true, link, state: linkState(link) });
  const self = { key: "self", name: tree.name, level, self: true, role: tree.role, state: "running", expandable: tree.children.length > 0, expanded: true, kids: tree.children.length };
  rows.push(self);
  addChildren(rows, tree.children, "self", level + 1, below_, wanted, filtering);
  return rows;
}

function addChildren(rows, children, path, level, known, wanted, filtering) {
  for (const link of [...children].sort((one, other) => (one.name < other.name ? -1 : 1))) {
    const key = `${path}/${link.name}`;
    const told = known.known.get(link.name);
    const names = below(link);
    const expanded = filtering || known.open.has(key);
    const row = {
      own: path === "self", key, name: link.name, level, link, role: link.role, state: linkState(link), path: key,
      expandable: names.length > 0 || link.role === "branch" || (told?.tree?.children ?? []).length > 0,
      expanded, kids: names.length + (link.below_more ?? 0), error: expanded ? told?.error : null,
    };
    const inner = [];
    if (expanded && row.expandable) {
      const children = told?.tree?.children;
      if (children) addChildren(inner, withNames(children, names, told.tree), key, level + 1, known, wanted, filtering);
      else inner.push(...names.map((item) => ({
        key: `${key}/${item.name}`, name: item.name, level: level + 1, role: item.role, state: item.live ? "live" : "down", path: `${key}/${item.name}`, hearsay: link.name,
      })).filter((found) => !filtering || wanted(found)));
    }
    if (!filtering || wanted(row) || inner.length) rows.push(row, ...inner);
  }
}

// A node that was asked names all its children; names that it did not are kept as hearsay.
function withNames(children, names, tree) {
  const covered = new Set(children.flatMap((child) => [child.name, ...below(child).map((item) => item.name)]));
  const rest = names.filter((item) => !covered.has(item.name) && item.name !== (tree.node?.name ?? tree.name));
  return [...children, ...rest.map((item) => ({ name: item.name, state: item.live ? "live" : "down" }))];
}

const placeOf = (...names) => ["#", ...names.map(encodeURIComponent)].join("/");
const waitingOf = (row) => (row.link ? (row.link.waiting ?? 0) + (row.link.outbox ?? 0) : undefined);
const ratesOf = (row, what) => row.link?.[`${what}_rate`] ?? row.link?.[`${what}_per_s`];

function show(root, { live, rest, go }) {
  let searched = rest[0] ?? "";
  let only = "all";
  const known = new Below(() => draw());
  const states = segments("Show", (value) => {
    only = value;
    draw();
  });
  const top = head("Tree", { placeholder: "Search a node", initial: searched, searched: (text) => {
    searched = text;
    draw();
  } }, states.element);
  const sparks = new WeakMap();
  const toggle = (row) => {
    if (!row.expandable || row.self) return;
    known.toggle(row.path, row.name);
    draw();
  };
  const table = new Table({
    label: "The tree of nodes",
    tree: true,
    keyOf: (row) => row.key,
    open: (row) => showNode(row, go),
    keys: (event, row) => {
      const wanted = { ArrowRight: true, ArrowLeft: false }[event.key];
      if (wanted === undefined) return false;
      if (row.expandable && !row.self && Boolean(row.expanded) !== wanted) toggle(row);
      else if (!wanted) table.choose(parentPlace(table, row));
      return true;
    },
    empty: "No node of that name.",
    columns: [
      {
        key: "name", title: "Node", width: "minmax(260px, 1.6fr)", narrow: "minmax(0, 1fr)",
        text: (row) => JSON.stringify([row.name, row.level, row.expanded, row.expandable, row.kids, searched, row.role, row.above, row.beside]),
        draw: (row) => nameCell(row, searched, toggle),
        hint: (row) => row.name,
      },
      { key: "state", title: "Link", width: "118px", narrow: "84px", text: (row) => (row.self ? "this node" : row.state), draw: (row) => stateCell(row) },
      { key: "since", title: "Since", width: "78px", yields: 4, number: true, text: (row) => (row.link?.since_s === undefined ? "" : duration(row.link.since_s)) },
      { key: "waiting", title: "Waiting", width: "76px", narrow: "64px", number: true, text: (row) => figure(waitingOf(row), short), draw: (row) => dim(figure(waitingOf(row), short)) },
      { key: "oldest", title: "Oldest", width: "72px", yields: 3, number: true, text: (row) => (row.link?.spool_oldest_s ? age(row.link.spool_oldest_s) : "") },
      { key: "in", title: "In/s", width: "62px", yields: 2, number: true, text: (row) => figure(ratesOf(row, "in"), rate), draw: (row) => dim(figure(ratesOf(row, "in"), rate)) },
      { key: "out", title: "Out/s", width: "62px", yields: 2, number: true, text: (row) => figure(ratesOf(row, "out"), rate), draw: (row) => dim(figure(ratesOf(row, "out"), rate)) },
      {
        key: "spark", title: "Traffic", width: "92px", yields: 1,
        live: (cell, row) => {
          const points = row.link ? live.histories.of(`link:${row.link.name}`) : [];
          if (points.length < 2) return cell.replaceChildren();
          let spark = sparks.get(cell);
          if (!spark || !cell.firstChild) {
            spark = sparkline("traffic of this link, the last two minutes");
            sparks.set(cell, spark);
            cell.replaceChildren(spark.element);
          }
          spark.draw(points);
        },
      },
      { key: "why", title: "Why", width: "minmax(240px, 1.9fr)", yields: 5, text: (row) => visible(whyOf(row)) },
    ],
  });
  root.append(top.element, h("div", { class: "fill" }, table.element));

  const draw = () => {
    if (!live.status) return;
    const tree = treeOf(live);
    const filtering = Boolean(searched) || only !== "all";
    const lower = searched.toLowerCase();
    const wanted = (row) => (!lower || row.name.toLowerCase().includes(lower)) && (only === "all" || row.state === only || (only === "running" && row.state === "live"));
    const rows = rowsOf(tree, known, wanted, filtering);
    table.setRows(rows);
    const tally = tallyOf(tree);
    states.draw(SHOW.map((state) => [state, state === "all" ? "All" : state, count(tally[state] ?? 0)]).filter(([state]) => state === "all" || state === only || tally[state]), only);
    top.sum.textContent = `${tree.mesh.length ? `${count(tree.mesh.length)} beside, ` : ""}${plural(tree.children.length, "child", "children")}, ${plural(tally.all, "node")} below${tree.more ? `, and ${count(tree.more)} children not told here` : ""}`;
  };
  draw();
  const unlisten = live.listen(draw);
  return {
    stop: () => {
      unlisten();
      known.stop();
      table.stop();
    },
  };
}

function tallyOf(tree) {
  const tally = { all: 0 };
  const add = (state) => {
    tally.all += 1;
    tally[state] = (tally[state] ?? 0) + 1;
  };
  for (const child of tree.children) {
    add(linkState(child));
    for (const item of below(child)) add(item.live ? "running" : "down");
  }
  return tally;
}

function parentPlace(table, row) {
  let place = table.placeOf(row.key);
  while (place > 0 && table.rows[place].level >= row.level) place -= 1;
  return place;
}

function nameCell(row, searched, toggle) {
  const twig = h("div", { class: `twig${row.self ? " self" : ""}` },
    h("button", { type: "button", tabindex: -1, class: `toggle${row.expanded ? " open" : ""}${row.expandable && !row.self ? "" : " none"}`,
      "aria-label": row.expanded ? `Fold ${row.name}` : `Unfold ${row.name}`, on: { click: () => toggle(row) } }, glyph("chevron")),
    h("span", { class: "label" }, marked(visible(row.name), searched)),
    row.role && h("span", { class: "tag" }, row.role),
    row.above && h("span", { class: "tag" }, "above"),
    row.beside && h("span", { class: "tag" }, "same mesh"),
    !row.self && row.kids ? h("span", { class: "kids" }, `${count(row.kids)} below`) : null);
  twig.style.paddingLeft = `${Math.min(row.level, 12) * 18}px`;
  return twig;
}

function stateCell(row) {
  if (row.self) return h("span", { class: "tag" }, "this node");
  if (row.above && !row.link) return "";
  return stateMark(row.state);
}

function whyOf(row) {
  if (row.error) return missing(row.error, "its links");
  const { link } = row;
  if (!link) return row.hearsay ? `as ${row.hearsay} says` : "";
  if (linkWhy(link)) return linkWhy(link);
  const notes = [];
  if (link.held_by_peer?.length) notes.push(heldBy(link));
  if (link.gaps) notes.push(`${plural(link.gaps, "gap")}: has lost state`);
  return notes.join("; ");
}

function heldBy(link) {
  const more = (link.held_by_peer_total ?? 0) - link.held_by_peer.length;
  const rest = more > 0 ? ` and ${more} more` : "";
  return `takes nothing more for ${link.held_by_peer.join(", ") || "now"}${rest}`;
}

function figure(value, format) {
  return value === undefined || value === null ? "" : format(value);
}

function dim(text) {
  return text === "0" ? h("span", { class: "zero" }, "0") : text;
}

// --- one node

export function showNode(row, go) {
  if (row.self) return go("overview");
  const side = panel(row.name);
  const about = h("div", {}, linkFacts(row, row.link));
  const asked = h("div", {});
  side.body.append(about, asked);
  if (row.hearsay) {
    withChildren(`tree/${encodeURIComponent(row.hearsay)}`).then((found) => {
      const link = (found?.children ?? []).find((child) => child.name === row.name);
      if (link) about.replaceChildren(linkFacts({ ...row, state: linkState(link), hearsay: "" }, link));
    }, () => {});
  }
  if (row.above || row.beside) return undefined;
  asked.before(h("p", { class: "actions" },
    h("a", { href: placeOf("node", row.name) }, "its links"), h("a", { href: placeOf("node", row.name, "cells") }, "its cells"), h("a", { href: placeOf("routes", row.name) }, "its routes")));
  if (row.own && ["down", "connecting"].includes(row.state)) asked.before(forgetting(row, side));
  asked.append(h("p", { class: "muted" }, "asking the node…"));
  withChildren(`tree/${encodeURIComponent(row.name)}`).then(
    (found) => asked.replaceChildren(nodeFacts(found)),
    (error) => asked.replaceChildren(h("p", { class: "muted" }, missing(error, "more of that node"))),
  );
  return undefined;
}

// A child that will not come back keeps its routes, and messages wait for it, until it is forgotten.
function forgetting(row, side) {
  const forget = async () => {
    if (!(await sure(`Forget ${row.name}?`, "Its routes go, and what waits for it is routed again. Do this only if it will not come back.", "Forget it"))) return;
    const done = (found) => `${row.name} is forgotten; ${plural(found?.messages_routed_again ?? 0, "message")} routed again.`;
    if (await act(() => ask(`node/forget/${encodeURIComponent(row.name)}`, { method: "POST" }), done)) side.close();
  };
  return h("div", {}, h("button", { type: "button", class: "danger", on: { click: forget } }, "Forget this node…"));
}

// A link as far as is known of it here.
function linkFacts(row, link) {
  const why = whyOf({ ...row, link });
  const state = row.above && !link ? h("span", { class: "muted" }, "A node above this one.") : stateMark(row.state, link?.since_s === undefined || link.since_s === null ? "" : ` for ${duration(link.since_s)}`);
  const known = [
    ["Messages that wait for it", link?.waiting, count],
    ["Bundles in its outbox", link?.outbox, count],
    ["Oldest that waits", link?.spool_oldest_s, age],
    ["Routes learned from it", link?.routes, count],
    ["Messages in", link?.in, short],
    ["Messages out", link?.out, short],
    ["Bytes in", link?.bytes_in, bytes],
    ["Bytes out", link?.bytes_out, bytes],
    ["Last heard of", link?.heard_s, (value) => `${duration(value)} ago`],
    ["Times it lost state", link?.gaps, count],
    ["Refused of it here", link?.refused || null, count],
    ["Refused of ours by it", link?.refused_us || null, count],
  ].filter(([, value]) => value !== undefined && value !== null);
  return h("div", { class: "stack" },
    h("p", {}, state, why && h("span", { class: "muted" }, ` · ${visible(why)}`)),
    known.length ? h("section", {}, h("h3", {}, "Its link"), facts(known.map(([name, value, format]) => [name, format(value)]))) : null,
    refusals("What was refused of it", link?.refusals),
    refusals("What it refused of ours", link?.refusals_of_ours),
    link?.addresses?.length ? facts([["Addresses", link.addresses.join(", ")]]) : null);
}

// By rule, the latest first, with the last thing that each refused.
function refusals(title, listed) {
  if (!listed?.length) return null;
  return h("section", {}, h("h3", {}, title), h("ul", { class: "lines framed" }, listed.map(({ rule, what, times }) =>
    h("li", {}, h("span", {}, visible(rule), what && h("span", { class: "muted" }, ` · the last: ${visible(what)}`)), h("span", { class: "side" }, `${count(times)} ×`)))));
}

function nodeFacts(tree) {
  const children = tree?.children ?? [];
  return h("section", {}, h("h3", {}, "What it says of itself"), facts([
    ["Role", tree?.node?.role ?? tree?.role ?? ""],
    tree?.node?.ready !== undefined && ["Takes messages", tree.node.ready ? "yes" : "no"],
    ["Children", children.length ? `${count(children.length)}, ${count(children.filter((child) => linkState(child) === "running").length)} running` : "none"],
  ]), children.length ? h("ul", { class: "lines framed" }, children.slice(0, 50).map((child) => h("li", {}, shape(linkState(child)), h("span", {}, child.name), h("span", { class: "side" }, linkState(child))))) : "");
}

export default { name: "tree", title: "Tree", key: "t", parts: "status,tree", show };
