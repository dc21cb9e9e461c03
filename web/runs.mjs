// Runs plans in workers: the newest one on the page, and some with other seeds beside it.

const LIMITS = { events: 30_000_000, ms: 60_000 };

/** A worker with an engine of its own. `heard` gets what it posts about the newest run. */
export class Runner {
  /** Whether narrows on this machine computes, because the example has parts of one's own. */
  static native = false;

  constructor(module) {
    this.module = module;
    this.run = 0;
    this.#start();
  }

  #start() {
    this.worker = new Worker("./worker.mjs", { type: "module" });
    this.worker.postMessage({ module: this.module });
    this.worker.onmessage = ({ data }) => {
      if (data.run !== this.run) return;
      this.heard(data);
      // Memory that ran out leaves an engine that cannot be used again.
      if (data.broken) this.#again();
    };
    this.worker.onerror = (event) => {
      this.heard({ run: this.run, state: "refused", why: event.message });
      this.#again();
    };
  }

  #again() {
    this.worker.terminate();
    this.#start();
  }

  /** Runs a plan in place of the one before it. */
  start(plan, heard, story) {
    this.heard = heard;
    this.run += 1;
    const { native } = Runner;
    this.worker.postMessage({ run: this.run, plan: JSON.stringify(plan), limits: LIMITS, story, native });
  }

  /** Ends the run, and says nothing more about it. */
  stop() {
    this.run += 1;
    this.worker.postMessage({ run: this.run });
  }

  /** What a whole run has posted at its end; with `story` the packets of a query (worker.mjs). */
  whole(plan, story) {
    return new Promise((resolve, reject) => {
      this.start(plan, (data) => {
        if (data.state === "refused" || data.failed) reject(new Error(data.why));
        if (data.state === "done") resolve(data);
      }, story);
    });
  }
}
