// Dead letters: why they died, and the two things that can be done: back to where they were going, or away.

import { ask } from "../api.js";
import { h } from "../dom.js";
import { age, bytes, count, plural, short, visible } from "../format.js";
import { includes, listing } from "../listing.js";
import { act, facts, panel, segments, sure } from "../parts.js";
import { head, headsOf } from "../state.js";
import { shortId } from "../queue_messages.js";

function show(root, { live }) {
  let reason = "";
  let told = null;
  let shown = [];
  const chosen = new Set();
  const reasons = segments("Reason", (value) => {
    reason = value;
    chosen.clear();
    made.renew();
  });
  const giveBack = h("button", { type: "button", on: { click: () => returnThem() } }, "Return");
  const away = h("button", { type: "button", class: "danger", on: { click: () => deleteThem() } }, "Delete…");

  // What the two buttons are about: the chosen letters, else those that a search shows, else all that the node has.
  const aim = () => {
    if (chosen.size) return { body: { ids: [...chosen] }, text: plural(chosen.size, "chosen letter"), first: false };
    if (made.searched) return { body: { ids: shown.map((row) => row.id) }, text: `the ${plural(shown.length, "letter")} that the search shows`, first: true };
    return { body: reason ? { reason } : { all: true }, text: reason ? `all letters with the reason ${reason}` : "all dead letters", first: true };
  };
  const done = () => {
    chosen.clear();
    made.soon();
  };
  const returnThem = async ({ body, text, first } = aim()) => {
    if (first && !(await sure("Return them?", `This puts ${text} back on the way to where they were going.`, "Return them"))) return;
    if (await act(() => ask("dead/return", { method: "POST", body }), (found) => `${plural(found?.returned ?? body.ids?.length ?? 0, "letter")} returned.${found?.kept ? ` ${count(found.kept)} could not be, and stay here${found.why ? `: ${found.why}` : "."}` : ""}`)) done();
  };
  const deleteThem = async ({ body, text } = aim()) => {
    if (!(await sure("Delete them?", `This deletes ${text} for good.`, "Delete"))) return;
    if (await act(() => ask("dead", { method: "DELETE", body }), (found) => `${plural(found?.messages ?? found?.deleted ?? body.ids?.length ?? 0, "letter")} deleted.`)) done();
  };
  const mark = (row, yes) => {
    if (yes) chosen.add(row.id);
    else chosen.delete(row.id);
    made.draw();
  };
  const made = listing(root, {
    title: "Dead letters",
    path: "dead",
    what: "its dead letters",
    one: "letter",
    placeholder: "Search a destination, origin or text",
    extras: [giveBack, away],
    above: [h("div", { class: "head" }, reasons.element)],
    query: () => ({ reason }),
    kept: (row) => !reason || headOf(row) === reason,
    list: (answer) => answer?.letters,
    told: (answer) => (told = answer),
    found: (row, lower) => includes(lower, row.destination, row.origin, row.reason, row.preview, row.id),
    keyOf: (row) => row.id,
    open: (row) => showLetter(row, returnThem, deleteThem),
    keys: (event, row) => {
      if (event.key !== " ") return false;
      mark(row, !chosen.has(row.id));
      return true;
    },
    empty: "No dead letters. Whatever could not be delivered would be here, with its reason.",
    columns: [
      { key: "chosen", title: "", label: "Chosen", width: "20px", narrow: "20px", text: (row) => String(chosen.has(row.id)), draw: (row) => h("input", { type: "checkbox", tabindex: -1, "aria-label": "Choose this letter", checked: chosen.has(row.id), on: { change: (event) => mark(row, event.target.checked) } }) },
      { key: "reason", title: "Reason", width: "minmax(150px, 0.9fr)", narrow: "minmax(0, 1fr)", sort: (row) => row.reason, text: (row) => row.reason ?? "" },
      { key: "destination", title: "Destination", width: "minmax(180px, 1.4fr)", narrow: "minmax(0, 1fr)", sort: (row) => row.destination, text: (row) => visible(row.destination) },
      { key: "origin", title: "From", width: "minmax(90px, 0.6fr)", yields: 2, sort: (row) => row.origin, text: (row) => visible(row.origin ?? "") },
      { key: "age", title: "Dead for", width: "76px", narrow: "66px", number: true, sort: (row) => row.age_s, text: (row) => age(row.age_s) },
      { key: "size", title: "Size", width: "76px", yields: 1, number: true, sort: (row) => row.size, text: (row) => bytes(row.size) },
      { key: "preview", title: "Begins with", width: "minmax(180px, 1.8fr)", text: (row) => visible(String(row.preview ?? "").slice(0, 200)), draw: (row) => h("span", { class: "mono" }, visible(String(row.preview ?? "").slice(0, 200))) },
    ],
    drawn: (rows) => {
      shown = rows;
      const present = new Set(rows.map((row) => row.id));
      for (const id of chosen) if (!present.has(id)) chosen.delete(id);
      const known = [...headsOf(live.status?.dead?.reasons, told?.reasons)];
      reasons.draw([["", "All reasons"], ...known.map(([name, number]) => [name, name || "no reason", number ? short(number) : undefined])], reason);
      const none = !rows.length;
      giveBack.disabled = away.disabled = none;
      giveBack.classList.toggle("primary", chosen.size > 0);
      const some = made.searched ? count(rows.length) : "all";
      giveBack.textContent = chosen.size ? `Return ${count(chosen.size)}` : `Return ${some}…`;
      away.textContent = chosen.size ? `Delete ${count(chosen.size)}…` : `Delete ${some}…`;
    },
  });
  return made;
}

const headOf = (row) => head(row.reason);

function showLetter(row, returnThem, deleteThem) {
  const side = panel("Dead letter");
  const aimed = { body: { ids: [row.id] }, text: "this letter", first: false };
  const close = (made) => made.then(() => side.close());
  side.body.append(
    facts([
      ["Message", h("a", { class: "mono", href: `#/trace/message/${encodeURIComponent(row.message ?? row.id)}`, title: row.message ?? row.id }, shortId(row.message ?? row.id))],
      ["Destination", visible(row.destination)],
      ["Reason", visible(row.reason ?? "–")],
      ["From", visible(row.origin ?? "–")],
      ["Dead for", age(row.age_s)],
      ["Size", bytes(row.size)],
      row.correlation_id !== undefined && row.correlation_id !== null && ["Correlation id", String(row.correlation_id)],
      row.reply_to && ["Reply to", visible(row.reply_to)],
      row.task_id && ["Task", h("a", { href: `#/trace/task/${encodeURIComponent(row.task_id)}` }, visible(row.task_id))],
    ]),
    row.preview === undefined ? "" : h("section", {}, h("h3", {}, "Begins with", row.encoding === "base64" && h("span", { class: "tag" }, "base64")), row.unreadable ? h("p", { class: "muted" }, visible(row.unreadable)) : h("pre", { class: "payload" }, `${visible(row.preview)}${row.truncated ? "…" : ""}`)),
    h("div", { class: "head" },
      h("button", { type: "button", class: "primary", on: { click: () => close(returnThem(aimed)) } }, "Return"),
      h("button", { type: "button", class: "danger", on: { click: () => close(deleteThem(aimed)) } }, "Delete…")),
  );
}

export default { name: "dead", title: "Dead letters", key: "d", show };
