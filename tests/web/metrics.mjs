// node metrics.mjs ENGINE PLAN.json PAIRS.json: the page's numbers of a run, and its intervals of the
// mean differences between pairs of samples, as JSON.

import { readFileSync } from "node:fs";
import { Engine } from "../../web/engine.mjs";
import { metrics, paired } from "../../web/metrics.mjs";

const [file, plan, pairs] = process.argv.slice(2).map((path) => readFileSync(path));
const engine = await Engine.create(await WebAssembly.compile(file));
engine.load(plan.toString());
while (!engine.advance(1_000_000));
const { links, queue_monitors: monitors } = JSON.parse(plan);
const numbers = metrics(engine.tables(), links[monitors[0].link].name);
const intervals = JSON.parse(pairs).map(([first, second]) => paired(first, second));
console.log(JSON.stringify({ numbers, intervals }));
