// The part of the page that narrows lab adds: sweeps on all cores, and runs on a kernel, computed by
// narrows on this machine (python/narrows/lab/jobs.py). Both go on while the reader reads; one at a time.

import { draw } from "./draw.js";
import { decode } from "./engine.mjs";
import { ask } from "./native.mjs";

const SEEDS = [1, 3, 5, 10];
const USUAL_SEEDS = 3;
// What most readers ask first.
const FIRST = ["dns.first_attempt_percent", "run.sojourn_mean_ms"];

const made = (tag, text = "", more = {}) => Object.assign(document.createElement(tag), { textContent: text, ...more });

function labelled(text, input) {
  const label = made("label", `${text} `);
  label.append(input);
  return label;
}

/** A button that starts a job, and ends it while it is under way. */
class Job {
  constructor(id, start) {
    this.start = start;
    this.button = made("button", start, { id, type: "button" });
    this.says = made("p", "", { id: `${id}-state` });
    this.says.setAttribute("role", "status");
    this.ends = null; // an AbortController while it is under way
  }

  say(text, wrong = false) {
    this.says.textContent = text;
    this.says.classList.toggle("wrong", wrong);
  }

  stop() {
    this.ends?.abort();
    this.ends = null;
    this.button.textContent = this.start;
  }

  /** Does the job; `heard` gets each message. */
  async run(request, heard) {
    this.stop();
    const ends = new AbortController();
    this.ends = ends;
    this.button.textContent = "Stop";
    try {
      for await (const { facts, bytes } of ask("job", JSON.stringify(request), ends.signal)) {
        if (this.ends !== ends) return;
        if (facts.state === "refused") throw new Error(facts.why);
        heard(facts, bytes);
      }
    } catch (error) {
      if (this.ends === ends) this.say(error.message, true);
    } finally {
      if (this.ends === ends) this.stop();
    }
  }
}

export class Machine {
  /**
   * @param {HTMLDetailsElement} box
   * @param {() => {example: string, settings: Record<string, string>}} here  what the page shows now
   * @param {() => {name: string, label: string}[]} knobs  those that mean something now
   * @param {() => void} overlay  called when `kernel` has changed
   */
  constructor(box, here, knobs, overlay) {
    Object.assign(this, { box, here, knobs, overlay });
    this.plots = [];
    this.kernel = null; // {name, tables} of the kernel's run
    this.sweep = new Job("sweep", "Start the sweep");
    this.linux = new Job("linux", "Run it on Linux");
    this.knob = made("select", "", { id: "sweep-knob" });
    this.seeds = made("select", "", { id: "sweep-seeds" });
    this.seeds.append(...SEEDS.map((count) => made("option", String(count), { selected: count === USUAL_SEEDS })));
    this.metric = made("select", "", { id: "sweep-metric" });
    this.plot = made("article", "", { hidden: true });
    this.flags = made("ul");
    const choices = made("p", "", { className: "buttons" });
    choices.append(labelled("Vary", this.knob), labelled("seeds", this.seeds), this.sweep.button);
    this.shown = labelled("Metric", this.metric);
    this.shown.hidden = true;
    const kernel = made("p", "", { className: "buttons" });
    kernel.append(this.linux.button, made("span", "the same scenario on a real kernel, over these plots"));
    box.append(choices, this.sweep.says, this.shown, this.plot, kernel, this.linux.says, this.flags);
    this.sweep.button.addEventListener("click", () => this.#toggle(this.sweep, () => this.#startSweep()));
    this.linux.button.addEventListener("click", () => this.#toggle(this.linux, () => this.#startKernel()));
    this.metric.addEventListener("change", () => {
      this.wanted = this.metric.value;
      this.#draw();
    });
    box.addEventListener("toggle", () => this.update());
  }

  /** The run folder of what the page shows, as a ZIP file: its name, why it ended early, and bytes. */
  async folder() {
    for await (const message of ask("job", JSON.stringify({ job: "folder", ...this.here() }))) {
      if (message.facts.state === "refused") throw new Error(message.facts.why);
      if (message.facts.state === "done") return message;
    }
    throw new Error("the run did not end");
  }

  /** The knobs have moved: a kernel's run of other settings lies over these plots no longer. */
  moved() {
    if (this.linux.ends) this.linux.say("Ended: a knob has moved.");
    else if (this.kernel) this.linux.say("");
    this.linux.stop();
    this.kernel = null;
    this.flags.replaceChildren();
    if (this.swept && this.swept !== this.#others()) this.sweep.say("The knobs have moved since this sweep began.");
    this.update();
  }

  /** Another example, or a lesson, is there: nothing of the old one stays. */
  leave() {
    this.sweep.stop();
    this.sweep.say("");
    this.swept = null;
    this.plots = [];
    this.plot.drawn?.destroy();
    this.plot.hidden = this.shown.hidden = true;
    this.linux.stop();
    this.linux.say("");
    this.moved();
  }

  /** Lists the knobs. */
  update() {
    if (!this.box.open) return;
    const chosen = this.knob.value;
    this.knob.replaceChildren(...this.knobs().map(({ name, label }) => made("option", label, { value: name })));
    if (chosen) this.knob.value = chosen;
    if (this.knob.selectedIndex < 0) this.knob.selectedIndex = 0;
  }

  #toggle(job, start) {
    if (!job.ends) {
      start();
      return;
    }
    job.stop();
    job.say("Stopped.");
  }

  /** The settings of all knobs but the one that the sweep varies. */
  #others() {
    const { example, settings } = this.here();
    return JSON.stringify([example, { ...settings, [this.varied]: "" }]);
  }

  async #startSweep() {
    this.varied = this.knob.value;
    this.swept = this.#others();
    this.sweep.say("Starting.");
    this.#show([]);
    const request = { job: "sweep", ...this.here(), knob: this.varied, seeds: Number(this.seeds.value) };
    await this.sweep.run(request, ({ words, why, plots }) => {
      this.sweep.say([words, why].filter(Boolean).join("; "));
      if (plots) this.#show(plots);
    });
  }

  #show(plots) {
    const keys = (all) => all.map(({ key }) => key).join();
    if (keys(plots) !== keys(this.plots)) {
      const wanted = [this.wanted, this.metric.value, ...FIRST];
      this.metric.replaceChildren(...plots.map(({ key, name }) => made("option", name, { value: key })));
      const found = wanted.map((end) => end && plots.find(({ key }) => key.endsWith(end))).find(Boolean);
      if (found) this.metric.value = found.key;
    }
    this.plots = plots;
    this.#draw();
  }

  #draw() {
    const plot = this.plots.find(({ key }) => key === this.metric.value);
    this.plot.hidden = this.shown.hidden = !plot;
    if (!plot) return;
    this.plot.drawn?.destroy();
    const box = made("div");
    this.plot.replaceChildren(made("h3", plot.name), box);
    this.plot.drawn = draw(plot.drawing, box);
  }

  async #startKernel() {
    this.kernel = null;
    this.flags.replaceChildren();
    this.linux.say("Starting.");
    await this.linux.run({ job: "kernel", ...this.here() }, ({ state, progress, why, kernel, flags }, bytes) => {
      if (state === "running") {
        this.linux.say(progress ? `${Math.round(100 * progress)} %` : "Preparing a kernel.");
        return;
      }
      this.linux.say([`Dotted curves: ${kernel}`, why].filter(Boolean).join("; "));
      this.flags.replaceChildren(...flags.map((text) => made("li", text)));
      this.kernel = { name: kernel, tables: decode(bytes) };
      this.overlay();
    });
  }
}
