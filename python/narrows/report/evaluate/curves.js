// What is done to points before they are drawn: rates of totals, averages, distributions, means.

/** Applies a change to points in the order of x. */
export function changed(x, y, change) {
  if (change.kind === "means") { return means(x, y, change); }
  const first = change.from_zero ?? true ? 0 : y[0];
  const [times, total] = [[0, ...x], [first, ...y]];
  return change.slot_s ? smoothed(times, total, change.slot_s, change.kept ?? 0) : joined(times, total, change);
}

/** Rates per second in slots, V(n) = kept V(n-1) + (1 - kept) P(n), from a running total. */
function smoothed(times, total, slot, kept) {
  const slots = Math.floor(times[times.length - 1] / slot + 1e-6);
  const [x, y] = [[], []];
  let before = interpolated(times, total, 0);
  let last = 0;
  for (let n = 1; n <= slots; n += 1) {
    const now = interpolated(times, total, slot * n);
    last = kept * last + (1 - kept) * ((now - before) / slot);
    before = now;
    x.push(slot * n);
    y.push(last);
  }
  return [x, y];
}

function interpolated(times, values, at) {
  let [low, high] = [0, times.length - 1];
  if (at <= times[low]) { return values[low]; }
  if (at >= times[high]) { return values[high]; }
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (times[middle] <= at) { low = middle; } else { high = middle; }
  }
  const share = (at - times[low]) / (times[high] - times[low]);
  return values[low] + share * (values[high] - values[low]);
}

/** How many samples one interval has. */
function countTogether(x, least, most, apart) {
  let together = most == null ? 1 : Math.max(1, Math.ceil(x.length / most));
  if (x.length && least > 0 && least < x[x.length - 1] && apart > 0) {
    together = Math.max(together, Math.ceil(least / apart));
  }
  return Math.min(together, Math.max(1, x.length));
}

/** Rates between samples as steps that reach back. */
function joined(times, total, { least_s: least = 0, most }) {
  const count = times.length - 1;
  const together = countTogether(times.slice(1), least, most, times[1]);
  const kept = [0];
  for (let at = together; at <= count; at += together) { kept.push(at); }
  if (kept.length === 1 || kept[kept.length - 1] < count) { kept.push(count); }
  // The run may end too soon after a sample for a mean.
  const end = kept.length - 1;
  if (end > 1 && times[kept[end]] - times[kept[end - 1]] < 0.5 * (times[kept[1]] - times[kept[0]])) {
    kept.splice(end - 1, 1);
  }
  const rates = kept.slice(1).map((at, n) => (total[at] - total[kept[n]]) / (times[at] - times[kept[n]]));
  return [kept.map((at) => times[at]), [rates[0], ...rates]];
}

function means(times, values, { least_s: least = 0, most }) {
  const apart = times.length > 1 ? times[1] - times[0] : 0;
  if (apart <= 0) { return [times, values]; }
  const together = countTogether(times, least, most, apart);
  const [x, y] = [[], []];
  for (let end = together; end <= times.length; end += together) {
    const known = values.slice(end - together, end).filter((one) => !Number.isNaN(one));
    x.push(times[end - 1]);
    y.push(known.length ? known.reduce((a, b) => a + b, 0) / known.length : NaN);
  }
  // A step reaches back to the end of the interval before.
  return [[times[0] - apart, ...x], [y[0], ...y]];
}

/** Values in order, and the share of all rows in percent that are at most each (Kaplan and Meier). */
export function distribution({ values, known }) {
  const order = values.map((_, at) => at);
  order.sort((a, b) => (values[a] === values[b] ? Number(!known[a]) - Number(!known[b]) : values[a] - values[b]));
  const [x, y] = [[], []];
  let left = 1;
  order.forEach((at, n) => {
    if (!known[at]) { return; }
    left *= 1 - 1 / (order.length - n);
    x.push(values[at]);
    y.push(100 * (1 - left));
  });
  return x.length ? [[x[0], ...x], [0, ...y]] : [[], []];
}

/** The mean of curves, at the times of the first and as long as all of them last. */
export function meanOf(curves) {
  if (curves.length === 1) { return curves[0]; }
  const last = Math.min(...curves.map(([x]) => x[x.length - 1] ?? Infinity));
  const grid = curves[0][0].filter((time) => time <= last);
  const columns = curves.map(([x, y]) => {
    if (grid.every((time, at) => x[at] === time)) { return y; }
    return grid.map((time) => (x.length ? interpolated(x, y, time) : NaN));
  });
  return [grid, grid.map((_, at) => {
    const known = columns.map((column) => column[at]).filter((one) => !Number.isNaN(one));
    return known.length ? known.reduce((a, b) => a + b, 0) / known.length : NaN;
  })];
}
