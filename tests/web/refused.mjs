// Shows plans that are wrong to the engine: node refused.mjs ENGINE.wasm GOOD BAD ...
// Prints why each is refused, as a JSON array. The engine must still run the good plan afterwards.

import { readFileSync } from "node:fs";
import { Engine, EngineError } from "../../web/engine.mjs";

const [file, good, ...bad] = process.argv.slice(2);
const engine = await Engine.create(await WebAssembly.compile(readFileSync(file)));
const said = bad.map((plan) => {
  try {
    engine.load(readFileSync(plan, "utf8"));
    return "";
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    return error.message;
  }
});
engine.load(readFileSync(good, "utf8"));
while (!engine.advance(1000));
if (engine.stopped !== "end") throw new Error(engine.stopped);
console.log(JSON.stringify(said));
