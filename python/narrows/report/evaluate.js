// Evaluates declared plots (docs/plots.md) against the tables of runs: the drawings of draw.js.
// evaluate.py does the same in Python, and a test holds both against each other.

import { changed, distribution, meanOf } from "./evaluate/curves.js";
import { barsOf } from "./evaluate/bars.js";
import { completed } from "./evaluate/scales.js";
import { extreme, parts, selected, value } from "./evaluate/tables.js";

/**
 * @typedef {{tables: Record<string, Record<string, ArrayLike<any>>>, end_s: number}} Data
 *   A table is an object of columns: numbers with NaN, or texts with null, for what is missing.
 * @typedef {{label: string, runs: Data[]}} Case A run with its other seeds, if there are any.
 */

const CYCLE = ["blue", "vermilion", "green", "purple", "orange", "sky"];

/**
 * The drawing of a declared plot.
 * @param {any} declared
 * @param {Case[]} cases
 */
export function evaluate(declared, cases) {
  const single = cases.length === 1 && cases[0].runs.length === 1;
  const endS = Math.max(...cases.flatMap((one) => one.runs.map((run) => run.end_s)));
  const curves = [];
  for (const series of declared.series ?? []) {
    if (series.kind === "points") {
      curves.push(given(series, endS));
    } else if (single) {
      const used = new Set(curves.filter((curve) => curve.label).map((curve) => curve.color)).size;
      curves.push(...ofRun(series, cases[0].runs[0], used));
    } else if (series.several ?? true) {
      curves.push(...ofCases(series, cases));
    }
  }
  const [begin = null, end = null] = declared.x.ends ?? [];
  const x = { ...declared.x, ends: [begin, end === "end" ? endS : end] };
  const y = { ...declared.y, ends: declared.y.ends ?? [null, null] };
  const levels = levelsOf(declared.marks ?? [], curves, x, cases[0].runs[0]);
  const drawing = { title: declared.title, x, y, curves, levels };
  return declared.bars ? barsOf(declared.bars, cases, drawing) : completed(drawing);
}

/** The points of a series, by the name of each curve. */
function pointsOf(series, run) {
  const table = run.tables[series.table];
  const rows = selected(run, series.table, series.where);
  const change = series.change && { ...series.change };
  if (change?.least_s instanceof Object) { change.least_s = extreme(change.least_s, run) ?? 0; }
  const found = new Map();
  for (const [name, part] of parts(rows, series)) {
    let [x, y] = pointsOfRows(part, series, run, table);
    if (change && x.length) { [x, y] = changed(x, y, change); }
    found.set(name, [x, y]);
  }
  return found;
}

function pointsOfRows(rows, series, run, table) {
  if (!rows.count) { return [[], []]; }
  const x = value(rows, series.x, run.end_s);
  if (!series.by) {
    const y = value(rows, series.y ?? 0, run.end_s);
    const order = x.map((_, at) => at);
    if (x.some((at, n) => n && at < x[n - 1])) { order.sort((a, b) => x[a] - x[b] || a - b); }
    return [order.map((at) => x[at]), order.map((at) => y[at])];
  }
  const every = selected({ ...run, tables: { [series.table]: table } }, series.table, null);
  const places = [...new Set(value(every, series.x, run.end_s))].sort((a, b) => a - b);
  const index = new Map(places.map((place, at) => [place, at]));
  const groups = places.map(() => []);
  x.forEach((place, row) => groups[index.get(place)].push(row));
  const aggregate = (reduce, empty) => (inner) => {
    const values = value(rows, inner, run.end_s);
    return groups.map((group) => {
      const known = group.map((row) => values[row]).filter((v) => !Number.isNaN(v));
      return group.length ? (known.length ? reduce(known) : empty) : NaN;
    });
  };
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  const functions = {
    sum: aggregate(sum, 0),
    max: aggregate((values) => values.reduce((a, b) => Math.max(a, b)), NaN),
    mean: aggregate((values) => sum(values) / values.length, NaN),
  };
  return [places, value({ count: places.length, columns: {} }, series.y, run.end_s, functions)];
}

function given(series, endS) {
  const x = series.x.map((at) => (at === "end" ? endS : at));
  return {
    label: series.label, color: series.color || CYCLE[0], x, y: [...series.y],
    shape: series.shape ?? "line", width: series.width ?? 1.4, dash: series.dash ?? false,
    margin: series.margin ?? "",
  };
}

function ofRun(series, run, used) {
  const pairs = series.shape === "cdf"
    ? new Map([...waitsOf(series, run)].map(([name, waits]) => [name, distribution(waits)]))
    : pointsOf(series, run);
  const curves = [];
  for (const [name, [x, y]] of pairs) {
    if (!x.length || (series.omit && !says(y, series.omit))) { continue; }
    const at = used + curves.length;
    curves.push({
      label: series.seed ? "" : name,
      color: series.color || CYCLE[at % CYCLE.length],
      x, y,
      shape: series.shape ?? "line",
      width: series.width ?? 1.4,
      dash: !series.color && at >= CYCLE.length,
      seed: series.seed ?? false,
    });
  }
  return curves;
}

function says(y, omit) {
  const known = y.filter((value) => !Number.isNaN(value));
  return known.length > 0 && (omit === "missing" || known.some((value) => value !== 0));
}

function ofCases(series, cases) {
  const curves = [];
  let named = 0;
  const shape = series.shape ?? "line";
  for (const [number, { label, runs }] of cases.entries()) {
    const cdf = shape === "cdf";
    const each = runs.map((run) => (cdf ? waitsOf(series, run) : pointsOf(series, run)));
    for (const name of each[0].keys()) {
      const found = each.filter((one) => one.has(name)).map((one) => one.get(name));
      const seeds = cdf ? found.map(distribution) : found;
      const [x, y] = cdf ? distribution(together(found)) : meanOf(found);
      const at = series.each?.length ? named : number;
      const [color, dash] = [CYCLE[at % CYCLE.length], at >= CYCLE.length];
      named += 1;
      if (!x.length) { continue; }
      curves.push({ label: series.each?.length ? `${label}, ${name}` : label, color, x, y, shape, width: 1.4, dash });
      if (seeds.length > 1) {
        for (const [sx, sy] of seeds) {
          if (sx.length) { curves.push({ label: "", color, x: sx, y: sy, shape, width: 0.6, seed: true }); }
        }
      }
    }
  }
  return curves;
}

/** What a distribution is made of: values, and whether each was reached or only waited for. */
function waitsOf(series, run) {
  const found = new Map();
  for (const [name, part] of parts(selected(run, series.table, series.where), series)) {
    if (!part.count) { continue; }
    const values = value(part, series.x, run.end_s);
    const known = values.map((one) => !Number.isNaN(one));
    if (series.of === "known") {
      const kept = values.filter((_, at) => known[at]);
      found.set(name, { values: kept, known: kept.map(() => true) });
      continue;
    }
    let waited = values.map(() => Infinity);
    if (series.open) {
      const [column, time] = series.open;
      const still = value(part, column, run.end_s);
      waited = value(part, time, run.end_s).map((one, at) => (Number.isNaN(still[at]) ? one : Infinity));
    }
    found.set(name, { values: values.map((one, at) => (known[at] ? one : waited[at])), known });
  }
  return found;
}

function together(found) {
  return { values: found.flatMap((one) => one.values), known: found.flatMap((one) => one.known) };
}

function levelsOf(marks, curves, x, run) {
  const ends = (of) => {
    const known = curves.flatMap((curve) => curve[of].filter(Number.isFinite));
    return known.reduce(([low, high], v) => [Math.min(low, v), Math.max(high, v)], [Infinity, -Infinity]);
  };
  const [begin, end] = x.ends;
  const [low, high] = begin != null && end != null ? [begin, end] : ends("x");
  const levels = [];
  for (const mark of marks) {
    const at = mark.at instanceof Object ? extreme(mark.at, run) : mark.at;
    if (at == null || (mark.inside && !(low < at && at < high))) { continue; }
    if (mark.most != null && at > mark.most * Math.max(0, ends("y")[1])) { continue; }
    levels.push({
      axis: mark.axis, at, name: named(mark, at), color: mark.color ?? "muted",
      dash: mark.dash ?? false, upright: mark.upright ?? false,
    });
  }
  return levels;
}

/** A mark's name, with the level's value and duration if it has a unit. */
function named(mark, at) {
  const level = at >= 10 ? whole(at) : String(Number(at.toPrecision(3)));
  const name = mark.unit ? `${mark.name} ${level} ${mark.unit}` : mark.name;
  return mark.per_s ? `${name}\n= ${whole((1e3 * at) / mark.per_s)} ms` : name;
}

/** A number without digits after the point; halves go to the even neighbour, as in Python. */
function whole(value) {
  const near = Math.round(value);
  return String(near - value === 0.5 && near % 2 ? near - 1 : near);
}
