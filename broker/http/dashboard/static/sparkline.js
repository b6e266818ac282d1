// A small line of how a figure went; the newest is at the right.

import { svg } from "./dom.js";

const WIDTH = 120;
const HEIGHT = 30;
const FEWEST = 39;

export function sparkline(label = "") {
  const area = svg("path", { class: "area" });
  const stroke = svg("path", { class: "stroke" });
  const element = svg(
    "svg",
    { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    area,
    stroke,
  );
  return { element, draw: (points) => draw(points, area, stroke) };
}

function draw(points, area, stroke) {
  const highest = Math.max(...points, 1e-9);
  const step = WIDTH / Math.max(points.length - 1, FEWEST);
  const first = WIDTH - (points.length - 1) * step;
  const at = points.map((value, place) => {
    const x = first + place * step;
    const y = HEIGHT - 2 - (value / highest) * (HEIGHT - 5);
    return `${x.toFixed(1)} ${y.toFixed(1)}`;
  });
  const line = at.length > 1 ? `M${at.join("L")}` : "";
  stroke.setAttribute("d", line);
  area.setAttribute("d", line && `${line}L${WIDTH} ${HEIGHT}L${first.toFixed(1)} ${HEIGHT}Z`);
}
