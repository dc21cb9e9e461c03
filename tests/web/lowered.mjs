// Lowers settings of an example as the page does: node lowered.mjs ENGINE EXAMPLE.json SETTINGS.json
// Prints [plan, TOML] for each as a JSON array.

import { readFileSync } from "node:fs";
import { lower, toml } from "../../web/settings.mjs";

const [, example, settings] = process.argv.slice(2).map((file, at) =>
  at === 0 ? file : JSON.parse(readFileSync(file, "utf8")),
);
console.log(
  JSON.stringify(
    settings.map((each) => {
      const made = lower(example, each);
      return [made.plan, toml(made.toml)];
    }),
  ),
);
