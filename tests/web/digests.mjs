// Runs plans in the WebAssembly engine: node digests.mjs ENGINE.wasm PLAN.json ...
// Prints the digest of each column of each run as JSON: {PLAN: {TABLE: {COLUMN: sha256}}}.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { Engine } from "../../web/engine.mjs";

const [file, ...plans] = process.argv.slice(2);
const engine = await Engine.create(await WebAssembly.compile(readFileSync(file)));

function digest(values) {
  const bytes = Array.isArray(values)
    ? JSON.stringify(values)
    : new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return createHash("sha256").update(bytes).digest("hex");
}

const map = (object, change) =>
  Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value)]));

const found = {};
for (const plan of plans) {
  engine.load(readFileSync(plan, "utf8"));
  while (!engine.advance(1_000_000));
  found[plan] = map(engine.tables(), (columns) => map(columns, digest));
}
console.log(JSON.stringify(found));
