// A drawing (docs/plots.md) of curves or bars as an SVG file, for papers and slides: on white, with
// title, axes and legend. Texts are foreign: they only become text nodes.

import { COLORS, evens, rounds, words } from "./draw/words.js";

const [WIDTH, HEIGHT] = [720, 400];
const PLOT = { left: 70, right: 20, top: 40, bottom: 50 };
const BAR = 26;
const LEGEND = 20;
const LETTER = 7;
const DASHES = { true: "6 4", dots: "2 3" };

const svg = (name, attributes, text = "") => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
};
const paint = (color) => COLORS[color] ?? color;
const line = (x1, y1, x2, y2, stroke) => svg("line", { x1, y1, x2, y2, stroke: paint(stroke) });

/** @param {import("./draw.js").Drawing} drawing @returns {string} */
export function vector(drawing) {
  const root = svg("svg", { xmlns: "http://www.w3.org/2000/svg", "font-family": "sans-serif", "font-size": 13 });
  const height = (drawing.bars ? bars : curves)(drawing, root);
  root.setAttribute("viewBox", `0 0 ${WIDTH} ${height}`);
  root.setAttribute("width", WIDTH);
  root.setAttribute("height", height);
  root.prepend(
    svg("rect", { width: WIDTH, height, fill: "white" }),
    svg("text", { x: PLOT.left, y: 22, "font-weight": "bold" }, drawing.title),
  );
  return new XMLSerializer().serializeToString(root);
}

/** A function from values to pixels. */
function scale({ ends: [low, high], log }, from, to) {
  const of = log ? Math.log10 : (value) => value;
  return (value) => Number((from + ((of(value) - of(low)) * (to - from)) / (of(high) - of(low))).toFixed(2));
}

function ticks({ ends: [low, high], log }, most) {
  return log ? rounds(low, high, most) : evens(low, high, most);
}

function across({ x: axis }, root, x, top, bottom) {
  for (const tick of ticks(axis, 8)) {
    root.append(
      line(x(tick), top, x(tick), bottom, "grid"),
      svg("text", { x: x(tick), y: bottom + 17, "text-anchor": "middle" }, words(axis, tick, "")),
    );
  }
  root.append(svg("text", { x: (x(axis.ends[0]) + x(axis.ends[1])) / 2, y: bottom + 38, "text-anchor": "middle" }, axis.label));
}

function curves(drawing, root) {
  const [right, bottom] = [WIDTH - PLOT.right, HEIGHT - PLOT.bottom];
  const x = scale(drawing.x, PLOT.left, right);
  const y = scale(drawing.y, bottom, PLOT.top);
  across(drawing, root, x, PLOT.top, bottom);
  for (const tick of ticks(drawing.y, 6)) {
    root.append(
      line(PLOT.left, y(tick), right, y(tick), "grid"),
      svg("text", { x: PLOT.left - 6, y: y(tick) + 4, "text-anchor": "end" }, words(drawing.y, tick, "")),
    );
  }
  const middle = (PLOT.top + bottom) / 2;
  root.append(svg("text", { x: 16, y: middle, "text-anchor": "middle", transform: `rotate(-90 16 ${middle})` }, drawing.y.label));
  const behind = (curve) => Number(curve.shape !== "band");
  for (const curve of [...drawing.curves].sort((a, b) => behind(a) - behind(b))) root.append(drawn(curve, x, y));
  for (const { axis, at, name, color, dash } of drawing.levels ?? []) {
    const [low, high] = drawing[axis].ends;
    if (at < low || at > high) continue;
    const place = axis === "y" ? [PLOT.left, y(at), right, y(at)] : [x(at), PLOT.top, x(at), bottom];
    const mark = line(...place, color);
    if (dash) mark.setAttribute("stroke-dasharray", "5 3");
    const text = axis === "y"
      ? { x: right - 3, y: y(at) - 4, "text-anchor": "end" }
      : { x: x(at) + 4, y: PLOT.top + 12 };
    root.append(mark, svg("text", { ...text, fill: paint(color) }, name));
  }
  return legend(drawing.curves, root);
}

function drawn(curve, x, y) {
  const color = paint(curve.color);
  const point = (n, values = curve.y) => `${x(curve.x[n])} ${y(values[n])}`;
  const all = curve.x.map((_, n) => n);
  if (curve.shape === "band") {
    const there = all.map((n) => point(n, curve.high));
    const back = all.reverse().map((n) => point(n, curve.low));
    return svg("path", { d: `M${[...there, ...back].join("L")}Z`, fill: color, "fill-opacity": 0.22 });
  }
  let d = "";
  let open = false;
  for (const n of all) {
    if (curve.y[n] == null) {
      open = false;
      continue;
    }
    if (open && curve.shape === "before") d += `V${y(curve.y[n])}`;
    d += `${open ? "L" : "M"}${point(n)}`;
    open = true;
  }
  const path = svg("path", { d, fill: "none", stroke: color, "stroke-width": 1.4 });
  if (curve.dash) path.setAttribute("stroke-dasharray", DASHES[curve.dash]);
  return path;
}

/** The legend below the axes; returns the height of the whole. */
function legend(list, root) {
  let [x, y] = [PLOT.left, HEIGHT + 10];
  for (const { label, color, dash, shape } of list) {
    const width = 34 + LETTER * label.length + 14;
    if (x + width > WIDTH && x > PLOT.left) [x, y] = [PLOT.left, y + LEGEND];
    const swatch = line(x, y - 4, x + 26, y - 4, color);
    swatch.setAttribute("stroke-width", shape === "band" ? 10 : 2.5);
    if (shape === "band") swatch.setAttribute("stroke-opacity", 0.22);
    if (dash) swatch.setAttribute("stroke-dasharray", DASHES[dash]);
    root.append(swatch, svg("text", { x: x + 34, y }, label));
    x += width;
  }
  return y + 14;
}

function bars(drawing, root) {
  const left = 40 + LETTER * Math.max(...drawing.bars.map(({ name }) => name.length));
  const bottom = PLOT.top + BAR * drawing.bars.length;
  const x = scale(drawing.x, left, WIDTH - 70);
  across(drawing, root, x, PLOT.top, bottom);
  drawing.bars.forEach(({ name, parts, text }, number) => {
    const y = PLOT.top + BAR * number;
    root.append(svg("text", { x: left - 8, y: y + 17, "text-anchor": "end" }, name));
    for (const { begin, end, color } of parts) {
      root.append(svg("rect", { x: x(begin), width: x(end) - x(begin), y: y + 4, height: BAR - 8, fill: paint(color) }));
    }
    root.append(svg("text", { x: WIDTH - 64, y: y + 17 }, text));
  });
  return bottom + PLOT.bottom;
}
