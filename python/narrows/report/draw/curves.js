// Draws curves on a pair of axes with uPlot, which must be loaded before.

import { COLORS, element, evens, paint, rounds, words } from "./words.js";

const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const NARROW = 560;
const DOT = 4.6;
const COLUMNS = 12;
const FINER_MS = 60;

export function curves(drawing, box, { alt, group, finer }) {
  const given = drawing.curves ?? [];
  const head = element("div", "head");
  const zoom = element("span", "zoom");
  head.append(element("span", "y-label", drawing.y.label), zoom);
  const chart = element("div", "chart");
  chart.tabIndex = 0;
  chart.setAttribute("role", "img");
  chart.setAttribute("aria-label", [drawing.title, alt].filter(Boolean).join(". "));
  const legend = element("div", "legend");
  const heard = element("p", "hidden");
  heard.setAttribute("aria-live", "polite");
  const corner = drawing.corner ? [element("p", "subtitle", drawing.corner)] : [];
  box.append(head, chart, ...corner, legend, heard);
  let data = uPlot.join(given.map(column));
  const drawn = { plot: null, destroy, label: drawing.x.label };
  let [low, high] = drawing.x.ends;
  let soon = 0;
  // After a zoom and not with it, so that a zoom is quick; each plot for itself, so that others wait less.
  drawn.zoomed = () => {
    clearTimeout(soon);
    soon = finer && setTimeout(() => {
      const { min, max } = drawn.plot.scales.x;
      if (min === low && max === high) { return; }
      [low, high] = [min, max];
      data = uPlot.join(finer(low, high).map(column));
      drawn.plot.setData(data, false);
      drawn.plot.redraw();
    }, FINER_MS);
  };
  let showing = given.map(() => true);
  const make = () => {
    drawn.plot?.destroy();
    drawn.plot = new uPlot(settings(drawing, chart, drawn, group), data, chart);
    showing.forEach((show, at) => { if (!show) { drawn.plot.setSeries(at + 1, { show }); } });
  };
  const readout = key(drawing, legend, drawn, showing);
  drawn.readout = readout;
  make();
  buttons(zoom, drawn, drawing);
  chart.addEventListener("keydown", (event) => steer(event, drawn, drawing, heard, readout));
  const sizes = new ResizeObserver(() => {
    const narrow = chart.clientWidth < NARROW;
    if (narrow !== drawn.narrow) { make(); } else { drawn.plot.setSize(size(chart)); }
  });
  sizes.observe(chart);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", make);
  group?.add(drawn);
  function destroy() {
    clearTimeout(soon);
    sizes.disconnect();
    dark.removeEventListener("change", make);
    drawn.plot.destroy();
    group?.delete(drawn);
    box.replaceChildren();
  }
  return drawn;
}

function size(chart) {
  const width = Math.max(240, chart.clientWidth);
  return { width, height: width < NARROW ? 240 : 320 };
}

/** A curve's points, no two at the same x: of several at one x, uPlot keeps only the last. */
function column(curve) {
  const { shape } = curve;
  let { x, y } = curve;
  if (shape === "points") {
    const order = x.map((_, at) => at).sort((a, b) => x[a] - x[b]);
    [x, y] = [order.map((at) => x[at]), order.map((at) => y[at])];
  }
  const [places, values] = [[], []];
  x.forEach((at, n) => {
    let place = at;
    const last = places.length - 1;
    if (last >= 0 && place <= places[last]) {
      if (shape === "points") {
        place = places[last] + Math.max(Math.abs(places[last]), 1) * 1e-9;
      } else if (last === 0) {
        // Where a curve rises at once, its first point moves to the left by the least step.
        places[0] -= Math.max(Math.abs(place), 1) * 1e-7;
      } else {
        values[last] = y[n];
        return;
      }
    }
    places.push(place);
    values.push(y[n]);
  });
  return [places, values];
}

function settings(drawing, chart, drawn, group) {
  const { x, y } = drawing;
  const dims = size(chart);
  const narrow = chart.clientWidth < NARROW;
  drawn.narrow = narrow;
  const ink = paint("ink", chart);
  const grid = { stroke: paint("grid", chart), width: 1 };
  const levels = [...(drawing.levels ?? []), ...margins(drawing.curves ?? [])].map((level) => ({
    ...level,
    color: paint(level.color ?? "muted", chart),
    lines: narrow ? [level.name.replace("\n", " ")] : level.name.split("\n"),
  }));
  const whole = (self) => {
    for (const key of ["x", "y"]) {
      const [min, max] = drawing[key].ends;
      self.setScale(key, { min, max });
    }
  };
  drawn.whole = () => whole(drawn.plot);
  return {
    ...dims,
    padding: [8, narrow ? 12 : room(levels), null, null],
    legend: { show: false },
    scales: { x: { time: false, ...scale(x) }, y: scale(y) },
    axes: [
      { ...axis(x), label: x.label, labelSize: 20, labelFont: FONT, size: 32 },
      { ...axis(y), size: y.ticks?.length ? roomOfNames(y, dims.width) : 56 },
    ].map((one) => ({
      ...one, stroke: ink, grid, ticks: grid, font: FONT,
    })),
    series: [{}, ...(drawing.curves ?? []).map((curve) => series(curve, chart))],
    hooks: {
      drawAxes: [(self) => bands(self, drawing.curves ?? [])],
      draw: [(self) => intervals(self, drawing.curves ?? []), (self) => named(self, levels, narrow)],
      setCursor: [() => drawn.readout()],
      setScale: [(self, key) => { if (key === "x") { together(self, drawn, group); drawn.zoomed(); } }],
    },
    cursor: {
      drag: { x: true, y: true, uni: 40 },
      dataIdx: nearest,
      bind: { dblclick: (self) => () => { whole(self); return null; } },
      sync: group ? {
        key: `narrows ${x.label}`,
        scales: ["x", null],
        filters: { pub: (type) => type === "mousemove" || type === "mouseleave" },
        setSeries: false,
      } : undefined,
    },
  };
}

function series(curve, chart) {
  const { color, shape = "line", width = 1.4, dash, seed, marker } = curve;
  const step = { before: -1, after: 1, cdf: 1 }[shape] ?? 0;
  const points = shape === "points" || marker;
  const stroke = paint(color, chart);
  return {
    label: curve.label || " ",
    stroke: stroke + (seed && stroke.length === 7 ? "59" : ""),
    width: shape === "points" ? 0 : width,
    dash: dash ? (dash === "dots" ? [2, 3] : [6, 4]) : undefined,
    fillTo: shape === "area" ? () => curve.base ?? 0 : undefined,
    fill: shape === "area" && stroke.length === 7 ? `${stroke}2e` : undefined,
    points: points
      ? { show: true, size: shape === "points" ? 2 * width : 7, fill: stroke, width: 0 }
      : { show: false },
    step,
    paths: shape === "points" || shape === "band" || width === 0
      ? () => null
      : step ? uPlot.paths.stepped({ align: step }) : uPlot.paths.linear(),
  };
}

/** The same x ends in all plots of a group that share the axis. */
let linking = false;
function together(self, drawn, group) {
  const { min, max } = self.scales.x;
  if (linking || !group || min == null) { return; }
  linking = true;
  for (const other of group) {
    if (other === drawn || other.label !== drawn.label || !other.plot) { continue; }
    const scale = other.plot.scales.x;
    if (scale.min !== min || scale.max !== max) { other.plot.setScale("x", { min, max }); }
  }
  linking = false;
}

/** The ends that were chosen with care, from zero for example, until somebody zooms. */
function scale({ ends, log }) {
  const [min, max] = ends;
  const range = (self, low, high, key) => {
    const now = self.scales[key];
    return Number.isFinite(low) && Number.isFinite(high) ? [low, high] : [now.min, now.max];
  };
  return { distr: log ? 3 : 1, auto: false, min, max, range };
}

function axis(one) {
  const values = (_, splits) => splits.map((value) => words(one, value, one.mixed ? "ms" : ""));
  if (one.ticks?.length) { return { values, splits: () => one.ticks.map(([at]) => at) }; }
  if (!one.log) { return one.mixed ? { values } : {}; }
  return {
    values, filter: (_, splits) => splits,
    splits: (self, __, low, high) => rounds(low, high, self.width < NARROW ? 4 : 12),
  };
}

/** The point of a curve that holds at the pointer: of steps the one that begins or ends there. */
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

/** The names of curves in the margin, as levels at their last points. */
function margins(list) {
  return list.filter((curve) => curve.margin).map((curve) => (
    { axis: "y", at: curve.y[curve.y.length - 1], name: curve.margin, color: curve.color, bare: true }
  ));
}

/** The room that names beside the y axis need. */
function roomOfNames({ ticks }, width) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = FONT;
  const widths = ticks.flatMap(([, name]) => name.split("\n")).map((line) => pen.measureText(line).width);
  return Math.min(0.4 * width, Math.max(...widths) + 22);
}

/** The room that the names of levels need at the right. */
function room(levels) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = FONT;
  const names = levels.filter((level) => level.axis === "y").flatMap((level) => level.lines);
  return names.length ? Math.max(...names.map((name) => pen.measureText(name).width)) + 10 : 12;
}

/** Draws levels and events with their names. */
function named(self, levels, narrow) {
  const { ctx, bbox } = self;
  const ratio = uPlot.pxRatio;
  ctx.save();
  ctx.font = FONT.replace("12", String(12 * ratio));
  ctx.lineWidth = ratio;
  for (const { axis: key, at, color, dash, upright, lines, bare } of levels) {
    const { min, max } = self.scales[key];
    if (at < min || at > max) { continue; }
    const place = self.valToPos(at, key, true);
    const level = key === "y";
    ctx.strokeStyle = ctx.fillStyle = color;
    ctx.setLineDash(dash ? [5 * ratio, 3 * ratio] : []);
    if (!bare) {
      ctx.beginPath();
      ctx.moveTo(level ? bbox.left : place, level ? place : bbox.top);
      ctx.lineTo(level ? bbox.left + bbox.width : place, level ? place : bbox.top + bbox.height);
      ctx.stroke();
    }
    const inside = level && narrow;
    ctx.textAlign = inside ? "right" : "left";
    ctx.textBaseline = inside || upright ? "bottom" : level ? "middle" : "top";
    const height = 14 * ratio;
    const begin = level ? place - ((lines.length - 1) * height) / 2 : bbox.top;
    lines.forEach((line, number) => {
      ctx.save();
      if (inside) {
        ctx.translate(bbox.left + bbox.width - 3 * ratio, place - 2 * ratio);
      } else if (level) {
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

/** Draws bands from `low` to `high`, behind all curves. */
function bands(self, list) {
  const { ctx, bbox } = self;
  list.forEach((curve, number) => {
    if (curve.shape !== "band" || !self.series[number + 1].show) { return; }
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.globalAlpha = 0.22;
    ctx.fillStyle = paint(curve.color, self.root);
    ctx.beginPath();
    const to = (n, values) => ctx.lineTo(self.valToPos(curve.x[n], "x", true), self.valToPos(values[n], "y", true));
    curve.x.forEach((_, n) => to(n, curve.high));
    for (let n = curve.x.length - 1; n >= 0; n -= 1) { to(n, curve.low); }
    ctx.fill();
    ctx.restore();
  });
}

/** Draws the intervals of points. */
function intervals(self, list) {
  const { ctx } = self;
  const ratio = uPlot.pxRatio;
  list.forEach((curve, number) => {
    if (!curve.low || curve.shape === "band" || !self.series[number + 1].show) { return; }
    ctx.save();
    ctx.strokeStyle = paint(curve.color, self.root);
    ctx.lineWidth = 1.4 * ratio;
    curve.x.forEach((at, n) => {
      if (curve.low[n] == null || curve.high[n] == null) { return; }
      const place = self.valToPos(at, "x", true);
      const floor = self.scales.y.distr === 3 ? self.scales.y.min : -Infinity;
      const ends = [Math.max(curve.low[n], floor), curve.high[n]].map((v) => self.valToPos(v, "y", true));
      ctx.beginPath();
      ctx.moveTo(place, ends[0]);
      ctx.lineTo(place, ends[1]);
      for (const end of ends) {
        ctx.moveTo(place - 4 * ratio, end);
        ctx.lineTo(place + 4 * ratio, end);
      }
      ctx.stroke();
    });
    ctx.restore();
  });
  dots(self, list);
}

/** A dot for each single run, beside the interval of its point and beside its equals. */
function dots(self, list) {
  const { ctx } = self;
  const ratio = uPlot.pxRatio;
  const taken = new Map();
  list.forEach((curve, number) => {
    if (!curve.values || !self.series[number + 1].show) { return; }
    ctx.save();
    ctx.globalAlpha = 0.6;
    ctx.fillStyle = paint(curve.color, self.root);
    curve.x.forEach((at, n) => {
      const left = self.valToPos(at, "x", true);
      const columns = taken.get(at) ?? Array.from({ length: COLUMNS }, () => []);
      taken.set(at, columns);
      for (const value of curve.values[n]) {
        const y = self.valToPos(value, "y", true);
        if (value < self.scales.y.min || value > self.scales.y.max) { continue; }
        const free = columns.findIndex((ys) => ys.every((other) => Math.abs(other - y) >= DOT * ratio));
        const column = free < 0 ? COLUMNS - 1 : free;
        columns[column].push(y);
        ctx.beginPath();
        ctx.arc(left + (8 + DOT * column) * ratio, y, 2.2 * ratio, 0, 2 * Math.PI);
        ctx.fill();
      }
    });
    ctx.restore();
  });
}

/** The legend: a button for each curve, which hides it with its seeds, and its value. */
function key(drawing, legend, drawn, showing) {
  const list = drawing.curves ?? [];
  const place = element("span", "at");
  const values = [];
  if (drawing.legend) { legend.append(element("span", "", drawing.legend)); }
  list.forEach((curve, at) => {
    if (!curve.label || curve.seed) { return; }
    const button = element("button", "entry");
    button.type = "button";
    button.setAttribute("aria-pressed", "true");
    const swatch = element("i", { points: "point", band: "block faint" }[curve.shape] ?? (curve.dash ? "dash" : ""));
    swatch.style.setProperty("--of", `var(--${curve.color}, ${COLORS[curve.color] ?? curve.color})`);
    const value = element("output", "");
    button.append(swatch, element("span", "", curve.label), value);
    values.push([at, value]);
    button.addEventListener("click", () => {
      const show = !showing[at];
      button.setAttribute("aria-pressed", String(show));
      for (let i = at; i === at || list[i]?.seed; i += 1) {
        showing[i] = show;
        drawn.plot.setSeries(i + 1, { show });
      }
    });
    legend.append(button);
  });
  legend.append(place);
  return () => {
    const { plot } = drawn;
    if (!plot) { return; }
    const on = plot.cursor.left >= 0;
    place.textContent = on ? `at ${words(drawing.x, plot.posToVal(plot.cursor.left, "x"))}` : "";
    for (const [at, value] of values) {
      const index = on ? plot.cursor.idxs?.[at + 1] : null;
      const held = index == null ? null : plot.data[at + 1][index];
      value.textContent = on ? words(drawing.y, held) : "";
      const place = list[at].shape === "band" && held != null ? list[at].x.indexOf(plot.data[0][index]) : -1;
      if (place >= 0) { value.textContent = `${words(drawing.y, list[at].low[place], "")} to ${value.textContent}`; }
    }
    return [place.textContent, ...values.map(([at, value]) => `${list[at].label} ${value.textContent}`)];
  };
}

function buttons(zoom, drawn, drawing) {
  const made = [["+", "Zoom in"], ["−", "Zoom out"], ["all", "Show all"]].map(([text, name]) => {
    const button = element("button", "", text);
    button.type = "button";
    button.setAttribute("aria-label", `${name}: ${drawing.title}`);
    return button;
  });
  made[0].addEventListener("click", () => scaled(drawn, 0.5));
  made[1].addEventListener("click", () => scaled(drawn, 2));
  made[2].addEventListener("click", () => drawn.whole());
  zoom.append(...made);
}

/** Zooms the x axis by a factor, around the pointer or the middle. */
function scaled(drawn, factor, shift = 0) {
  const { plot } = drawn;
  const { min, max, distr } = plot.scales.x;
  const [to, from] = distr === 3 ? [Math.log10, (v) => 10 ** v] : [(v) => v, (v) => v];
  const [low, high] = [to(min), to(max)];
  const at = plot.cursor.left >= 0 ? to(plot.posToVal(plot.cursor.left, "x")) : (low + high) / 2;
  const move = shift * (high - low);
  plot.setScale("x", {
    min: from(at - (at - low) * factor + move), max: from(at + (high - at) * factor + move),
  });
}

/** Keys: arrows move the pointer, with Shift the view; + and - zoom, 0 shows all. */
function steer(event, drawn, drawing, heard, readout) {
  const { plot } = drawn;
  const side = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const width = plot.over.clientWidth;
  if (side && event.shiftKey) {
    scaled(drawn, 1, 0.2 * side);
  } else if (side) {
    const now = plot.cursor.left >= 0 ? plot.cursor.left : width / 2;
    plot.setCursor({ left: Math.min(width - 1, Math.max(0, now + 8 * side)), top: 10 });
    heard.textContent = (readout() ?? []).join(", ");
  } else if (event.key === "+" || event.key === "=") {
    scaled(drawn, 0.5);
  } else if (event.key === "-") {
    scaled(drawn, 2);
  } else if (event.key === "0" || event.key === "Escape") {
    drawn.whole();
  } else {
    return;
  }
  event.preventDefault();
}
