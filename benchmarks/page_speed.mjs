// node page_speed.mjs ENGINE PLAN ROUNDS: the least processor time of a run in WebAssembly, in s.

import { readFileSync } from "node:fs";
import { Engine } from "../web/engine.mjs";

const [file, plan, rounds] = process.argv.slice(2);
const engine = await Engine.create(await WebAssembly.compile(readFileSync(file)));
const text = readFileSync(plan, "utf8");
let least = Infinity;
for (let round = 0; round < Number(rounds); round += 1) {
  engine.load(text);
  const before = process.cpuUsage();
  while (!engine.advance(1_000_000));
  const { user, system } = process.cpuUsage(before);
  least = Math.min(least, (user + system) / 1e6);
}
console.log(least);
