// node recorded_run.mjs TABLES PLAN: prints a run's plots and numbers as the laboratory page has them, with
// as many points and digits as a plot can show.

import { readFileSync } from "node:fs";
import { decode } from "../web/engine.mjs";
import { metrics } from "../web/metrics.mjs";
import { plots } from "../web/plots.mjs";
import { Samples } from "../web/samples.mjs";

const COLUMNS = 250; // with two points each; a plot is 400 to 900 pixels wide
const DIGITS = 4;

const short = (value) => (Number.isFinite(value) ? Number(value.toPrecision(DIGITS)) : null);

function curve({ label, step, x, y }) {
  const { all } = new Samples({ x, y }, COLUMNS);
  return { label, step, x: all.map((at) => short(x[at])), y: all.map((at) => short(y[at])) };
}

const [file, planned] = process.argv.slice(2);
const tables = decode(new Uint8Array(readFileSync(file)));
const plan = JSON.parse(readFileSync(planned, "utf8"));
const watched = plan.links[plan.queue_monitors[0].link].name;
const made = plots(tables, plan).map(({ title, bars, curves }) => ({
  title,
  bars: bars?.map(({ label, share }) => ({ label, share: short(share) })),
  // What a kernel does not know has no curve.
  curves: curves?.map(curve).filter(({ y }) => y.some(Number.isFinite)),
}));
const numbers = metrics(tables, watched).map((one) => ({ ...one, value: short(one.value) }));
console.log(JSON.stringify({ plots: made, metrics: numbers }));
