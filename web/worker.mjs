// Runs plans, away from the page, so that the page never waits. One run at a time: a new one ends
// the run before it.
//
// Gets {module} once and then {run, plan, limits, native}, or {run} alone to end a run; posts {run, state:
// "running" | "done" | "refused", ...}, and with "refused" why, and whether the worker is broken. With
// `story`, {query, until_s}, it runs until then and posts that query's packets alone. `native` runs are
// computed by narrows on this machine; `failed` says that a part of one's own has ended such a run.

import { Engine, EngineError } from "./engine.mjs";
import { compute } from "./native.mjs";

const FIRST_MS = 40; // until the first tables
const GROWTH = 2; // and then less and less often
const SLICE_MS = 20; // between looks for a newer run

let engine;
let newest = 0;
let native = new AbortController(); // ends the run of narrows that is under way

const next = new MessageChannel();
const turn = () =>
  new Promise((resolve) => {
    next.port1.onmessage = resolve;
    next.port2.postMessage(0);
  });

onmessage = async ({ data }) => {
  if (data.module) {
    engine = Engine.create(data.module);
    engine.catch(() => {}); // whoever awaits it says so
    return;
  }
  newest = data.run;
  native.abort();
  if (!data.plan) return;
  try {
    await (data.native ? relay(data) : drive(await engine, data));
  } catch (error) {
    if (data.native && newest !== data.run) return;
    const known = await engine.then(({ version }) => version, () => "");
    // Whatever went wrong, the page must not wait for ever.
    const failed = !known || !(error instanceof EngineError);
    const why = failed && known ? `The engine cannot run this: ${error.message}` : error.message;
    postMessage({ run: data.run, state: "refused", why, failed, broken: error.broken, version: known });
  }
};

async function drive(engine, { run, plan, limits, story }) {
  const begun = performance.now();
  const { version } = engine;
  engine.load(plan);
  let until = begun + FIRST_MS;
  let events = 2_000;
  for (;;) {
    const clock = performance.now();
    const done = engine.advance(events);
    const now = performance.now();
    events = Math.max(1_000, Math.min(1_000_000, (events * SLICE_MS) / Math.max(now - clock, 1)));
    const why =
      engine.events >= limits.events
        ? `stopped after ${limits.events / 1e6} million events`
        : now - begun >= limits.ms
          ? `stopped after ${limits.ms / 1000} s`
          : "";
    if (story && (done || why || engine.now >= story.until_s)) {
      postMessage({ run, state: "done", why, packets: engine.packets(story.query) });
      return;
    }
    if (!story && (done || why || now >= until)) {
      until = now + (now - begun) * GROWTH;
      const { tables, columns } = pick(engine.tables());
      const state = done || why ? "done" : "running";
      const facts = { now_s: engine.now, events: engine.events, progress: engine.progress, version };
      postMessage({ run, state, why, ms: now - begun, ...facts, tables }, columns);
      if (state === "done") return;
    }
    await turn();
    if (newest !== run) return;
  }
}

async function relay({ run, ...request }) {
  native = new AbortController();
  for await (const { facts, tables } of compute(request, native.signal)) {
    if (newest !== run) return;
    if (request.story) postMessage({ run, ...facts, packets: tables?.packets });
    else if (tables) postMessage({ run, ...facts, tables }, pick(tables).columns);
    else postMessage({ run, ...facts });
  }
}

/** The tables that the page reads; their numbers move without a copy. */
function pick(tables) {
  const columns = Object.values(tables).flatMap((table) =>
    Object.values(table).filter(ArrayBuffer.isView),
  );
  return { tables, columns: columns.map((column) => column.buffer) };
}
