// What the page makes of an example and the settings of its knobs: the plan, the TOML, the command.
// python/narrows/lab/patches.py does the same, and tests compare them.

/** Whether a knob means something beside the other settings. */
export function active(example, number, settings) {
  const { needs } = example.knobs[number];
  return !needs || settings[place(example, needs[0])] === needs[1];
}

const place = (example, name) => example.knobs.findIndex((knob) => knob.name === name);

/** The plan and the TOML's values of some settings, one for each knob. */
export function lower(example, settings) {
  let document = example.base;
  example.knobs.forEach((knob, number) => {
    if (!active(example, number, settings)) return;
    const around = knob.context.map((name) => settings[place(example, name)]).join(",");
    for (const [path, value] of example.patches[knob.patches[around][settings[number]]]) {
      document = put(document, path, value);
    }
  });
  return { plan: together(document.plan), toml: document.toml };
}

/** A document with one value changed; the rest is shared with the old one. */
function put(document, [key, ...rest], value) {
  if (key === undefined) return value;
  const copy = Array.isArray(document) ? [...document] : { ...document };
  copy[key] = put(copy[key], rest, value);
  return copy;
}

/** A plan whose applications share one list of TCP settings, as the simulator reads it. */
function together(plan) {
  const tcp = [];
  const known = new Map();
  const shared = (settings) => {
    const text = JSON.stringify(settings);
    if (!known.has(text)) known.set(text, tcp.push(settings) - 1);
    return known.get(text);
  };
  const applications = plan.applications.map(({ name, kind, tcp: own }) => ({
    name,
    kind: numbered(kind, own.map(shared)),
  }));
  return { ...plan, tcp, applications };
}

function numbered(value, numbers) {
  if (Array.isArray(value)) return value.map((part) => numbered(part, numbers));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => [
      key,
      key === "tcp" && typeof part === "number" ? numbers[part] : numbered(part, numbers),
    ]),
  );
}

/** The command that runs the same. */
export function command(example, settings) {
  const sets = example.knobs.flatMap((knob, number) =>
    active(example, number, settings) ? knob.settings[settings[number]].set : [],
  );
  const run = example.command ?? `narrows run scenarios/${example.name}.toml`;
  return [run, ...sets.map((set) => `--set ${set}`)].join(
    " ",
  );
}

/** Values as TOML, in the form in which people write scenarios. */
export function toml(values) {
  const lines = [];
  const tables = [];
  for (const [key, value] of Object.entries(values)) {
    if (Array.isArray(value) && value.length && value.every(isTable)) {
      tables.push(...value.map((entry) => [`[[${key}]]`, entry]));
    } else if (isTable(value)) {
      tables.push([`[${key}]`, value]);
    } else if (value !== null) {
      lines.push(`${key} = ${inline(value)}`);
    }
  }
  for (const [head, table] of tables) lines.push("", head, ...pairs(table));
  return `${lines.join("\n")}\n`;
}

const isTable = (value) =>
  value !== null && typeof value === "object" && !Array.isArray(value);

const pairs = (table) =>
  Object.entries(table)
    .filter(([, value]) => value !== null)
    .map(([key, value]) => `${/^[\w-]+$/.test(key) ? key : JSON.stringify(key)} = ${inline(value)}`);

function inline(value) {
  if (Array.isArray(value)) return `[${value.map(inline).join(", ")}]`;
  if (isTable(value)) return pairs(value).length ? `{ ${pairs(value).join(", ")} }` : "{}";
  if (typeof value === "string") return JSON.stringify(value).replaceAll("\x7f", "\\u007f");
  return String(value);
}
