// A view that is one list: asked again and again, searched, sorted, told when it cannot be had.

import { poll } from "./api.js";
import { h } from "./dom.js";
import { count, plural } from "./format.js";
import { head, missing } from "./parts.js";
import { Table } from "./table.js";

const PAGE = 500;
const MOST = 5000;

// `path`, `list(answer)` -> rows, `what` (for errors), `one`/`many`, `columns`, `keyOf`, `found(row, text)`;
// optional: `query()` beside search and limit, `every` seconds, `extras` in the head, `told(answer)`,
// `fallback()` rows for a node without this API, `open`, `keys`, `sortBy`, `descending`, `above` elements.
export function listing(root, options) {
  const { title, path, list, what, one, many = `${one}s`, placeholder, every = 2, extras = [], above = [] } = options;
  let searched = options.initial ?? "";
  let limit = PAGE;
  let rows = [];
  let more = 0;
  let failed = null;
  const top = head(title, { placeholder, initial: searched, searched: (text) => {
    searched = text;
    draw();
    asking.soon();
  } }, extras);
  const table = new Table({ label: title, ...options });
  table.body.addEventListener("scroll", () => {
    const left = table.body.scrollHeight - table.body.scrollTop - table.body.clientHeight;
    if (more && limit < MOST && left < 600) {
      limit = Math.min(limit + PAGE, MOST);
      asking.soon();
    }
  });
  root.append(top.element, ...above, h("div", { class: "fill" }, table.element));

  const draw = () => {
    const instead = failed ? options.fallback?.(failed) : null;
    const lower = searched.toLowerCase();
    const shown = (instead ?? (failed && !rows.length ? [] : rows)).filter((row) => !lower || options.found(row, lower));
    table.setRows(shown, { empty: failed && !instead ? missing(failed, what) : searched ? `No ${one} matches.` : options.empty });
    top.sum.textContent = failed && !instead && !rows.length ? "" : `${plural(shown.length, one, many)}${more ? ` of ${count(shown.length + more)}` : ""}`;
    options.drawn?.(shown);
  };
  const asking = poll(path, () => (rows.length > PAGE ? every * 2 : every), () => ({ query: { search: searched, limit, ...options.query?.() } }),
    (answer) => {
      failed = null;
      rows = list(answer) ?? [];
      more = answer?.more ?? 0;
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
    get searched() {
      return searched;
    },
    soon: asking.soon,
    stop: () => {
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
