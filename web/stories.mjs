// The part of the page that lists DNS queries and shows what happened to the chosen one.

import { line, nearest, slowest, story, watching } from "./queries.mjs";
import { Runner } from "./runs.mjs";
import { sequence } from "./sequence.mjs";

const LISTED = 8;
const NARROWEST = 300;

const made = (tag, text = "") => {
  const element = document.createElement(tag);
  element.textContent = text;
  return element;
};

export class Stories {
  /**
   * @param {HTMLDetailsElement} box
   * @param {WebAssembly.Module} module
   * @param {() => void} changed  called when `events` has changed
   */
  constructor(box, module, changed) {
    this.box = box;
    this.module = module;
    this.changed = changed;
    this.events = []; // times to mark in plots: {label, at}
    this.kind = box.querySelector("select");
    this.list = box.querySelector("ol");
    this.shown = box.querySelector("article");
    box.addEventListener("toggle", () => this.#fill());
    this.kind.addEventListener("change", () => this.#fill());
    new ResizeObserver(() => this.#draw()).observe(box);
  }

  /** Takes a run that has ended, or null while there is none. */
  update(run) {
    this.run = run;
    this.asked = null;
    this.story = null;
    this.events = [];
    this.shown.replaceChildren();
    this.box.hidden = !run || !slowest(run.tables, null, 1).length;
    if (!this.box.hidden) this.#fill();
  }

  #fill() {
    if (!this.run || !this.box.open) return;
    const { tables } = this.run;
    const attempts = [...new Set(tables.queries.attempt)].sort((a, b) => a - b);
    const chosen = this.kind.value;
    this.kind.replaceChildren(...["", ...attempts].map((attempt) => {
      const option = made("option", attempt === "" ? "all" : attempt ? `attempt ${attempt}` : "no answer");
      option.value = attempt;
      return option;
    }));
    this.kind.value = attempts.includes(Number(chosen)) ? chosen : "";
    const attempt = this.kind.value === "" ? null : Number(this.kind.value);
    this.list.replaceChildren(...slowest(tables, attempt, LISTED).map((row) => {
      const entry = made("li");
      const button = made("button", line(tables, row));
      button.type = "button";
      button.setAttribute("aria-pressed", String(row === this.asked));
      button.dataset.row = row;
      button.addEventListener("click", () => this.tell(row));
      entry.append(button);
      return entry;
    }));
  }

  /** Lists the queries that a bar of a plot stands for. */
  choose(name) {
    if (this.box.hidden) return;
    this.box.open = true;
    this.#fill();
    const option = [...this.kind.options].find(({ textContent }) => textContent === name);
    if (!option) return;
    this.kind.value = option.value;
    this.#fill();
    this.list.querySelector("button")?.focus();
  }

  /** Tells of the query with the nearest response time in milliseconds. */
  tellOf(response) {
    const row = this.run ? nearest(this.run.tables, response) : -1;
    if (row < 0) return;
    this.box.open = true;
    this.tell(row);
    this.box.scrollIntoView({ block: "nearest" });
  }

  /** Runs the simulation again until the end of a query, with its packets captured, and shows them. */
  async tell(row) {
    const { run } = this;
    this.asked = row;
    for (const button of this.list.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.row) === row));
    }
    this.runner ??= new Runner(this.module);
    this.shown.replaceChildren(made("p", "Following its packets."));
    try {
      const { plan, story: until } = watching(run.tables, run.plan, row);
      const { packets, why } = await this.runner.whole(plan, until);
      if (this.run !== run || this.asked !== row) return;
      this.story = { ...story(run.tables, run.plan, row, packets), why };
    } catch (error) {
      this.shown.replaceChildren(made("p", `Its packets cannot be shown: ${error.message}`));
      return;
    }
    const lost = this.story.attempts.filter(({ lost_s: at }) => at !== null);
    this.events = lost.length
      ? lost.map(({ lost_s: at }, n) => ({ label: n ? "" : "lost", at }))
      : [{ label: "asked", at: this.story.start }];
    this.#draw();
    this.changed();
  }

  #draw() {
    if (!this.story) return;
    const { title, attempts, packets, more, why } = this.story;
    const items = made("ol");
    items.append(...attempts.map(({ text }) => made("li", text)));
    this.shown.replaceChildren(made("h3", title), items);
    if (packets.length) this.shown.append(sequence(this.story, Math.max(NARROWEST, this.shown.clientWidth - 24)));
    else this.shown.append(made("p", "Its packets cannot be told from others: TLS and QUIC hide which query they carry."));
    if (more) this.shown.append(made("p", `${more} more packets crossed on its connections.`));
    if (why) this.shown.append(made("p", `Following it ${why}.`));
  }
}
