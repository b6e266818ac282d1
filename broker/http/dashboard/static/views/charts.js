// How the node's figures went over hours and days: kept by the node itself, also while nobody looked.

import { poll } from "../api.js";
import { chart } from "../chart.js";
import { drawer, h, replace } from "../dom.js";
import { count, date, plural, visible } from "../format.js";
import { shape } from "../icons.js";
import { head, missing, segments } from "../parts.js";

const SPANS = [[1, "1 h"], [6, "6 h"], [24, "24 h"], [168, "7 d"]];
const EVERY = 10;

function show(root, { rest, go }) {
  const hours = SPANS.find(([span]) => String(span) === rest[0])?.[0] ?? 1;
  const spans = segments("Hours", (span) => go("charts", String(span)));
  const top = head("Charts", {}, spans.element);
  const alarms = h("details", { class: "card alarms", hidden: true });
  const body = h("div", { class: "charts", tabindex: 0, role: "group", "aria-label": "Charts" });
  root.append(top.element, alarms, body);
  const drawAlarms = drawer(alarms);
  const watching = poll("alarms", () => EVERY, () => ({}), (found) => {
    alarms.hidden = !found.alarms.length;
    drawAlarms(found, () => alarmParts(found));
  }, () => {});
  spans.draw(SPANS, hours);
  const asking = poll("history", () => EVERY, () => ({ query: { hours } }),
    (found) => {
      const at = body.scrollTop;
      replace(body, found.at.length ? found.series.filter((series) => series.values.some((value) => value !== null)).map((series) => chart(found, series))
        : h("p", { class: "muted" }, "There is no sample of that time yet. The first comes some seconds after the node has started."));
      body.scrollTop = at;
      top.sum.textContent = found.at.length ? `${plural(found.at.length, "sample")}, one each ${found.step_s} s` : "";
    },
    (error) => {
      if (!body.querySelector("figure")) replace(body, h("p", { class: "muted" }, missing(error, "how its figures went")));
    });
  return {
    stop: () => {
      asking.stop();
      watching.stop();
    },
  };
}

const SHAPES = { raised: "down", pending: "connecting", well: "running" };

// All alarms of the node, those that are raised first; and how the receiver of alarms is.
function alarmParts({ alarms, webhook }) {
  const raised = alarms.filter((alarm) => alarm.state === "raised").length;
  return [
    h("summary", {}, shape(raised ? "down" : "running"), `${plural(alarms.length, "alarm")}, ${raised || "none"} raised`, h("span", { class: "grow" }), h("span", { class: "muted" }, webhookText(webhook))),
    h("ul", { class: "lines" }, alarms.map((alarm) => h("li", {}, shape(SHAPES[alarm.state]),
      h("div", {}, h("b", {}, visible(alarm.name)), h("div", { class: "why" }, visible(`${alarm.condition} · ${alarm.severity}${alarm.now ? ` · now ${alarm.now}` : ""}`))),
      h("span", { class: "side" }, alarm.since ? `since ${date(alarm.since)}` : alarm.state)))),
  ];
}

function webhookText(webhook) {
  if (!webhook) return "no webhook is told";
  const told = `${visible(webhook.host)}: ${count(webhook.sent)} told`;
  return webhook.waiting ? `${told}, ${count(webhook.waiting)} wait${webhook.error ? `: ${visible(webhook.error)}` : ""}` : told;
}

export default { name: "charts", title: "Charts", key: "h", show };
