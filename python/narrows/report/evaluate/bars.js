// Declared bars: how often numbers occur in a column, and the way of rows from moment to moment.

import { filled, parts, selected, value } from "./tables.js";

const CYCLE = ["blue", "vermilion", "green", "purple", "orange", "sky"];
const MOST_GROUPS = 6;
const Z = 1.959963984540054;

/** A drawing with the bars of each case. */
export function barsOf(declared, cases, drawing) {
  if (declared.kind === "spans") { return spans(declared, cases, drawing); }
  const bars = cases.flatMap(({ runs: [run] }) => shares(declared, run));
  return { ...drawing, bars, interval: declared.interval ?? "" };
}

function shares(declared, run) {
  const rows = selected(run, declared.table, declared.where);
  const done = declared.done ? value(rows, declared.done, run.end_s) : null;
  const kept = rows.rows.filter((_, at) => !done || !Number.isNaN(done[at]));
  const all = { columns: rows.columns, rows: kept, count: kept.length };
  let groups = [["", all]];
  if (declared.each) {
    const found = parts(all, { each: [declared.each], label: `{${declared.each}}` });
    if (found.length > 1 && found.length <= MOST_GROUPS) { groups = found; }
  }
  return groups.filter(([, part]) => part.count).flatMap(([group, part]) => {
    const counts = new Map();
    for (const one of value(part, declared.value, run.end_s)) { counts.set(one, (counts.get(one) ?? 0) + 1); }
    const most = Math.max(1, ...counts.keys());
    const numbers = Array.from({ length: most }, (_, at) => at + 1);
    if (groups.length === 1 || counts.has(0)) { numbers.push(0); }
    return numbers.map((number) => {
      const count = counts.get(number) ?? 0;
      const share = (100 * count) / part.count;
      const name = number ? filled(declared.name, { value: number }) : declared.none;
      return {
        name: group ? `${group}, ${name}` : name,
        parts: [{ begin: 0, end: share, color: number ? "blue" : "vermilion" }],
        interval: number === 1 ? wilson(count, part.count).map((end) => 100 * end) : undefined,
        text: `${share.toFixed(2)} %  (${count})`,
      };
    });
  });
}

/** Wilson's 95 % interval of a proportion (1927). */
function wilson(successes, total) {
  const share = successes / total;
  const scale = 1 + (Z * Z) / total;
  const centre = (share + (Z * Z) / (2 * total)) / scale;
  const half = (Z / scale) * Math.sqrt((share * (1 - share)) / total + (Z * Z) / (4 * total * total));
  return [Math.max(0, Math.min(share, centre - half)), Math.min(1, Math.max(share, centre + half))];
}

function spans(declared, cases, drawing) {
  const [bars, whose] = [[], []];
  let last = 0;
  cases.forEach(({ label, runs: [run] }, number) => {
    const rows = first(selected(run, declared.table, declared.where), declared, run.end_s);
    if (!rows.count) { return; }
    const [begins, thicks, ends] = declared.moments.map((name) => value(rows, name, run.end_s));
    const zero = Math.min(...begins);
    const latest = Math.max(...[...begins, ...thicks, ...ends].filter((one) => !Number.isNaN(one)));
    const row = Object.fromEntries(Object.entries(rows.columns).map(([name, column]) => [name, column[rows.rows[0]]]));
    whose.push(filled(declared.whose, row));
    if (cases.length > 1) { bars.push({ name: label, head: true }); }
    const color = CYCLE[number % CYCLE.length];
    rows.rows.forEach((at, n) => {
      const [begin, thick] = [begins[n] - zero, thicks[n] - zero];
      const end = (Number.isNaN(ends[n]) ? latest : ends[n]) - zero;
      bars.push({
        name: String(rows.columns[declared.name][at]),
        parts: [{ begin, end: thick, color, thin: true }, { begin: thick, end, color }],
      });
    });
    last = Math.max(last, latest - zero);
  });
  const x = { ...drawing.x, ends: [0, last ? 1.05 * last : 1] };
  return { ...drawing, bars, x, subtitle: [...new Set(whose)].join("; ") };
}

/** The rows that belong to the one whose first moment is the earliest. */
function first(rows, { moments: [begin, thick], same }, endS) {
  const begins = value(rows, begin, endS);
  let at = 0;
  begins.forEach((one, n) => { if (one < begins[at]) { at = n; } });
  const thicks = value(rows, thick, endS);
  const kept = rows.rows.filter((row, n) => !Number.isNaN(thicks[n])
    && same.every((name) => rows.columns[name][row] === rows.columns[name][rows.rows[at]]));
  return { columns: rows.columns, rows: kept, count: kept.length };
}
