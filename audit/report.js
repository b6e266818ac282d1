// The map of the tree, and the table below it: which sites cost most, or were cut off longest. Texts of logs are
// only ever text here, never markup.
"use strict";
const COLUMNS = ["region", "role", "advisories", "bytes", "spilled", "minutes", "times", "since"];
const TITLES = { site: "site", region: "region", role: "role", advisories: "advisories", bytes: "bytes",
  spilled: "spilled", minutes: "minutes cut off", times: "times", since: "still since" };
const NUMBERS = new Set(["advisories", "bytes", "spilled", "minutes", "times"]);
const SHOWN = 25;
const LARGE = 150; // sites of a region from which it has a row of the map to itself
const given = JSON.parse(document.getElementById("sites").textContent);
const sites = given.rows.map((row) => Object.fromEntries(given.columns.map((name, place) => [name, row[place]])));
const at = (id) => document.getElementById(id);
const state = { measure: given.measure, region: null, site: null, sort: given.measure, up: false, find: "", all: false };

function make(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== null) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

const told = (value, name) =>
  value === null ? "" : NUMBERS.has(name) ? value.toLocaleString("en", { maximumFractionDigits: 1 }) : String(value);
const sum = (some) => some.reduce((whole, site) => whole + site[state.measure], 0);
const matches = (site) =>
  !state.find || [site.site, site.region, site.role].some((text) => (text ?? "").toLowerCase().includes(state.find));
const inside = (site) => state.region === null || (site.region ?? "") === state.region;

function compare(one, other) {
  const [a, b] = [one[state.sort], other[state.sort]];
  const order = a === b ? 0 : a === null ? -1 : b === null ? 1 : a < b ? -1 : 1;
  return (state.up ? order : -order) || (one.site < other.site ? -1 : 1);
}

function drawMap() {
  const most = Math.max(...sites.map((site) => site[state.measure]), 0) || 1;
  const regions = new Map();
  for (const site of sites.filter((one) => inside(one) && matches(one))) {
    const key = site.region ?? "";
    regions.set(key, [...(regions.get(key) ?? []), site]);
  }
  const order = [...regions].sort((a, b) => sum(b[1]) - sum(a[1]) || (a[0] < b[0] ? -1 : 1));
  at("map").classList.toggle("one", state.region !== null);
  at("map").replaceChildren(...order.map(([name, some]) => {
    const region = make("div", null, { class: some.length < LARGE ? "region" : "region large" });
    const head = make("button", `${name || "root"} · ${told(sum(some), state.measure)}`, { type: "button" });
    head.addEventListener("click", () => go(name, null));
    const cells = make("div", null, { class: "cells" });
    for (const site of some) {
      const cell = make("i", null, { class: "cell", title: `${site.site}: ${told(site[state.measure], state.measure)}` });
      cell.classList.toggle("silent", !site.log);
      cell.classList.toggle("chosen", site.site === state.site);
      cell.style.setProperty("--heat", `${100 * Math.sqrt(site[state.measure] / most)}%`);
      cell.addEventListener("click", () => go(site.region ?? "", site.site));
      cells.append(cell);
    }
    region.append(head, cells);
    return region;
  }));
  if (!order.length) at("map").textContent = "No site, region or role is called so.";
  at("most").textContent = told(most, state.measure);
}

function drawCrumbs() {
  const step = (text, region) => {
    const button = make("button", text, { type: "button" });
    button.addEventListener("click", () => go(region, null));
    return button;
  };
  const parts = [step("whole tree", null)];
  if (state.region !== null) parts.push(" › ", step(state.region || "root", state.region));
  if (state.site !== null) parts.push(" › ", state.site);
  at("crumbs").replaceChildren(...parts);
}

function drawSite() {
  const site = sites.find((one) => one.site === state.site);
  const parts = site && [
    `${site.role} below ${site.parent ?? "nothing"}`, `${told(site.advisories, "advisories")} advisories`,
    `${told(site.bytes, "bytes")} bytes`, `${told(site.spilled, "spilled")} spilled`,
    `cut off ${told(site.minutes, "minutes")} minutes, ${told(site.times, "times")} times`
      + (site.since ? `, still since ${site.since}` : ""),
    site.log ? `log from ${site.log}` : "no log of it was read",
  ];
  at("site").replaceChildren(...(parts ? [make("b", site.site), make("div", parts.join(" · "))] : []));
}

function drawTable() {
  const rows = sites.filter((one) => inside(one) && matches(one)).sort(compare);
  const columns = ["site", state.measure, ...COLUMNS.filter((name) => name !== state.measure)]; // a telephone shows few
  const head = make("tr", null);
  for (const name of columns) {
    const cell = make("th", null, NUMBERS.has(name) ? { class: "n" } : {});
    if (name === state.sort) cell.setAttribute("aria-sort", state.up ? "ascending" : "descending");
    const button = make("button", TITLES[name], { type: "button" });
    button.addEventListener("click", () => sortBy(name));
    cell.append(button);
    head.append(cell);
  }
  const lines = (state.all ? rows : rows.slice(0, SHOWN)).map((site) => {
    const line = make("tr", null);
    for (const name of columns) {
      line.append(make("td", told(site[name], name), { class: NUMBERS.has(name) ? "n" : name === "since" ? "t" : "" }));
    }
    line.addEventListener("click", () => go(site.region ?? "", site.site));
    return line;
  });
  at("table").replaceChildren(head, ...lines);
  const hidden = rows.length - lines.length;
  at("more").replaceChildren();
  if (hidden > 0) {
    const button = make("button", `show ${hidden.toLocaleString("en")} more`, { type: "button" });
    button.addEventListener("click", () => { state.all = true; drawTable(); });
    at("more").append(button);
  }
}

function draw() { drawCrumbs(); drawMap(); drawSite(); drawTable(); }
function go(region, site) { Object.assign(state, { region, site, all: false }); draw(); }
function sortBy(name) {
  state.up = name === state.sort ? !state.up : !NUMBERS.has(name);
  state.sort = name;
  drawTable();
}

at("measure").value = state.measure;
at("measure").addEventListener("change", (event) => {
  Object.assign(state, { measure: event.target.value, sort: event.target.value, up: false });
  draw();
});
at("find").addEventListener("input", (event) => { state.find = event.target.value.trim().toLowerCase(); draw(); });
draw();
