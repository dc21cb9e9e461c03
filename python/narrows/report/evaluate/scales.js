// The ends of a drawing's axes, where a declaration leaves them to the data.

const MARGIN = 0.04;
const NARROW = 3;
const ABOVE = { x: 1.05, y: 1.12 };

/** The drawing with both ends of each axis. */
export function completed(drawing) {
  const heights = drawing.levels.filter((level) => level.axis === "y").map((level) => level.at);
  return {
    ...drawing,
    x: axisOf(drawing.x, "x", drawing.curves.map((curve) => curve.x), []),
    y: axisOf(drawing.y, "y", drawing.curves.map((curve) => curve.y), heights),
  };
}

function axisOf(axis, name, data, levels) {
  let [least, most] = [Infinity, -Infinity];
  for (const values of [...data, levels]) {
    for (const one of values) {
      if (!Number.isFinite(one) || (axis.log && one <= 0)) { continue; }
      if (one < least) { least = one; }
      if (one > most) { most = one; }
    }
  }
  const [low, high] = least <= most ? [least, most] : [0, 0];
  let [begin, end] = axis.ends;
  if (axis.log === "auto") { return chosen(axis, low, high); }
  if (axis.log) {
    const factor = low > 0 ? (high / low) ** MARGIN : 1;
    return { ...axis, ends: [begin || (low > 0 ? low / factor : 1), end || (high > low ? high * factor : 10)] };
  }
  if (begin != null && end == null) {
    end = high > begin ? begin + ABOVE[name] * (high - begin) : begin + 1;
  }
  const margin = MARGIN * (high - low) || 0.5;
  return { ...axis, ends: [begin ?? low - margin, end ?? high + margin] };
}

/** A logarithmic axis, or a linear one if the values are close together. */
function chosen(axis, low, high) {
  if (!(low > 0)) { return { ...axis, log: true, ends: [1, 10] }; }
  if (high < NARROW * low) {
    const margin = Math.max(MARGIN * (high - low), 5e-4 * high);
    return { ...axis, log: false, ends: [low - margin, high + margin] };
  }
  const factor = (high / low) ** MARGIN;
  const label = axis.label.includes("(") ? axis.label.replace(" (", ", logarithmic (") : `${axis.label}, logarithmic`;
  return { ...axis, log: true, ends: [low / factor, high * factor], label };
}
