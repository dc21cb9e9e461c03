// Shows the page's plots: makes drawings of them (docs/plots.md) for the module that reports use.

import { draw } from "./draw.js";
import { Samples } from "./samples.mjs";

const COLOURS = ["blue", "vermilion", "green", "purple", "orange", "sky"];

/** Plots that share the pointer and the zoom. */
const group = new Set();

/**
 * Shows a plot in an element, in place of what is there.
 * @param {{name: string, plot: object, dash: true|"dots", color: string}[]} [beside]  the same plot of
 *   other runs, and how their curves are dashed and their bars coloured
 * @param {{label: string, at: number}[]} [events]  times to mark, in seconds
 * @param {?import("./plots.mjs").Band} [band]  the range over seeds
 */
export function show(element, plot, beside = [], events = [], band = null) {
  element.drawn?.destroy();
  const title = document.createElement("h3");
  title.textContent = plot.title;
  const box = document.createElement("div");
  const save = document.createElement("button");
  Object.assign(save, { type: "button", className: "save", textContent: "SVG", ariaLabel: `Save SVG: ${plot.title}` });
  element.replaceChildren(title, save, box);
  save.hidden = !(plot.bars || plot.curves.length);
  const samples = [];
  element.drawing = save.hidden ? null : drawing(plot, beside, events, band, samples);
  const finer = (low, high) =>
    element.drawing.curves.map((curve, number) =>
      samples[number] ? { ...curve, ...points(samples[number], samples[number].between(low, high)) } : curve);
  const options = { group, finer: samples.some(({ many }) => many) ? finer : null };
  element.drawn = element.drawing && draw(element.drawing, box, options);
  if (!element.drawn) box.textContent = "None.";
}

/** A band with the steps of a curve whose points hold since the point before. */
function stepped({ x, low, high }) {
  const after = ([first, ...rest]) => [first, ...rest.flatMap((value) => [value, value])];
  return { x: x.flatMap((at, n) => (n + 1 < x.length ? [at, at] : [at])), low: after(low), high: after(high) };
}

/** Some of a curve's samples; a gap is null. */
const points = ({ x, y }, numbers) => ({
  x: numbers.map((at) => x[at]),
  y: numbers.map((at) => (Number.isFinite(y[at]) ? y[at] : null)),
});

/**
 * @param {Samples[]} samples  gets those of each curve
 * @returns {import("./draw.js").Drawing}
 */
function drawing(plot, beside, events, band, samples) {
  if (plot.bars) {
    const bars = (of, before, color) =>
      of.map(({ label, share }) => ({
        name: before + label,
        parts: [{ begin: 0, end: 100 * share, color }],
        text: `${(100 * share).toFixed(1)} %`,
      }));
    return {
      title: plot.title,
      x: { label: "share of queries (%)", ends: [0, 100] },
      y: { label: "", ends: [0, 1] },
      bars: [
        ...bars(plot.bars, "", "blue"),
        ...beside.flatMap((other) => bars(other.plot.bars, `${other.name}: `, other.color)),
      ],
    };
  }
  // A curve has the colour of its equal in this run.
  const colorOf = ({ label }, number) => {
    const same = plot.curves.findIndex((curve) => curve.label === label);
    return same < 0 ? number : same;
  };
  const made = (curve, number, before = "", dash = false) => {
    const all = new Samples(curve);
    samples.push(all);
    return {
      label: before + curve.label,
      color: COLOURS[number % COLOURS.length],
      ...points(all, all.all),
      shape: curve.step ? "before" : "line",
      dash,
    };
  };
  const curves = [
    ...plot.curves.map((curve, number) => made(curve, number)),
    ...beside.flatMap(({ name, plot: other, dash }) =>
      other.curves.flatMap((curve, number) =>
        // A kernel does not know all that the simulator does.
        curve.y.some(Number.isFinite) ? [made(curve, colorOf(curve, number), `${name}: `, dash)] : [])),
  ];
  if (band) {
    if (plot.curves.find(({ label }) => label === plot.main).step) band = stepped(band);
    const main = plot.curves.findIndex(({ label }) => label === plot.main);
    const color = COLOURS[main % COLOURS.length];
    curves.push({ label: `${plot.main}, range over seeds`, color, shape: "band", ...band, y: band.high });
  }
  const levels = (plot.levels ?? []).map(({ label, value }) => ({
    axis: "y",
    at: value,
    name: label,
    color: "muted",
    dash: true,
  }));
  const happened = plot.x === "time (s)" ? events : [];
  const moments = happened.map(({ label, at }) => ({ axis: "x", at, name: label, color: "vermilion" }));
  const highest = (pick) => curves.reduce((most, curve) => Math.max(most, pick(curve)), 0);
  const top = Math.max(
    highest(({ y }) => y.reduce((most, value) => Math.max(most, value ?? 0), 0)),
    ...levels.map(({ at }) => at),
  );
  const end = highest(({ x }) => x[x.length - 1] ?? 0);
  const begin = plot.log
    ? curves.reduce((least, { x }) => Math.min(least, x[0] || end), end)
    : 0;
  return {
    title: plot.title,
    x: { label: plot.x, ends: [begin || (plot.log ? 1 : 0), Math.max(end, begin * 1.5) || 1], log: plot.log },
    y: { label: plot.y, ends: [0, plot.y.includes("%") ? Math.max(100, top) : top * 1.06 || 1] },
    curves,
    levels: [...levels, ...moments],
  };
}
