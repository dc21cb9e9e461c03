// Interactive plots that zoom and show values, of the curves beside each static plot (live.py).
// The button below a static plot shows the interactive one in its place, and the next time the
// static one again.
"use strict";
const HEIGHT = 360;
const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
for (const data of document.querySelectorAll("script.curves")) {
  const figure = data.closest("figure");
  const drawn = figure.querySelector("svg");
  const button = document.createElement("button");
  let box = null;
  const name = () => {
    button.textContent = box && !box.hidden ? "Show the static plot" : "Zoom and read values";
  };
  button.type = "button";
  button.className = "live";
  button.addEventListener("click", () => {
    if (box === null) {
      box = document.createElement("div");
      figure.insertBefore(box, drawn.nextSibling);
      const made = plot(JSON.parse(data.textContent), box, room(figure));
      const hint = document.createElement("p");
      hint.className = "live";
      hint.textContent =
        "Drag to zoom, double-click to see all again, click a name below the curves to hide it.";
      box.append(hint);
      new ResizeObserver(() => made.setSize({ width: room(figure), height: HEIGHT })).observe(figure);
      box.hidden = true;
    }
    box.hidden = !box.hidden;
    drawn.style.display = box.hidden ? "" : "none";
    name();
  });
  name();
  figure.append(button);
}

function room(figure) {
  return Math.max(280, figure.clientWidth - 30);
}

// A value with its unit, as people read it.
function words(axis, value) {
  if (value == null) { return "–"; }
  const [scale, unit] = axis.mixed && Math.abs(value) >= 1000 ? [1000, "s"] : [1, axis.unit];
  return `${Number((value / scale).toPrecision(5))} ${unit}`.trim();
}

function plot(curves, box, width) {
  const style = getComputedStyle(document.documentElement);
  const paint = (color) => (color.startsWith("--") ? style.getPropertyValue(color).trim() : color);
  const ink = paint("--ink");
  const grid = { stroke: paint("--grid"), width: 1 };
  const first = {};
  const series = curves.series.map((one) => {
    // The seeds of a curve go with it.
    if (one.label) { first.label = one.label; }
    return {
      label: one.label || `${first.label}, a seed`,
      class: one.label ? null : "seed",
      stroke: paint(one.color) + (one.label ? "" : "59"),
      width: one.width,
      dash: one.dash ? [6, 4] : null,
      points: { show: false },
      step: one.step,
      paths: one.step ? uPlot.paths.stepped({ align: one.step }) : uPlot.paths.linear(),
      value: (_, value) => words(curves.y, value),
    };
  });
  const marks = curves.marks.map((mark) => ({
    ...mark,
    color: paint(mark.color),
    lines: mark.name.split("\n"),
  }));
  const whole = (self) => {
    for (const key of ["x", "y"]) { self.setScale(key, { min: curves[key].ends[0], max: curves[key].ends[1] }); }
  };
  return new uPlot(
    {
      title: curves.title,
      width,
      height: HEIGHT,
      padding: [null, margin(marks), null, null],
      scales: { x: { time: false, ...scale(curves.x) }, y: scale(curves.y) },
      axes: [axis(curves.x), axis(curves.y)].map((one) => ({ ...one, stroke: ink, grid, ticks: grid })),
      series: [{ label: curves.x.name, value: (_, value) => words(curves.x, value) }, ...series],
      hooks: { setSeries: [together], draw: [(self) => draw(self, marks)] },
      cursor: {
        drag: { x: true, y: true, uni: 40 },
        dataIdx: nearest,
        bind: { dblclick: (self) => () => { whole(self); return null; } },
      },
    },
    // Curves have points of their own; uPlot wants one column of x. What a curve does not have
    // there is undefined, and null is where it breaks.
    uPlot.join(curves.series.map((one) => [one.x, one.y])),
    box,
  );
}

// The static plot's ends until somebody zooms, because they were chosen with care: from zero, for
// example. Hiding a curve keeps the zoom: uPlot then asks for a range without naming one.
function scale({ ends, log }) {
  const [min, max] = ends;
  const range = (self, low, high, key) => {
    const now = self.scales[key];
    return Number.isFinite(low) && Number.isFinite(high) ? [low, high] : [now.min, now.max];
  };
  return { distr: log ? 3 : 1, auto: false, min, max, range };
}

function axis(one) {
  const values = (_, splits) => splits.map((value) => words({ ...one, unit: one.mixed ? one.unit : "" }, value));
  const plain = one.mixed ? { label: one.label, values } : { label: one.label };
  if (!one.log) { return plain; }
  return { label: one.label, values, splits: (_, __, low, high) => rounds(low, high), filter: (_, splits) => splits };
}

// Round values between two ends of a logarithmic axis: 1, 2, 5, 10, ...; even steps if few of these fit.
function rounds(low, high) {
  const digits = high / low > 1e4 ? [1] : [1, 2, 5];
  const found = [];
  for (let ten = 10 ** Math.floor(Math.log10(low)); ten <= high; ten *= 10) {
    found.push(...digits.map((digit) => digit * ten).filter((value) => low <= value && value <= high));
  }
  if (found.length > 2) { return found; }
  const rough = (high - low) / 4;
  const ten = 10 ** Math.floor(Math.log10(rough));
  const step = ten * [1, 2, 5, 10].find((digit) => digit * ten >= rough);
  const even = [];
  for (let n = Math.ceil(low / step); n * step <= high; n += 1) { even.push(n * step); }
  return even;
}

// The point of a curve that holds at the cursor: of steps the one that begins or ends there.
function nearest(self, number, near, at) {
  if (number === 0) { return near; }
  const [places, values] = [self.data[0], self.data[number]];
  let before = near;
  while (before >= 0 && (values[before] === undefined || places[before] > at)) { before -= 1; }
  let after = near;
  while (after < places.length && (values[after] === undefined || places[after] < at)) { after += 1; }
  const { step } = self.series[number];
  if (step === 1) { return before < 0 ? null : before; }
  if (after >= places.length || (step === 0 && before < 0)) { return null; }
  return step === -1 || places[after] - at < at - places[before] ? after : before;
}

// Switching a curve off or on does the same to its seeds.
function together(self, index, options) {
  if (index === null || options.show == null) { return; }
  for (let i = index + 1; self.series[i]?.class === "seed"; i += 1) {
    if (self.series[i].show !== options.show) { self.setSeries(i, { show: options.show }); }
  }
}

// The room that the names of levels need at the right.
function margin(marks) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = FONT;
  const names = marks.filter((mark) => mark.axis === "y").flatMap((mark) => mark.lines);
  return names.length ? Math.max(...names.map((name) => pen.measureText(name).width)) + 10 : null;
}

// Draws levels and moments with their names.
function draw(self, marks) {
  const { ctx, bbox } = self;
  const ratio = uPlot.pxRatio;
  ctx.save();
  ctx.font = FONT.replace("12", 12 * ratio);
  ctx.lineWidth = ratio;
  for (const { axis: key, at, color, dash, upright, lines } of marks) {
    const { min, max } = self.scales[key];
    if (at < min || at > max) { continue; }
    const place = self.valToPos(at, key, true);
    ctx.strokeStyle = ctx.fillStyle = color;
    ctx.setLineDash(dash ? [5 * ratio, 3 * ratio] : []);
    ctx.beginPath();
    if (key === "y") {
      ctx.moveTo(bbox.left, place);
      ctx.lineTo(bbox.left + bbox.width, place);
    } else {
      ctx.moveTo(place, bbox.top);
      ctx.lineTo(place, bbox.top + bbox.height);
    }
    ctx.stroke();
    ctx.textAlign = "left";
    ctx.textBaseline = key === "y" ? "middle" : upright ? "bottom" : "top";
    const height = 14 * ratio;
    const begin = key === "y" ? place - ((lines.length - 1) * height) / 2 : bbox.top;
    lines.forEach((line, number) => {
      ctx.save();
      if (key === "y") {
        ctx.translate(bbox.left + bbox.width + 5 * ratio, begin + number * height);
      } else if (upright) {
        ctx.translate(place - 2 * ratio, bbox.top + bbox.height - 5 * ratio);
        ctx.rotate(-Math.PI / 2);
      } else {
        ctx.translate(place + 4 * ratio, begin + number * height);
      }
      ctx.fillText(line, 0, 0);
      ctx.restore();
    });
  }
  ctx.restore();
}
