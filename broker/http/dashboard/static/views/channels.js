// The channels that go through a node, begin or end there: from whom, to what, since when, how many bytes.

import { h } from "../dom.js";
import { titleAt, whichNode } from "../elsewhere.js";
import { bytes, count, duration, plural, visible } from "../format.js";
import { dim, figure, includes, listing } from "../listing.js";
import { facts, panel } from "../parts.js";

const service = (row) => `${row.name}@${row.to}`;
const size = (name, title) => ({ key: name, title, width: "80px", number: true, sort: (each) => each[name], text: (each) => figure(each[name], bytes), draw: (each) => dim(figure(each[name], bytes)) });

function show(root, { rest: [node = ""], go }) {
  const since = h("div", { class: "head muted", id: "since" });
  return listing(root, {
    title: titleAt("Channels", node),
    path: "channels",
    what: "the channels through it",
    one: "channel",
    placeholder: "Search a node, service or number",
    above: [h("div", { class: "columns" }, since, whichNode(node, (other) => go("channels", other)))],
    query: () => ({ node }),
    list: (answer) => answer?.channels,
    told: (answer) => {
      const offers = answer.offers.length ? answer.offers.map(visible).join(", ") : "nothing";
      since.textContent = `Offers ${offers}. Since its start ${count(answer.opened)} opened, ${count(answer.refused)} refused, ${count(answer.broken)} broken, ${bytes(answer.bytes)}.`;
    },
    found: (row, lower) => includes(lower, row.origin, service(row), row.near, row.far, row.channel),
    keyOf: (row) => row.channel,
    empty: "No channel goes through this node now.",
    open: showChannel,
    columns: [
      { key: "origin", title: "From", width: "minmax(76px, 0.7fr)", narrow: "minmax(0, 0.6fr)", sort: (row) => row.origin, text: (row) => visible(row.origin) },
      { key: "service", title: "To", width: "minmax(150px, 1.4fr)", narrow: "minmax(0, 1fr)", sort: service, text: (row) => visible(service(row)) },
      { key: "near", title: "Came by", width: "minmax(110px, 1.3fr)", sort: (row) => row.near, text: (row) => visible(row.near) },
      { key: "far", title: "Goes by", width: "minmax(84px, 0.8fr)", sort: (row) => row.far, text: (row) => visible(row.far) },
      { key: "state", title: "State", width: "72px", narrow: "60px", sort: (row) => row.state, text: (row) => row.state },
      { key: "for", title: "For", width: "70px", number: true, sort: (row) => row.for_s, text: (row) => duration(row.for_s) },
      size("there", "There"),
      size("back", "Back"),
      size("waiting", "Waiting"),
    ],
  });
}

function showChannel(row) {
  panel(visible(service(row))).body.append(facts([
    ["From", visible(row.origin)],
    ["Came by", visible(row.near)],
    ["Goes by", visible(row.far)],
    ["State", `${row.state}, for ${duration(row.for_s)}`],
    ["There", plural(row.there, "byte")],
    ["Back", plural(row.back, "byte")],
    ["Waiting here", plural(row.waiting, "byte")],
    ["Channel", row.channel],
  ]));
}

export default { name: "channels", title: "Channels", key: "l", show };
