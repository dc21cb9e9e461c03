// Runs on a Linux kernel that were recorded before (tools/record_kernel.py), to lie over the simulator's:
// of the own settings of some examples.

export class Recorded {
  /**
   * @param {HTMLButtonElement} button  shows a run and takes it away
   * @param {Record<string, string>} kernels  by the name of an example
   * @param {(says: string, wrong?: boolean) => void} changed  called when `run` has changed
   */
  constructor(button, kernels, changed) {
    Object.assign(this, { button, kernels, changed });
    this.leave();
    button.addEventListener("click", () => this.#toggle());
  }

  /** Another example or other settings are there: a recorded run of its own settings, or none. */
  moved({ example, settings }) {
    this.leave();
    if (settings.some((at, knob) => at !== example.own[knob]) || !Object.hasOwn(this.kernels, example.name)) return;
    this.name = example.name;
    this.button.textContent = `${this.kernels[this.name]} (recorded)`;
    this.button.hidden = false;
  }

  leave() {
    this.name = "";
    this.button.hidden = true;
    this.#show(null);
  }

  #show(run) {
    this.run = run; // {name, plots, metrics}
    this.button.setAttribute("aria-pressed", String(Boolean(run)));
  }

  async #toggle() {
    if (this.run) {
      this.#show(null);
      this.changed("");
      return;
    }
    const { name } = this;
    try {
      const answer = await fetch(`recorded/${name}.json`);
      if (!answer.ok) throw new Error(String(answer.status));
      const { version, narrows, seed, flags, plots, metrics } = await answer.json();
      if (this.name !== name) return;
      this.#show({ name: this.kernels[name], plots, metrics });
      const made = `Linux ${version}, seed ${seed}, recorded by narrows ${narrows}`;
      this.changed([`Dotted curves: ${made}`, ...flags].join("; "));
    } catch (error) {
      if (this.name === name) this.changed(`The recorded run cannot be loaded: ${error.message}`, true);
    }
  }
}
