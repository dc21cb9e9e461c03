// The page: an example, its knobs, the run that they make, and its plots.

import { show } from "./draw.mjs";
import { mean, metrics, paired } from "./metrics.mjs";
import { band, plots } from "./plots.mjs";
import { Runner } from "./runs.mjs";
import { active, command, lower, toml } from "./settings.mjs";
import { placed, read, written } from "./state.mjs";

const FIRST = "dns-behind-red";
const SEEDS = 5;
const LINK_MS = 250;

const at = (id) => document.getElementById(id);
const made = (tag, text = "", name = "") => {
  const element = document.createElement(tag);
  element.textContent = text;
  if (name) element.className = name;
  return element;
};

const page = {
  example: null, // as python/narrows/lab/build.py wrote it
  settings: [], // one number for each knob
  run: null, // {plan, tables, why}; why is it not whole
  pinned: null, // {settings, plan, tables, seeds}
  seeds: null, // metrics of each seed, of the run and of A, and the run's plots
  link: { last: -LINK_MS, timer: 0, seen: "" }, // see showLink
};
let runner;
let seedRunner;
let pinRunner;
let stories; // loaded after the first picture
let machine; // likewise, if the page's server is narrows lab
let recorded; // runs on a kernel; likewise
let tour = []; // docs/tour.md's questions, with links and answers; loaded after the first picture
let pressedAt = 0;

async function get(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer;
}

async function begin() {
  const [list, lessons, module] = await Promise.all([
    get("examples.json").then((answer) => answer.json()),
    get("lessons.json").then((answer) => answer.json()),
    get("engine.wasm").then((answer) => answer.arrayBuffer()).then(WebAssembly.compile),
  ]);
  runner = new Runner(module);
  const option = ({ name, title }) => {
    const element = made("option", title.replace(/\.$/, ""));
    element.value = name;
    return element;
  };
  // By the name of the file, as the documents name an example.
  const listed = ({ name, title }) => option({ name, title: `${name}: ${title}` });
  at("example").append(...list.map(listed));
  at("lessons").append(...lessons.map(option));
  const known = new Set(list.map(({ name }) => name));
  const open = async () => {
    endLesson();
    const { name, settings, pinned } = read(location.hash);
    const first = list.find(({ own }) => own)?.name ?? FIRST;
    const chosen = known.has(name) ? name : first;
    await load(chosen);
    const here = placed(page.example, settings);
    page.settings = here.at;
    page.pinned = null;
    pressed();
    answer();
    const wrong = name && !known.has(name) ? `No example is called ${name.slice(0, 60)}` : here.wrong;
    // Meanwhile page.run is another example's.
    document.body.dataset.state = "running";
    if (pinned) await pin(placed(page.example, pinned).at);
    turn(wrong);
  };
  addEventListener("hashchange", () => {
    if (location.hash !== address()) open();
  });
  at("example").addEventListener("change", ({ target }) => {
    location.hash = `#${target.value}`;
  });
  at("lessons").addEventListener("change", ({ target }) => learn(target.value));
  at("questions").addEventListener("change", ({ target }) => {
    if (target.value) location.hash = target.value;
    else endLesson();
  });
  listen(module);
  await open();
  const { jobs } = await (await get("here.json")).json();
  if (jobs) await addMachine();
  await addRecorded();
  // Last, because readers want the first picture before the questions.
  tour = await (await get("tour.json")).json();
  at("questions").append(...tour.map(({ link, title }) => option({ name: link, title })));
  answer();
}

/** Adds what narrows on this machine computes. */
async function addMachine() {
  const { Machine } = await import("./machine.mjs");
  const here = () => ({
    example: page.example.name,
    settings: Object.fromEntries(
      page.example.knobs.flatMap(({ name, settings }, number) =>
        page.settings[number] === page.example.own[number] ? [] : [[name, settings[page.settings[number]].text]],
      ),
    ),
  });
  const knobs = () =>
    page.example.knobs.filter(({ name }, number) => name !== "seed" && active(page.example, number, page.settings));
  machine = new Machine(at("machine"), here, knobs, () => {
    recorded?.moved(page);
    paint();
  });
  at("machine").hidden = false;
  at("save-run").textContent = "Save run folder";
}

/** Adds the runs on a kernel that some examples have. */
async function addRecorded() {
  const [{ Recorded }, kernels] = await Promise.all([
    import("./recorded.mjs"),
    get("recorded.json").then((answer) => answer.json()),
  ]);
  recorded = new Recorded(at("recorded"), kernels, (says, wrong) => {
    // Until then, page.run is another one's.
    if (document.body.dataset.firstMs) paint();
    say(says, wrong);
  });
  if (document.body.dataset.state !== "asks") recorded.moved(page);
}

/** Begins a lesson, or ends it if the name is empty. */
async function learn(name) {
  if (!name) {
    endLesson();
    turn();
    return;
  }
  const [lesson, { teach }] = await Promise.all([
    get(`lesson-${name}.json`).then((answer) => answer.json()),
    import("./lesson.mjs"),
  ]);
  await load(lesson.example);
  page.settings = [...page.example.own];
  page.pinned = null;
  pressed();
  showSettings();
  at("lesson").hidden = false;
  teach(at("lesson"), lesson, blank, (settings) => {
    at("controls").inert = false;
    page.settings = placed(page.example, Object.entries(settings)).at;
    turn();
  });
}

/** Shows the question whose link is the page's address, and its answer. */
function answer() {
  const asked = tour.find(({ link }) => link === location.hash);
  if (!asked) return;
  const { title, link, answer: text } = asked;
  at("questions").value = link;
  at("lesson").replaceChildren(made("h2", title), ...text.split("\n\n").map((each) => made("p", each)));
  at("lesson").hidden = false;
}

function endLesson() {
  at("lesson").hidden = true;
  at("lessons").value = "";
  at("questions").value = "";
  at("controls").inert = false;
}

/** Takes away every number and plot, and the knobs that would bring them, before a prediction. */
function blank() {
  runner.stop();
  at("controls").inert = true;
  at("metrics").tHead.replaceChildren();
  at("metrics").tBodies[0].replaceChildren();
  at("metrics").hidden = true;
  removePlots(0);
  stories?.update(null);
  machine?.leave();
  recorded?.leave();
  at("machine").hidden = true;
  say("Make a prediction first; then the run shows the answer.");
  document.body.dataset.state = "asks";
}

const address = () => written(page.example, page.settings, page.pinned?.settings);

async function load(name) {
  // An A that is not there yet belongs to the link before.
  pinRunner?.stop();
  if (page.example?.name !== name) {
    machine?.leave();
    recorded?.leave();
    page.example = await (await get(`examples/${name}.json`)).json();
  }
  Runner.native = Boolean(page.example.native);
  at("where").textContent = Runner.native
    ? "Simulated by narrows on this machine, because this scenario has parts of your own."
    : "Simulated here in your browser by narrows: no server takes part.";
  at("example").value = name;
  document.title = `${page.example.title} narrows`;
  const [title, ...about] = page.example.about.split("\n\n");
  at("about").firstElementChild.textContent = title.replaceAll("\n", " ");
  at("about").lastElementChild.textContent = flowed(about.join("\n\n"));
  at("knobs").replaceChildren(...page.example.knobs.map(knobElement));
}

/** A comment without the breaks inside its sentences; indented lines are commands, and stay. */
const flowed = (text) => text.replaceAll(/^(\S.*)\n(?=\S)/gm, "$1 ");

function knobElement(knob, number) {
  const row = made("div", "", "knob");
  const label = made("label", knob.label);
  label.htmlFor = `knob-${number}`;
  const input = document.createElement(knob.slider ? "input" : "select");
  input.id = label.htmlFor;
  input.name = knob.name;
  if (knob.slider) {
    Object.assign(input, { type: "range", min: 0, max: knob.settings.length - 1, step: 1 });
    row.append(label, made("output"), input);
  } else {
    input.append(...knob.settings.map(({ text }, value) => {
      const option = made("option", text);
      option.value = value;
      return option;
    }));
    row.append(label, input);
  }
  input.addEventListener("input", () => {
    page.settings[number] = Number(input.value);
    turn();
  });
  return row;
}

function showSettings() {
  const { example, settings } = page;
  [...at("knobs").children].forEach((row, number) => {
    const knob = example.knobs[number];
    const input = row.querySelector("input, select");
    const text = knob.settings[settings[number]].text;
    row.hidden = !active(example, number, settings);
    row.classList.toggle("moved", settings[number] !== example.own[number]);
    input.value = settings[number];
    if (knob.slider) {
      row.querySelector("output").textContent = text;
      input.setAttribute("aria-valuetext", text);
    }
  });
  showLink();
  const lowered = lower(example, settings);
  const before = new Set(toml(lower(example, example.own).toml).split("\n"));
  at("toml").replaceChildren(
    ...toml(lowered.toml).split("\n").map((line) => made("span", `${line}\n`, before.has(line) ? "" : "moved")),
  );
  at("command").textContent = command(example, settings);
  return lowered.plan;
}

/**
 * Puts the settings into the address, soon: browsers ignore changes beyond 200 in 30 s, which a knob
 * that is dragged makes. A link that was followed in the meantime stays.
 */
function showLink() {
  const { link } = page;
  link.seen = location.hash;
  const wait = link.last + LINK_MS - performance.now();
  if (wait > 0) {
    link.timer ||= setTimeout(() => {
      link.timer = 0;
      if (location.hash === link.seen) showLink();
    }, wait);
    return;
  }
  link.last = performance.now();
  history.replaceState(null, "", address());
}

/** Shows the settings and runs them. */
function turn(wrong = "") {
  const plan = showSettings();
  page.seeds = null;
  stories?.update(null);
  machine?.moved();
  recorded?.moved(page);
  at("machine").hidden = !machine;
  say(wrong || "Running.", Boolean(wrong));
  document.body.dataset.state = "running";
  delete document.body.dataset.firstMs;
  const run = { plan };
  const begun = performance.now();
  let first = 0;
  runner.start(plan, (data) => {
    const refuse = (why) => {
      say(`${why}${data.version ? otherBuild(data.version) : ""}`, true);
      document.body.dataset.state = "refused";
    };
    if (data.state === "refused") {
      refuse(data.failed ? data.why : `The simulator refuses this: ${data.why}`);
      return;
    }
    page.run = Object.assign(run, { tables: data.tables, why: data.why });
    if (data.state === "done") tellable(run);
    try {
      paint();
    } catch (error) {
      refuse(`The page cannot show this run: ${error.message}`);
      throw error;
    }
    first ||= performance.now() - begun;
    document.body.dataset.firstMs = first.toFixed(1);
    const events = `${(data.events / 1e6).toPrecision(2)} million events`;
    const by = Runner.native ? ", by narrows on this machine" : otherBuild(data.version);
    const words = `${data.now_s.toPrecision(3)} s simulated in ${Math.round(data.ms)} ms${by}, ${events}`;
    if (data.state === "running") say(wrong || `${Math.round(100 * data.progress)} %: ${words}`, Boolean(wrong));
    else say(wrong || `${words}${data.why ? `; ${data.why}` : ""}`, Boolean(wrong || data.why));
    document.body.dataset.state = data.state;
  });
}

/** Names the engine's build if it is not that of the narrows that made the plan. */
function otherBuild(version) {
  const { narrows } = page.example;
  return version === narrows ? "" : `, by narrows ${version} instead of ${narrows} (run make web)`;
}

/** Lets the reader ask what happened to the queries of a run that has ended. */
async function tellable(run) {
  const number = runner.run;
  const { Stories } = await import("./stories.mjs");
  if (runner.run !== number) return;
  stories ??= new Stories(at("queries"), runner.module, paint);
  stories.update(run);
}

function say(text, wrong = false) {
  at("state").textContent = text;
  at("state").classList.toggle("wrong", wrong);
}

function paint() {
  const { plan, tables } = page.run;
  const drawn = plots(tables, plan);
  const seeds = page.seeds?.plots ?? [];
  const others = besides().map((other) => ({ plots: other.plots ?? plots(other.tables, other.plan), ...other }));
  while (at("plots").children.length < drawn.length) at("plots").append(made("article", "", "card"));
  removePlots(drawn.length);
  drawn.forEach((plot, number) => {
    const beside = others.flatMap(({ plots: theirs, ...how }) => {
      const other = theirs.find(({ title }) => title === plot.title);
      return other ? [{ ...how, plot: other }] : [];
    });
    const range = seeds.length ? band(plot.title, seeds) : null;
    show(at("plots").children[number], plot, beside, stories?.events, range);
  });
  numbers();
}

/** The runs whose curves lie over those of this one: A, and a kernel's. */
function besides() {
  const { pinned, run } = page;
  const found = pinned ? [{ name: "A", dash: true, color: "orange", ...pinned }] : [];
  const other = kernel();
  if (other) found.push({ dash: "dots", color: "green", plan: run.plan, ...other });
  return found;
}

/** The run on a kernel that lies over this one: a recorded one, or one of this machine. */
const kernel = () => recorded?.run ?? machine?.kernel;

/** Removes all plots but so many. */
function removePlots(most) {
  while (at("plots").children.length > most) {
    at("plots").lastElementChild.drawn?.destroy();
    at("plots").lastElementChild.remove();
  }
}

const watched = ({ links, queue_monitors: [first] }) => (first ? links[first.link].name : "");
const round = (value) => Number(value.toPrecision(3));

function numbers() {
  const now = metrics(page.run.tables, watched(page.run.plan));
  const pinned = page.pinned && metrics(page.pinned.tables, watched(page.pinned.plan));
  const { seeds } = page;
  const other = kernel();
  const theirs = other && (other.metrics ?? metrics(other.tables, watched(page.run.plan)));
  const heads = ["", ...(pinned ? ["A", "B"] : ["this run"])];
  const compared = Boolean(pinned && seeds);
  if (compared) heads.splice(1, 2, `A, mean of ${SEEDS} seeds`, `B, mean of ${SEEDS} seeds`);
  if (seeds) heads.push(pinned ? "B − A, 95 % interval" : `least to most of ${SEEDS} seeds`);
  if (theirs) heads.push(other.name);
  const head = made("tr");
  head.append(...heads.map((text) => made("th", text)));
  at("metrics").hidden = false;
  at("metrics").tHead.replaceChildren(head);
  at("metrics").tBodies[0].replaceChildren(...now.map(({ name, unit, value }) => {
    const row = made("tr");
    const first = pinned?.find((each) => each.name === name);
    row.append(made("th", name));
    const [ofA, ofB] = compared
      ? [meanOver(seeds.pinned, name), meanOver(seeds.run, name)]
      : [first?.value, value];
    if (pinned) row.append(made("td", withUnit(ofA, unit)));
    row.append(made("td", withUnit(ofB, unit)));
    if (seeds) row.append(made("td", over(seeds, name, unit, Boolean(pinned))));
    if (theirs) row.append(made("td", withUnit(theirs.find((each) => each.name === name)?.value, unit)));
    return row;
  }));
}

const withUnit = (value, unit) => (value === undefined ? "" : `${round(value)} ${unit}`);

/** A metric of each seed, where all seeds have it. */
function ofSeeds(all, name) {
  const values = all.map((one) => one.find((each) => each.name === name)?.value);
  return values.includes(undefined) ? null : values;
}

function meanOver(all, name) {
  const values = ofSeeds(all, name);
  return values ? mean(values) : undefined;
}

/** What the seeds say about a metric: their range, or the interval of the difference from A. */
function over(seeds, name, unit, compared) {
  const values = ofSeeds(seeds.run, name);
  if (!values) return "";
  if (!compared) return `${round(Math.min(...values))} to ${round(Math.max(...values))} ${unit}`;
  const first = ofSeeds(seeds.pinned, name);
  if (!first) return "";
  const { mean: middle, half } = paired(first, values);
  const between = unit === "%" ? "points" : unit;
  return `${round(middle)} ± ${round(half)} ${between}${Math.abs(middle) > half ? "" : " (may be chance)"}`;
}

/** Runs settings as A, in a worker of its own: a knob that moves meanwhile must not end that. */
async function pin(settings) {
  pinRunner ??= new Runner(runner.module);
  const { plan } = lower(page.example, settings);
  const { tables } = await pinRunner.whole(plan);
  page.pinned = { settings: [...settings], plan, tables };
  pressed();
}

const pressed = () => at("pin").setAttribute("aria-pressed", String(Boolean(page.pinned)));

/** Runs this and A with each seed; a knob that moves meanwhile ends that. */
async function everySeed(module) {
  seedRunner ??= new Runner(module);
  const { example, settings, pinned } = page;
  const knob = example.knobs.findIndex(({ name }) => name === "seed");
  const found = { run: [], pinned: [], plots: [] };
  const begun = runner.run;
  for (let seed = 0; seed < example.knobs[knob].settings.length; seed += 1) {
    for (const [name, at] of [["run", settings], ["pinned", pinned?.settings]]) {
      if (!at) continue;
      const { plan } = lower(example, at.with(knob, seed));
      const { tables } = await seedRunner.whole(plan);
      found[name].push(metrics(tables, watched(plan)));
      if (name === "run") found.plots.push(plots(tables, plan));
      if (runner.run !== begun) return;
    }
    say(`${seed + 1} of ${SEEDS} seeds`);
  }
  page.seeds = found;
  paint();
  say(`${SEEDS} seeds`);
}

/** A click on a plot: on a bar or a point of the DNS plots it asks what happened to these queries. */
async function clicked({ target, clientX }) {
  if (target.matches(".save")) {
    const { drawing } = target.closest(".card");
    const name = `${page.example.name} ${drawing.title}`.replaceAll(/[^A-Za-z0-9]+/g, "-").toLowerCase();
    const [{ vector }, { save }] = await Promise.all([import("./vector.mjs"), import("./save.mjs")]);
    save(`${name}.svg`, "image/svg+xml", vector(drawing));
    return;
  }
  const bar = target.closest(".bars > *");
  if (bar) {
    let name = bar;
    while (name && !name.classList.contains("name")) name = name.previousElementSibling;
    if (name) stories?.choose(name.textContent);
    return;
  }
  const plot = target.closest(".card")?.drawn?.plot;
  // Whoever drags zooms.
  if (!plot || !target.closest(".u-over") || Math.abs(clientX - pressedAt) > 3) return;
  if (!plot.axes[0].label.startsWith("response")) return;
  stories?.tellOf(plot.posToVal(plot.cursor.left, "x"));
}

function listen(module) {
  at("knobs").addEventListener("submit", (event) => event.preventDefault());
  at("reset").addEventListener("click", () => {
    page.settings = [...page.example.own];
    turn();
  });
  at("pin").addEventListener("click", () => {
    try {
      page.pinned = page.pinned ? null : { ...ended(), settings: [...page.settings] };
    } catch (error) {
      say(`This cannot be pinned: ${error.message}`, true);
      return;
    }
    page.seeds = null;
    pressed();
    showLink();
    paint();
  });
  at("plots").addEventListener("mousedown", ({ clientX }) => {
    pressedAt = clientX;
  });
  at("plots").addEventListener("click", clicked);
  at("seeds").addEventListener("click", () => everySeed(module).catch((error) => say(error.message, true)));
  at("link").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      say("The link is copied.");
    } catch {
      say("Copy the link from the address bar: it holds all settings.");
    }
  });
  const saves = (id, then) => at(id).addEventListener("click", async () => {
    try {
      await then(await import("./save.mjs"));
    } catch (error) {
      say(`This cannot be saved: ${error.message}`, true);
    }
  });
  const name = () => page.example.name;
  saves("save-toml", ({ save }) => save(`${name()}.toml`, "application/toml", at("toml").textContent));
  saves("save-csv", ({ save, points }) => save(`${name()}.csv`, "text/csv", points(ended())));
  saves("save-run", saveRun);
}

/** The run of the settings that the page shows; until that has ended, page.run may be another. */
function ended() {
  if (document.body.dataset.state !== "done") throw new Error("wait until the run has ended");
  return page.run;
}

/** Saves the run folder, if narrows on this machine can make one; or else what makes it, and tables. */
async function saveRun({ archive, save }) {
  const { example, settings } = page;
  const button = at("save-run");
  if (!machine) {
    const made = await archive(example.name, at("toml").textContent, command(example, settings), ended());
    save(`${example.name}.zip`, "application/zip", made);
    return;
  }
  if (button.disabled) return;
  button.disabled = true;
  say("Running it again, for its folder.");
  try {
    const { facts, bytes } = await machine.folder();
    save(`${facts.name}.zip`, "application/zip", bytes);
    say(facts.why ? `Saved ${facts.name}: ${facts.why}` : `Saved ${facts.name}, for narrows report and narrows compare.`);
  } finally {
    button.disabled = false;
  }
}

begin().catch((error) => say(`The page cannot start: ${error.message}`, true));
