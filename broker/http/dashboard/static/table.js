// A table of any length: only the rows that can be seen are in the document.
//
// Law: a row is kept as long as its key is on screen, and a cell is drawn again only when what it shows has
// changed; so a live table neither flickers nor loses the place that the reader looks at.
//
// A column: {key, title, label, width, narrow, yields, number, sort(row), text(row), draw(row), hint(row), detail}. `label`: its name where it has no title.
// `narrow`: its width in a narrow window, where those without one are left out, and names have two lines. Where there is room for more, of these the one of
// the lowest `yields` is left out first, and those that say none from the right. `text` says what the cell shows; `draw` makes an element instead, and is asked again only when `text` differs.

import { h, replace, setAttribute, setText } from "./dom.js";

const ROW = 30;
const EXTRA = 8;
const BETWEEN = 14;
const AROUND = 24;
let tables = 0;

export class Table {
  // `keyOf(row)`: what makes a row the same row. `open(row)`: Enter or a click. `keys(event, row)`: other keys;
  // returns true if it has dealt with the key. `tree`: rows have `level`, `expandable` and `expanded`.
  constructor({ label, columns, keyOf, open, keys, sortBy, descending = false, empty = "Nothing here.", tree = false, sorted }) {
    Object.assign(this, { columns, keyOf, open, keys, sortBy, descending, empty, tree, sorted });
    this.id = `table${(tables += 1)}`;
    this.rows = [];
    this.shown = new Map();
    this.active = null;
    this.build(label);
  }

  build(label) {
    this.titles = h("div", { class: "columns-head", role: "row", id: `${this.id}-head` }, this.columns.map((column) => this.title(column)));
    this.space = h("div", { class: "space", role: "rowgroup", id: `${this.id}-rows` });
    this.emptyText = h("div", { class: "empty", hidden: true });
    this.body = h(
      "div",
      { class: "rows", tabindex: 0, role: this.tree ? "treegrid" : "grid", "aria-label": label, "aria-owns": `${this.id}-head ${this.id}-rows`, on: {
        scroll: () => this.scrolled(),
        keydown: (event) => this.key(event),
        click: (event) => this.click(event),
      } },
      this.space,
      this.emptyText,
    );
    this.foot = h("div", { class: "foot", hidden: true });
    this.element = h("div", { class: `table${this.open ? " openable" : ""}` }, this.titles, this.body, this.foot);
    this.element.style.setProperty("--narrow-columns", this.columns.map((column) => column.narrow).filter(Boolean).join(" "));
    this.observer = new ResizeObserver(() => {
      this.fit();
      this.draw();
    });
    this.observer.observe(this.body);
    this.fit();
    this.markSort();
    this.setRows([]);
  }

  // Nothing scrolls sideways: leave out columns until the others have their least width.
  fit() {
    const room = this.body.clientWidth;
    const out = new Set();
    const left = () => this.columns.filter((column) => !out.has(column));
    const yields = this.columns.filter((column) => !column.narrow).reverse();
    yields.sort((one, other) => (one.yields ?? yields.length) - (other.yields ?? yields.length));
    for (const column of yields) {
      const together = column.yields !== undefined && [...out].at(-1)?.yields === column.yields;
      if (room && (together || leastOf(left()) > room)) out.add(column);
    }
    this.out = out;
    this.element.style.setProperty("--columns", left().map(widthOf).join(" "));
    this.hide(this.titles.children);
    for (const item of this.shown.values()) this.hide(item.cells);
  }

  hide(cells) {
    this.columns.forEach((column, number) => {
      cells[number].hidden = this.out.has(column);
    });
  }

  title(column) {
    const name = h("span", { class: "cell-title" }, column.title);
    const inside = column.sort
      ? h("button", { type: "button", on: { click: () => this.sort(column.key) }, title: `Sort by ${column.title.toLowerCase()}` }, name, h("span", { class: "arrow" }))
      : name;
    return h("div", { class: classOf(column), role: "columnheader", "aria-label": column.title ? null : column.label, dataset: { key: column.key } }, inside);
  }

  stop() {
    this.observer.disconnect();
  }

  // --- order

  sort(key) {
    const column = this.columns.find((found) => found.key === key);
    this.descending = this.sortBy === key ? !this.descending : Boolean(column.number);
    this.sortBy = key;
    this.markSort();
    this.setRows(this.given ?? []);
    this.sorted?.();
  }

  markSort() {
    for (const title of this.titles.children) {
      const chosen = title.dataset.key === this.sortBy;
      setAttribute(title, "aria-sort", chosen ? (this.descending ? "descending" : "ascending") : null);
      const arrow = title.querySelector(".arrow");
      if (arrow) setText(arrow, chosen ? (this.descending ? "▼" : "▲") : "");
    }
  }

  ordered(rows) {
    const column = this.columns.find((found) => found.key === this.sortBy);
    if (!column?.sort) return rows;
    const sign = this.descending ? -1 : 1;
    return rows
      .map((row) => [column.sort(row), row])
      .sort(([a, one], [b, other]) => sign * compare(a, b) || compare(this.keyOf(one), this.keyOf(other)))
      .map(([, row]) => row);
  }

  // --- rows

  setRows(rows, { empty } = {}) {
    this.given = rows;
    this.rows = this.ordered(rows);
    this.places = null;
    if (empty !== undefined) this.empty = empty;
    this.space.style.height = `${this.rows.length * ROW}px`;
    this.emptyText.hidden = this.rows.length > 0;
    if (!this.rows.length) replace(this.emptyText, this.empty);
    setAttribute(this.body, "aria-rowcount", this.rows.length);
    this.draw();
  }

  setFoot(...children) {
    this.foot.hidden = !children.some(Boolean);
    replace(this.foot, children);
  }

  scrolled() {
    this.titles.scrollLeft = this.body.scrollLeft;
    if (!this.waiting) {
      this.waiting = requestAnimationFrame(() => {
        this.waiting = 0;
        this.draw();
      });
    }
  }

  draw() {
    const first = Math.max(0, Math.floor(this.body.scrollTop / ROW) - EXTRA);
    const last = Math.min(this.rows.length, Math.ceil((this.body.scrollTop + this.body.clientHeight) / ROW) + EXTRA);
    const gone = new Map(this.shown);
    this.shown = new Map();
    for (let place = first; place < last; place += 1) {
      const row = this.rows[place];
      const key = this.keyOf(row);
      const item = gone.get(key) ?? this.makeRow();
      gone.delete(key);
      this.shown.set(key, item);
      this.fill(item, row, key, place);
    }
    for (const item of gone.values()) item.element.remove();
    const active = this.shown.get(this.active);
    setAttribute(this.body, "aria-activedescendant", active?.element.id);
  }

  makeRow() {
    const cells = this.columns.map((column) => h("div", { class: classOf(column), role: "gridcell" }));
    this.hide(cells);
    const element = h("div", { class: "row", role: "row" }, cells);
    this.space.append(element);
    return { element, cells, texts: [], place: -1 };
  }

  fill(item, row, key, place) {
    const { element } = item;
    if (item.place !== place) {
      item.place = place;
      element.style.transform = `translateY(${place * ROW}px)`;
      element.id = `${this.id}-${place}`;
      setAttribute(element, "aria-rowindex", place + 1);
    }
    element.dataset.key = key;
    element.classList.toggle("active", key === this.active);
    setAttribute(element, "aria-selected", key === this.active ? "true" : null);
    if (this.tree) {
      setAttribute(element, "aria-level", row.level + 1);
      setAttribute(element, "aria-expanded", row.expandable ? String(Boolean(row.expanded)) : null);
    }
    this.columns.forEach((column, number) => this.fillCell(item, column, number, row));
  }

  fillCell(item, column, number, row) {
    if (column.live) return void column.live(item.cells[number], row);
    const text = column.text(row);
    if (item.texts[number] === text) return;
    item.texts[number] = text;
    const cell = item.cells[number];
    if (column.draw) replace(cell, column.draw(row));
    else setText(cell, text);
    setAttribute(cell, "title", column.hint ? column.hint(row) : column.draw ? null : text.length > 24 ? text : null);
  }

  // --- choosing

  get activeRow() {
    return this.rows[this.placeOf(this.active)];
  }

  placeOf(key) {
    if (key === null) return -1;
    this.places ??= new Map(this.rows.map((row, place) => [this.keyOf(row), place]));
    return this.places.get(key) ?? -1;
  }

  choose(place) {
    if (!this.rows.length) return;
    const wanted = Math.min(Math.max(place, 0), this.rows.length - 1);
    this.active = this.keyOf(this.rows[wanted]);
    const top = wanted * ROW;
    if (top < this.body.scrollTop) this.body.scrollTop = top;
    else if (top + ROW > this.body.scrollTop + this.body.clientHeight) this.body.scrollTop = top + ROW - this.body.clientHeight;
    this.draw();
  }

  click(event) {
    const element = event.target.closest(".row");
    if (!element || event.target.closest("button, a, input")) return;
    if (String(getSelection()).length) return;
    const item = [...this.shown.entries()].find(([, found]) => found.element === element);
    if (!item) return;
    this.active = item[0];
    this.draw();
    this.open?.(this.activeRow);
  }

  key(event) {
    if (event.target !== this.body || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.body.clientHeight / ROW) - 1);
    const place = this.placeOf(this.active);
    const moves = { ArrowDown: place + 1, ArrowUp: place < 0 ? 0 : place - 1, PageDown: place + page, PageUp: place - page, Home: 0, End: this.rows.length - 1 };
    if (event.key in moves) this.choose(moves[event.key]);
    else if (event.key === "Enter" && this.activeRow) this.open?.(this.activeRow);
    else if (!(this.activeRow && this.keys?.(event, this.activeRow))) return;
    event.preventDefault();
  }
}

function classOf({ number, narrow }) {
  return `cell${number ? " number" : ""}${narrow ? "" : " minor"}${narrow?.startsWith("minmax") ? " name" : ""}`;
}

function widthOf(column) {
  return column.width ?? "minmax(80px, 1fr)";
}

// The pixels that columns need, with the gaps between them and what is around.
function leastOf(columns) {
  const widths = columns.map((column) => Number(/\d+/.exec(widthOf(column))[0]));
  return widths.reduce((sum, width) => sum + width, AROUND + BETWEEN * (columns.length - 1));
}

function compare(one, other) {
  if (typeof one === "number" || typeof other === "number") {
    const a = Number.isFinite(one) ? one : -Infinity;
    const b = Number.isFinite(other) ? other : -Infinity;
    return a - b;
  }
  const a = String(one ?? "");
  const b = String(other ?? "");
  return a < b ? -1 : a > b ? 1 : 0;
}
