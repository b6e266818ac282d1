// The lines between the cards of a picture, and the way of the arrow keys over them.

import { replace, svg } from "./dom.js";

const TRUNK = 6;
const ABOVE = 9;
const IN = 18;

const around = (card) => ({ left: card.offsetLeft, top: card.offsetTop, right: card.offsetLeft + card.offsetWidth, bottom: card.offsetTop + card.offsetHeight });

// Draws them anew: from card to card along the way, and from its last one by a trunk to each of the cards.
export function lines(wires, picture, way, cards) {
  const [steps, leaves] = [[...way.children].map(around), [...cards.children]];
  const paths = steps.slice(1).map((to, place) => step(steps[place], to));
  const here = steps.at(-1);
  const drawn = { running: paths.join("") };
  for (const card of here ? leaves : []) {
    const { left, top } = around(card);
    const state = card.dataset.state;
    const line = `M${here.left + IN} ${here.bottom}V${here.bottom + ABOVE}H${TRUNK}V${top - ABOVE}H${left + IN}V${top}`;
    const end = `M${left + IN} ${top - ABOVE}V${top}`;
    drawn.running += line;
    if (!["running", "live"].includes(state)) drawn[state] = (drawn[state] ?? "") + end;
  }
  wires.style.height = `${cards.offsetTop + cards.offsetHeight}px`;
  replace(wires, Object.entries(drawn).map(([state, d]) => svg("path", { class: `state-${state}`, d })));
}

function step(from, to) {
  if (from.top === to.top) return `M${from.right} ${from.top + IN}H${to.left}`;
  return `M${from.left + IN} ${from.bottom}V${to.top - ABOVE}H${to.left + IN}V${to.top}`;
}

// Moves the focus over the cards as the arrows say; returns whether the key was one of these.
export function arrows(picture, { key }) {
  const cards = [...picture.querySelectorAll("[data-node]")];
  const now = cards.indexOf(document.activeElement);
  const places = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: cards.length - 1 };
  const rows = { ArrowDown: 1, ArrowUp: -1 };
  if (!(key in places) && !(key in rows)) return false;
  const first = cards.findIndex((card) => "here" in card.dataset);
  const next = now < 0 ? cards[Math.max(first, 0)] : key in rows ? nextRow(cards, cards[now], rows[key]) : cards[places[key]];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
  return true;
}

// The card of the next row that is nearest at the side.
function nextRow(cards, from, way) {
  const at = around(from);
  const beyond = cards.filter((card) => (way > 0 ? around(card).top >= at.bottom : around(card).bottom <= at.top));
  const tops = beyond.map((card) => around(card).top);
  const row = way > 0 ? Math.min(...tops) : Math.max(...tops);
  const aside = (card) => Math.abs(around(card).left - at.left);
  return beyond.filter((card) => around(card).top === row).sort((one, other) => aside(one) - aside(other))[0];
}
