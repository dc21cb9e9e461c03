// What the page draws of a run, as data: a plot has curves, levels and bars.

import { rates, rows } from "./metrics.mjs";

/**
 * @typedef {{label: string, x: ArrayLike<number>, y: ArrayLike<number>, step?: boolean}} Curve
 * @typedef {{x: number[], low: number[], high: number[]}} Band
 * @typedef {{label: string, value: number}} Level
 * @typedef {{title: string, x: string, y: string, log?: boolean,
 *   curves: Curve[], levels?: Level[], main?: string}} Plot
 *   `main` is the label of the curve whose range over seeds the page shows
 * @typedef {{title: string, bars: {label: string, share: number}[]}} Bars
 */

const MOST_FLOWS = 6;

/** The plots of a run, in the order in which the page shows them. @returns {(Plot | Bars)[]} */
export function plots(tables, plan) {
  const monitor = plan.queue_monitors[0];
  const link = monitor && plan.links[monitor.link];
  return [
    ...(link ? queue(rows(tables.queues, "link", link.name), link) : []),
    ...dns(tables),
    ...flows(tables),
    ...utilisation(tables, plan),
  ];
}

function queue(samples, link) {
  const t = samples.t_s;
  const [[kind, settings]] = Object.entries(link.queue);
  const backlog = samples.backlog_bytes.map((bytes) => Number(bytes) / 1000);
  const curves = [{ label: "backlog", x: t, y: backlog }];
  const average = samples.average_bytes.map((bytes) => bytes / 1000);
  if (average.some((value) => value === value)) {
    curves.push({ label: "RED's average", x: t, y: average });
  }
  const levels = [];
  if (kind === "red") {
    levels.push({ label: "min", value: settings.min / 1000 });
    levels.push({ label: "max", value: settings.max / 1000 });
  }
  if (kind === "bfifo") levels.push({ label: "limit", value: settings.limit / 1000 });
  const target = settings.target ? [{ label: "target", value: settings.target / 1e9 }] : [];
  const count = (...names) =>
    rates(t, t.map((_, at) => names.reduce((sum, name) => sum + Number(samples[name][at]), 0)));
  const lost = [
    { label: "dropped, queue full", x: t, y: count("dropped_overflow"), step: true },
    { label: "dropped early", x: t, y: count("dropped_early", "dropped_forced"), step: true },
    { label: "marked", x: t, y: count("marked_early", "marked_forced"), step: true },
  ].filter(({ y }) => y.some((value) => value > 0));
  const waits = { label: "mean", x: t, y: samples.sojourn_mean_ms };
  const longest = { label: "longest", x: t, y: samples.sojourn_max_ms };
  return [
    { title: `Queue at ${link.name}`, x: "time (s)", y: "kB", curves, levels, main: "backlog" },
    { title: "Wait in the queue", x: "time (s)", y: "ms", curves: [longest, waits], levels: target, main: "mean" },
    { title: "Drops and marks", x: "time (s)", y: "packets/s", curves: lost },
  ];
}

function dns({ queries }) {
  const groups = new Map();
  const counts = new Map();
  let asked = 0;
  for (let at = 0; at < queries.query.length; at += 1) {
    const ended = queries.end_s[at] === queries.end_s[at];
    if (!queries.measured[at] || !ended) continue;
    asked += 1;
    const attempt = queries.attempt[at];
    counts.set(attempt, (counts.get(attempt) ?? 0) + 1);
    if (!(queries.response_ms[at] >= 0)) continue;
    const group = queries.group[at];
    if (!groups.has(group)) groups.set(group, []);
    groups.get(group).push(queries.response_ms[at]);
  }
  if (!asked) return [];
  const bars = [...counts]
    .sort(([a], [b]) => (a || 99) - (b || 99))
    .map(([attempt, count]) => ({
      label: attempt ? `attempt ${attempt}` : "no answer",
      share: count / asked,
    }));
  const curves = [...groups].map(([label, values]) => {
    values.sort((a, b) => a - b);
    return { label, x: values, y: values.map((_, at) => (100 * (at + 1)) / values.length) };
  });
  return [
    { title: "DNS answered by", bars },
    { title: "DNS response time: share answered within", x: "response time (ms)", y: "%", log: true, curves },
  ];
}

function flows({ flow_states: states, goodput }) {
  const found = [];
  const windows = new Map();
  for (let at = 0; at < states.t_s.length; at += 1) {
    const label = states.name[at];
    if (!windows.has(label)) {
      if (windows.size === MOST_FLOWS) continue;
      windows.set(label, { label, x: [], y: [] });
    }
    windows.get(label).x.push(states.t_s[at]);
    windows.get(label).y.push(Number(states.cwnd_bytes[at]) / 1000);
  }
  if (windows.size) {
    found.push({ title: "Congestion windows", x: "time (s)", y: "kB", curves: [...windows.values()] });
  }
  const names = [...new Set(goodput.group)].slice(0, MOST_FLOWS);
  const curves = names.flatMap((label) => {
    const all = rows(goodput, "group", label);
    return [...new Set(all.direction)].flatMap((direction) => {
      const { t_s: x, bytes_received } = rows(all, "direction", direction);
      const y = rates(x, bytes_received, 8e-6);
      return y.some((value) => value > 0) ? [{ label: `${label} (${direction})`, x, y }] : [];
    });
  });
  if (curves.length) found.push({ title: "Goodput", x: "time (s)", y: "Mbit/s", curves });
  return found;
}

function utilisation({ links }, plan) {
  const curves = plan.link_monitors.slice(0, 2).map(({ link }) => {
    const { name } = plan.links[link];
    const { t_s: x, busy_s } = rows(links, "link", name);
    return { label: name, x, y: rates(x, busy_s, 100), step: true };
  });
  return curves.length ? [{ title: "Link in use", x: "time (s)", y: "%", curves, main: curves[0].label }] : [];
}

/**
 * The range of a plot's main curve over runs, where all of them have a sample; null if it has none.
 * @param {(Plot | Bars)[][]} runs  the plots of each run
 * @returns {?Band}
 */
export function band(title, runs, columns = 1200) {
  const curves = runs.map((plots) => {
    const plot = plots.find((each) => each.title === title);
    return plot?.main && plot.curves.find(({ label }) => label === plot.main);
  });
  if (!curves.every(Boolean)) return null;
  const found = new Map();
  for (const { x, y } of curves) {
    for (let at = 0; at < x.length; at += 1) {
      if (Number.isFinite(y[at])) found.set(x[at], [...(found.get(x[at]) ?? []), y[at]]);
    }
  }
  const times = [...found.keys()].filter((t) => found.get(t).length === runs.length).sort((a, b) => a - b);
  const each = Math.ceil(times.length / columns);
  const made = { x: [], low: [], high: [] };
  for (let at = 0; at < times.length; at += each) {
    const values = times.slice(at, at + each).flatMap((t) => found.get(t));
    made.x.push(times[at]);
    made.low.push(Math.min(...values));
    made.high.push(Math.max(...values));
  }
  return made.x.length ? made : null;
}
