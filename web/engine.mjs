// The simulator: crates/web, compiled to WebAssembly. Runs in pages, workers and Node.

/**
 * @typedef {Float64Array | BigUint64Array | Uint32Array | Uint8Array | string[]} Column
 * @typedef {Record<string, Record<string, Column>>} Tables  columns by table and name
 */

const ARRAYS = {
  f64: Float64Array,
  u64: BigUint64Array,
  u32: Uint32Array,
  u8: Uint8Array,
  bool: Uint8Array,
};

/**
 * Tables from bytes as `narrows_engine::write_tables` writes them, as copies.
 * @param {Uint8Array} bytes
 * @returns {Tables}
 */
export function decode(bytes) {
  const end = bytes.indexOf(10);
  const heads = JSON.parse(new TextDecoder().decode(bytes.subarray(0, end))).tables;
  let at = end + 1;
  const take = ({ type, bytes: length }) => {
    const values = bytes.slice(at, (at += length));
    if (type === "string") return JSON.parse(new TextDecoder().decode(values));
    return new ARRAYS[type](values.buffer);
  };
  return Object.fromEntries(
    heads.map(({ name, columns }) => [
      name,
      Object.fromEntries(columns.map((column) => [column.name, take(column)])),
    ]),
  );
}

/** A plan that the simulator refuses; or a run that needs too much memory, which breaks the engine. */
export class EngineError extends Error {
  constructor(why, broken = false) {
    super(why);
    this.broken = broken;
  }
}

/** What crates/web exports, and this file calls. */
const CALLED = [
  ...["input", "load", "version", "advance", "now", "progress", "events", "stopped", "tables", "packets"],
  ...["output", "output_bytes", "memory"],
];

/** One run at a time, in memory of its own. */
export class Engine {
  /**
   * @param {WebAssembly.Module} module
   * @throws {EngineError} if it is of a build that these files do not belong to
   */
  static async create(module) {
    const { exports } = await WebAssembly.instantiate(module, {});
    const missing = CALLED.filter((name) => !(name in exports));
    if (missing.length) {
      throw new EngineError(
        `The page and its engine are of different builds (engine.wasm has no ${missing[0]}). Run make web.`,
      );
    }
    return new Engine(exports);
  }

  constructor(exports) {
    this.exports = exports;
  }

  /**
   * Starts a run of a plan.
   * @param {string} plan  JSON
   * @throws {EngineError} with one line that says what is wrong with the plan
   */
  load(plan) {
    const bytes = new TextEncoder().encode(plan);
    this.#call(() => {
      const at = this.exports.input(bytes.length);
      new Uint8Array(this.exports.memory.buffer, at, bytes.length).set(bytes);
    });
    if (this.#call(() => this.exports.load())) throw new EngineError(this.#text());
  }

  /** The version and the build, as `narrows --version` prints them. */
  get version() {
    this.exports.version();
    return this.#text();
  }

  /** Handles up to `most` events; true once the run has stopped. */
  advance(most) {
    return this.#call(() => this.exports.advance(most)) === 1;
  }

  /** Simulated seconds. */
  get now() {
    return this.exports.now();
  }

  /** From 0 to 1. */
  get progress() {
    return this.exports.progress();
  }

  get events() {
    return this.exports.events();
  }

  /** Why the run stopped: end, dns-done, event-limit or interrupted; running if it has not. */
  get stopped() {
    this.exports.stopped();
    return this.#text();
  }

  /**
   * The tables of the run so far, as copies.
   * @returns {Tables}
   */
  tables() {
    return this.#tables(() => this.exports.tables());
  }

  /**
   * What the plan's captures have seen of a DNS query: a row for each time at which a packet left a
   * link or arrived at its end (crates/engine/src/packets.rs).
   */
  packets(query) {
    return this.#tables(() => this.exports.packets(query)).packets;
  }

  #tables(write) {
    this.#call(write);
    return decode(this.#output());
  }

  #output() {
    const { memory, output, output_bytes } = this.exports;
    return new Uint8Array(memory.buffer, output(), output_bytes());
  }

  #text() {
    return new TextDecoder().decode(this.#output());
  }

  #call(then) {
    try {
      return then();
    } catch (error) {
      if (!(error instanceof WebAssembly.RuntimeError)) throw error;
      throw new EngineError("the run needs more memory than a page may have; make it smaller", true);
    }
  }
}
