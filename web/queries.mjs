// What happened to a DNS query: its attempts as a run's tables have them, and its packets as captures
// saw them, from hop to hop.

import { rows } from "./metrics.mjs";

/** Simulated after a query's end, so that packets still under way are not taken for lost ones. */
const AFTER_S = 5;

const REASONS = {
  overflow: "the queue was full",
  early: "the queue's AQM dropped it early",
  forced: "RED's average was above max",
  wire: "it was lost on the wire",
  mtu: "it was longer than the MTU",
  reassembly: "its fragments arrived late",
  "no-neighbour": "ARP gave no address",
};

const FATES = {
  late: "its answer came after its timer had ended",
  "query-lost": "the query was lost",
  "reply-lost": "the reply was lost",
  truncated: "the reply was truncated",
  refused: "the server refused the connection",
  closed: "the server closed the connection",
  reset: "the connection was reset",
  "timed-out": "nothing arrived in time",
  pending: "open when the run ended",
};

export const ms = (s) => (s >= 1 ? `${Number(s.toPrecision(3))} s` : `${Number((1000 * s).toPrecision(3))} ms`);

/**
 * Rows of `queries`: those without an answer, and then the slowest. As in the plots, only measured
 * queries that have ended.
 * @param {?number} attempt  only those answered at this attempt; 0: not answered; null: all
 */
export function slowest({ queries }, attempt, most) {
  const found = [];
  for (let row = 0; row < queries.query.length; row += 1) {
    const ended = queries.end_s[row] === queries.end_s[row];
    if (!queries.measured[row] || !ended) continue;
    if (attempt === null || queries.attempt[row] === attempt) found.push(row);
  }
  const took = (row) => queries.end_s[row] - queries.start_s[row];
  const failed = (row) => Number(queries.attempt[row] === 0);
  return found.sort((a, b) => failed(b) - failed(a) || took(b) - took(a) || a - b).slice(0, most);
}

/** The row of the answered query whose response time is nearest. */
export function nearest({ queries }, response) {
  let best = -1;
  const off = (row) => Math.abs(queries.response_ms[row] - response);
  for (let row = 0; row < queries.query.length; row += 1) {
    if (!queries.measured[row] || !(queries.response_ms[row] >= 0)) continue;
    if (best < 0 || off(row) < off(best)) best = row;
  }
  return best;
}

/** A query in a line. */
export function line({ queries }, row) {
  const made = queries.attempts[row];
  const attempt = queries.attempt[row];
  const times = `${made} attempt${made === 1 ? "" : "s"}`;
  const end = attempt
    ? `answered at attempt ${attempt} after ${ms(queries.response_ms[row] / 1000)}`
    : made ? `no answer after ${times}, ${ms(queries.end_s[row] - queries.start_s[row])}` : "turned away";
  return `Query ${queries.query[row]} of ${queries.group[row]}, at ${queries.start_s[row].toFixed(2)} s: ${end}`;
}

/** The plan that captures what happens to a query, and what a worker needs to stop after it. */
export function watching(tables, plan, row) {
  const { queries } = tables;
  const paths = path(plan, queries.group[row]);
  const captures = [...paths.there, ...paths.back].map((link) => ({ name: "", link }));
  const until_s = queries.end_s[row] + AFTER_S;
  return { plan: { ...plan, captures }, story: { query: queries.query[row], until_s } };
}

/** The links of a group's path, there and back. */
function path(plan, group) {
  const { kind } = plan.applications.find((each) => each.name === group && each.kind["dns-client"]);
  const { there, back } = kind["dns-client"];
  return { there: plan.paths[there].links, back: plan.paths[back].links };
}

/**
 * @typedef {{link: string, at: string, to: string, queued: number, left: ?number, arrived: ?number,
 *   lost: boolean}} Hop  where a packet waits and where the link takes it; times in seconds
 * @typedef {{name: string, attempt: number, hops: Hop[]}} Sent
 * @typedef {{title: string, start: number, nodes: string[], packets: Sent[], more: number,
 *   attempts: {text: string, lost_s: ?number}[]}} Story
 */

/**
 * The story of a query. @returns {Story}
 * @param {object} seen  the captures' table, from a run until `watching` says
 */
export function story(tables, plan, row, seen, most = 150) {
  const { queries } = tables;
  const start = queries.start_s[row];
  const end = queries.end_s[row];
  const paths = path(plan, queries.group[row]);
  const attempts = rows(tables.attempts, "query", queries.query[row]);
  const all = packets(plan, paths, seen, attempts, end);
  const nodes = [...new Set([...paths.there, ...paths.back].flatMap((link) => ends(plan, link)))];
  // From the client to the server, as the path there has them.
  const order = [...new Set(paths.there.flatMap((link) => ends(plan, link)))];
  const list = attempts.attempt.map((number, at) => described(tables, attempts, at, all, start));
  return {
    title: line(tables, row),
    start,
    nodes: [...order, ...nodes.filter((node) => !order.includes(node))].map((node) => plan.nodes[node]),
    packets: all.slice(0, most),
    more: Math.max(0, all.length - most),
    attempts: list,
  };
}

const ends = (plan, link) => [plan.links[link].from, plan.links[link].to];

/** The packets that crossed while the query lasted, in order of time. */
function packets(plan, paths, seen, attempts, end) {
  const found = new Map();
  const count = new Map();
  for (let at = 0; at < seen.t_s.length; at += 1) {
    const [link, inbound] = [seen.link[at], seen.inbound[at]];
    // Packets that look the same keep their order.
    const place = `${seen.id[at]} ${link} ${inbound}`;
    const nth = count.get(place) ?? 0;
    count.set(place, nth + 1);
    const id = `${seen.id[at]} ${nth}`;
    if (!found.has(id)) {
      found.set(id, { name: seen.name[at], attempt: seen.attempt[at], from: seen.from[at], times: new Map() });
    }
    const { times } = found.get(id);
    if (!times.has(link)) times.set(link, [null, null]);
    times.get(link)[inbound] = seen.t_s[at];
  }
  const client = plan.links[paths.there[0]].from;
  const sent = [...found.values()].map(({ name, attempt, from, times }) => {
    const links = from === client ? paths.there : paths.back;
    const own = attempts.attempt.indexOf(attempt);
    const datagram = attempts.transport[own] === "udp" && name.startsWith("query");
    const begun = datagram ? attempts.sent_s[own] : undefined;
    return { name, attempt, hops: hops(plan, links, times, begun) };
  });
  // What the first link dropped, no capture saw.
  attempts.attempt.forEach((number, at) => {
    const first = plan.links[paths.there[0]];
    if (attempts.fate[at] !== "query-lost" || attempts.lost_at[at] !== first.name) return;
    if (sent.some(({ attempt, name }) => attempt === number && name === "query")) return;
    sent.push({ name: "query", attempt: number, hops: hops(plan, paths.there, new Map(), attempts.sent_s[at]) });
  });
  const begins = ({ hops: [first] }) => first.queued;
  return sent
    .filter((one) => one.hops.length && (one.attempt || (last(one) >= attempts.sent_s[0] && begins(one) <= end)))
    .sort((a, b) => begins(a) - begins(b));
}

const last = ({ hops }) => {
  const { queued, left, arrived } = hops[hops.length - 1];
  return arrived ?? left ?? queued;
};

function hops(plan, links, times, begun) {
  const made = [];
  let queued = begun ?? times.get(links[0])?.[0];
  for (const link of links) {
    if (queued === undefined || queued === null) break;
    const [left, arrived] = times.get(link) ?? [null, null];
    const { name, from, to } = plan.links[link];
    made.push({ link: name, at: plan.nodes[from], to: plan.nodes[to], queued, left, arrived, lost: arrived === null });
    queued = arrived;
  }
  return made;
}

/** An attempt in a sentence or two, and when it was lost. */
function described(tables, attempts, at, packets, start) {
  const number = attempts.attempt[at];
  const mine = packets.filter(({ attempt }) => attempt === number);
  const place = attempts.lost_at[at];
  const lost = mine.flatMap(({ hops }) => hops).find((hop) => hop.lost && hop.link === place);
  const begun = `Attempt ${number}, ${ms(attempts.sent_s[at] - start)} after the first, over ${attempts.transport[at].toUpperCase()}`;
  const took = attempts.received_s[at] - attempts.sent_s[at];
  const parts = [`${begun}: ${FATES[attempts.fate[at]] ?? `answered after ${ms(took)}`}`];
  if (place) parts[0] += ` at ${place}: ${why(attempts.reason[at])}`;
  if (attempts.handshake_round_trips[at]) {
    const handshake = attempts.handshake_ms[at];
    parts.push(`The handshake took ${handshake >= 0 ? ms(handshake / 1000) : "too long"}`);
  }
  const lost_s = lost ? lost.left ?? lost.queued : null;
  const held = lost && sample(tables, place, lost_s);
  if (held) parts.push(`The queue held ${held} then`);
  const waits = mine.flatMap(({ name, hops }) =>
    hops.filter(({ left }) => left !== null).map(({ link, queued, left }) => ({ name, link, wait: left - queued })));
  const longest = waits.sort((a, b) => b.wait - a.wait)[0];
  if (longest?.wait > 0.001) {
    parts.push(`The ${longest.name} waited longest at ${longest.link}: ${ms(longest.wait)}`);
  }
  return { text: `${parts.join(". ")}.`, lost_s };
}

const why = (reason) => REASONS[reason] ?? `a middlebox dropped it (${reason.replace("middlebox-", "")})`;

/** The queue of a link at a time, from the last sample before it. */
function sample({ queues }, link, at) {
  const own = rows(queues, "link", link);
  const next = own.t_s.findIndex((t) => t > at);
  const before = (next < 0 ? own.t_s.length : next) - 1;
  if (before < 0) return "";
  const average = own.average_bytes[before];
  const kB = (bytes) => `${Number((Number(bytes) / 1000).toPrecision(3))} kB`;
  return kB(own.backlog_bytes[before]) + (average >= 0 ? ` (RED's average: ${kB(average)})` : "");
}
