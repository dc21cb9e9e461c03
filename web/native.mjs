// What narrows on this machine computes: runs with parts of one's own (python/narrows/lab/native.py),
// in the messages of worker.mjs, and jobs (jobs.py).

import { decode, EngineError } from "./engine.mjs";

const NEWLINE = 10;
const ENDED = { run: "did compiled code crash?", job: "the terminal of narrows lab may say why" };

/**
 * Asks the server for a run, and yields its messages: facts, and tables as the engine's.
 * @param {{plan: string, limits: object, story: ?object}} request  the plan as JSON
 * @param {AbortSignal} signal  ends the run
 */
export async function* compute({ plan, limits, story }, signal) {
  const rest = JSON.stringify({ limits, story }).slice(1);
  for await (const { facts, bytes } of ask("run", `{"plan":${plan},${rest}`, signal)) {
    yield { facts, tables: bytes.length ? decode(bytes) : null };
  }
}

/**
 * Asks the server, and yields its messages: facts, and the bytes that follow them.
 * @param {string} path  run or job
 * @param {string} body  JSON
 * @param {AbortSignal=} signal  ends what it does
 */
export async function* ask(path, body, signal) {
  let answer;
  try {
    const headers = { "Content-Type": "application/json" };
    answer = await fetch(path, { method: "POST", headers, body, signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new EngineError("narrows does not answer; is narrows lab still running?");
  }
  if (!answer.ok) throw new EngineError(`narrows answers ${answer.status}: ${answer.statusText}`);
  const stream = new Arriving(answer.body.getReader());
  for (;;) {
    const line = await stream.line();
    const facts = line === null ? null : JSON.parse(line);
    const bytes = facts && (await stream.take(facts.bytes));
    if (!bytes) throw new EngineError(`the ${path}'s process has ended; ${ENDED[path]}`);
    yield { facts, bytes };
    if (facts.state !== "running") return;
  }
}

/** Bytes of a stream, as many as are asked for. */
class Arriving {
  constructor(reader) {
    this.reader = reader;
    this.bytes = new Uint8Array(0);
  }

  /** Up to the next newline; null at the end. */
  async line() {
    let end = this.bytes.indexOf(NEWLINE);
    while (end < 0) {
      if (!(await this.#hold(this.bytes.length + 1))) return null;
      end = this.bytes.indexOf(NEWLINE);
    }
    const line = new TextDecoder().decode(this.bytes.subarray(0, end));
    this.bytes = this.bytes.subarray(end + 1);
    return line;
  }

  /** So many bytes; null if the stream ends before. */
  async take(count) {
    if (!(await this.#hold(count))) return null;
    const taken = this.bytes.slice(0, count);
    this.bytes = this.bytes.subarray(count);
    return taken;
  }

  async #hold(count) {
    const parts = [this.bytes];
    let length = this.bytes.length;
    while (length < count) {
      const { done, value } = await this.reader.read();
      if (done) return false;
      parts.push(value);
      length += value.length;
    }
    if (parts.length > 1) {
      this.bytes = new Uint8Array(length);
      let at = 0;
      for (const part of parts) {
        this.bytes.set(part, at);
        at += part.length;
      }
    }
    return true;
  }
}
