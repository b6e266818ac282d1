// How the node's figures went over hours and days: kept by the node itself, also while nobody looked.

import { poll } from "../api.js";
import { chart } from "../chart.js";
import { h, replace } from "../dom.js";
import { plural } from "../format.js";
import { head, missing, segments } from "../parts.js";

const SPANS = [[1, "1 h"], [6, "6 h"], [24, "24 h"], [168, "7 d"]];
const EVERY = 10;

function show(root, { rest, go }) {
  const hours = SPANS.find(([span]) => String(span) === rest[0])?.[0] ?? 1;
  const spans = segments("Hours", (span) => go("charts", String(span)));
  const top = head("Charts", {}, spans.element);
  const body = h("div", { class: "charts" });
  root.append(top.element, body);
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
  return { stop: () => asking.stop() };
}

export default { name: "charts", title: "Charts", key: "h", show };
