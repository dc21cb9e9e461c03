// Prints the version and the build of the engine: node version.mjs ENGINE.wasm

import { readFileSync } from "node:fs";
import { Engine } from "../../web/engine.mjs";

const module = await WebAssembly.compile(readFileSync(process.argv[2]));
console.log((await Engine.create(module)).version);
