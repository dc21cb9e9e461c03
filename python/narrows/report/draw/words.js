// What drawings of all kinds have in common: elements, colours, values as words, round values.

export const COLORS = {
  ink: "#22272e", muted: "#6b7280", grid: "#e3e6ea", paper: "#ffffff", blue: "#0072b2",
  vermilion: "#d55e00", green: "#009e73", purple: "#cc79a7", orange: "#e69f00", sky: "#56b4e9",
};

export function element(tag, name, text = "") {
  const made = document.createElement(tag);
  if (name) { made.className = name; }
  made.textContent = text;
  return made;
}

/** The value of a colour's name at an element: pages have other colours on dark screens. */
export function paint(color, at) {
  const found = getComputedStyle(at).getPropertyValue(`--${color}`).trim();
  return found || COLORS[color] || color;
}

/** The unit in parentheses at the end of an axis's label. */
export function unitOf({ label, mixed }) {
  return mixed ? "ms" : (/\(([^\s()]+)\)$/.exec(label)?.[1] ?? "");
}

/** A value with its unit, as people read it. */
export function words(axis, value, unit = unitOf(axis)) {
  if (value == null || Number.isNaN(value)) { return "–"; }
  const named = axis.ticks?.find(([at]) => at === value);
  if (named) { return named[1]; }
  const [scale, shown] = axis.mixed && Math.abs(value) >= 1000 ? [1000, "s"] : [1, unit];
  return `${Number((value / scale).toPrecision(5))} ${shown}`.trim();
}

/** Round values between two ends of a logarithmic axis: 1, 2, 5, 10, ...; even steps if few fit. */
export function rounds(low, high, most = 12) {
  let found = [];
  for (const digits of [[1, 2, 5], [1, 3], [1]]) {
    found = [];
    for (let ten = 10 ** Math.floor(Math.log10(low)); ten <= high; ten *= 10) {
      found.push(...digits.map((n) => Number((n * ten).toPrecision(3))).filter((n) => low <= n && n <= high));
    }
    if (found.length <= most) { break; }
  }
  if (found.length < 3 && high < 30 * low) { return evens(low, high, 4); }
  const step = Math.ceil(found.length / most);
  return found.filter((_, at) => at % step === 0);
}

/** Even steps between two ends. */
export function evens(low, high, count) {
  const rough = (high - low) / count;
  const ten = 10 ** Math.floor(Math.log10(rough));
  const step = ten * [1, 2, 5, 10].find((digit) => digit * ten >= 0.999 * rough);
  const even = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high * (1 + 1e-9); n += 1) {
    even.push(Number((n * step).toPrecision(12)));
  }
  return even;
}
