// Numbers of a run, and the difference between two runs over seeds.

/** A rate from samples of a counter: one value for each sample but the first of each link. */
export function rates(t, counts, factor = 1) {
  const out = new Float64Array(t.length).fill(NaN);
  for (let at = 1; at < t.length; at += 1) {
    const span = t[at] - t[at - 1];
    if (span > 0) out[at] = ((Number(counts[at]) - Number(counts[at - 1])) * factor) / span;
  }
  return out;
}

/** The rows of a table whose column has a value. */
export function rows(table, column, value) {
  const keep = [];
  for (let at = 0; at < table[column].length; at += 1) if (table[column][at] === value) keep.push(at);
  return Object.fromEntries(
    Object.entries(table).map(([name, values]) => [name, keep.map((at) => values[at])]),
  );
}

const last = (values) => (values.length ? Number(values[values.length - 1]) : 0);
export const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** The least of sorted values that at least a share of them does not exceed. */
export function quantile(sorted, share) {
  return sorted.length ? sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] : NaN;
}

/**
 * What the page compares: name, unit and value, as the summary of a run has them.
 * A metric without data is left out.
 */
export function metrics(tables, watched) {
  const found = [];
  const add = (name, unit, value) => {
    if (Number.isFinite(value)) found.push({ name, unit, value });
  };
  const { queries, attempts } = tables;
  const asked = queries.measured.reduce((sum, value) => sum + value, 0);
  const ended = queries.end_s.reduce((n, at, row) => n + (queries.measured[row] && at === at ? 1 : 0), 0);
  if (asked) {
    let first = 0;
    const responses = [];
    const groups = new Map();
    for (let at = 0; at < queries.query.length; at += 1) {
      if (!queries.measured[at]) continue;
      if (queries.attempt[at] === 1) first += 1;
      if (!(queries.response_ms[at] >= 0)) continue;
      responses.push(queries.response_ms[at]);
      const group = queries.group[at];
      if (!groups.has(group)) groups.set(group, []);
      groups.get(group).push(queries.response_ms[at]);
    }
    for (const values of [responses, ...groups.values()]) values.sort((a, b) => a - b);
    add("DNS answered at the first attempt", "%", (100 * first) / Math.max(1, ended));
    add("DNS response time, median", "ms", quantile(responses, 0.5));
    // Groups may ask over other transports or from other distances.
    if (groups.size > 1) {
      const names = [...groups.keys()].sort();
      for (const name of names) add(`DNS response time, median of ${name}`, "ms", quantile(groups.get(name), 0.5));
    }
    add("DNS response time, 95 %", "ms", quantile(responses, 0.95));
    add("DNS attempts a query", "", attempts.query.length / queries.query.length);
  }
  const queue = rows(tables.queues, "link", watched);
  if (queue.t_s.length) {
    // Over packets: each sample counts by the packets that left since the last.
    let [sum, left] = [0, 0];
    queue.sojourn_mean_ms.forEach((wait, at) => {
      const sent = Number(queue.sent_packets[at]) - Number(queue.sent_packets[at - 1] ?? 0);
      if (wait === wait && sent > 0) [sum, left] = [sum + wait * sent, left + sent];
    });
    add("Wait in the queue, mean", "ms", sum / left);
    const arrived = last(queue.arrived_packets);
    const dropped =
      last(queue.dropped_overflow) + last(queue.dropped_early) + last(queue.dropped_forced);
    if (arrived) add("Packets dropped", "%", (100 * dropped) / arrived);
    const marked = last(queue.marked_early) + last(queue.marked_forced);
    if (marked) add("Packets marked", "%", (100 * marked) / arrived);
  }
  const link = rows(tables.links, "link", watched);
  if (link.t_s.length) add("Link in use", "%", (100 * last(link.busy_s)) / last(link.t_s));
  return found;
}

// Student's t, 97.5 %, for 1 to 4 degrees of freedom: as many as the page has seeds, less one.
const T = [NaN, 12.706204736, 4.30265273, 3.182446305, 2.776445105];

/**
 * Student's 95 % interval of the mean difference of each second value from its first, as
 * `narrows compare` has for runs with the same seeds.
 * @returns {{mean: number, half: number}}
 */
export function paired(first, second) {
  const differences = second.map((value, at) => value - first[at]);
  const middle = mean(differences);
  const n = differences.length;
  if (n < 2) return { mean: middle, half: NaN };
  const variance = differences.reduce((sum, d) => sum + (d - middle) ** 2, 0) / (n - 1);
  return { mean: middle, half: T[n - 1] * Math.sqrt(variance / n) };
}
