// A view that is one list: asked again and again, searched, sorted, told when it cannot be had.

import { ask, poll } from "./api.js";
import { h } from "./dom.js";
import { count, plural } from "./format.js";
import { head, missing } from "./parts.js";
import { Table } from "./table.js";

const PAGE = 500;
const MOST = 20_000;

// `path`, `list(answer)` -> rows, `what` (for errors), `one`/`many`, `columns`, `keyOf`, `found(row, text)`;
// optional: `searches`: the node itself looks for the searched text, `query()` beside that and the limit, `every` seconds, `extras` in the head, `told(answer)`,
// `fallback(error)` rows for a node without this API, `drawn(rows)`, `kept(row)`, `above` elements, and what a
// `Table` takes. The first page is asked again and again; further ones once, when somebody scrolls there.
export function listing(root, options) {
  const { title, path, list, what, one, many = `${one}s`, placeholder, every = 2, extras = [], above = [] } = options;
  let searched = "";
  let first = [];
  let further = [];
  let cursor = null;
  let more = 0;
  let failed = null;
  let loading = null;
  const query = () => ({ ...(options.searches ? { search: searched } : {}), limit: PAGE, ...options.query?.() });
  const top = head(title, { placeholder, searched: (text) => {
    searched = text;
    renew();
  } }, extras);
  const table = new Table({ label: title, ...options, sorted: () => options.sortsAtNode && renew() });
  table.body.addEventListener("scroll", () => {
    const left = table.body.scrollHeight - table.body.scrollTop - table.body.clientHeight;
    if (cursor && !loading && left < 900 && first.length + further.length < MOST) void loadMore();
  });
  root.append(top.element, ...above, h("div", { class: "fill" }, table.element));

  // Another search, filter or order: what was scrolled to is forgotten.
  const renew = () => {
    loading?.abort();
    loading = null;
    further = [];
    draw();
    asking.soon();
  };
  const loadMore = async () => {
    const mine = (loading = new AbortController());
    try {
      const answer = await ask(path, { query: { ...query(), after: cursor }, signal: mine.signal });
      further.push(...(list(answer) ?? []));
      took(answer);
    } catch {
      cursor = null;
    }
    if (loading === mine) loading = null;
    draw();
  };
  const took = (answer) => {
    cursor = answer?.next ?? null;
    more = Number(answer?.more ?? 0);
  };
  const rows = () => {
    if (!further.length) return first;
    const keys = new Set(first.map(options.keyOf));
    return [...first, ...further.filter((row) => !keys.has(options.keyOf(row)))];
  };
  const draw = () => {
    const instead = failed ? options.fallback?.(failed) : null;
    const lower = searched.toLowerCase();
    const shown = (instead ?? rows()).filter((row) => (!lower || options.found(row, lower)) && (!options.kept || options.kept(row)));
    const silent = failed && !instead && !first.length;
    table.setRows(shown, { empty: silent ? missing(failed, what) : searched ? `No ${one} matches.` : options.empty });
    top.sum.textContent = silent ? "" : `${plural(shown.length, one, many)}${more ? ` of ${count(shown.length + more)}` : ""}`;
    options.drawn?.(shown);
  };
  const asking = poll(path, () => every, () => ({ query: query() }),
    (answer) => {
      failed = null;
      first = list(answer) ?? [];
      if (!further.length) took(answer);
      options.told?.(answer);
      draw();
    },
    (error) => {
      failed = error;
      draw();
    });
  return {
    table,
    draw,
    renew,
    soon: asking.soon,
    get searched() {
      return searched;
    },
    stop: () => {
      loading?.abort();
      asking.stop();
      table.stop();
    },
  };
}

// What several views' columns do.
export function dim(text) {
  return text === "0" ? h("span", { class: "zero" }, "0") : text;
}

export function figure(value, format) {
  return value === undefined || value === null ? "" : format(value);
}

export const includes = (lower, ...texts) => texts.some((text) => String(text ?? "").toLowerCase().includes(lower));
