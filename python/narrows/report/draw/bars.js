// Draws bars as HTML.

import { COLORS, element, evens, words } from "./words.js";

export function bars(drawing, box, { alt }) {
  const { x } = drawing;
  const across = x.linear_to ? symmetric(x.linear_to) : (value) => value;
  const [low, high] = x.ends.map(across);
  const at = (value) => `${(100 * (across(value) - low)) / (high - low)}%`;
  const ticks = x.ticks?.length ? x.ticks : barTicks(x).map((tick) => [tick, words(x, tick, "")]);
  const list = element("div", "bars");
  list.setAttribute("role", "img");
  list.setAttribute("aria-label", [drawing.title, alt].filter(Boolean).join(". "));
  for (const bar of drawing.bars) {
    list.append(element("span", bar.head ? "name heading" : "name", bar.name));
    const track = element("div", "track");
    if (!bar.head) {
      for (const [tick] of ticks) {
        track.append(placed("i", low < 0 && tick === 0 ? "tick zero" : "tick", at(tick)));
      }
      for (const part of bar.parts ?? []) { track.append(piece(part, bar, at, x)); }
      track.append(...whiskers(bar, at, x));
    }
    list.append(track, element("span", "text", bar.text ?? ""));
  }
  const foot = element("div", "track axis");
  for (const [tick, name] of ticks) {
    const label = placed("span", "", at(tick));
    label.textContent = name;
    foot.append(label);
  }
  list.append(element("span", "name foot"), foot, element("span", "text"));
  box.append(list, element("p", "x-label", x.label), barKey(drawing));
  return { plot: null, destroy: () => box.replaceChildren() };
}

function placed(tag, name, left) {
  const made = element(tag, name);
  made.style.left = left;
  return made;
}

function piece(part, bar, at, x) {
  const made = placed("b", ["part", part.thin && "thin", part.faint && "faint"].filter(Boolean).join(" "), at(part.begin));
  made.style.right = `calc(100% - ${at(part.end)})`;
  made.style.background = `var(--${part.color ?? "blue"}, ${COLORS[part.color ?? "blue"] ?? part.color})`;
  made.title = `${bar.name}${part.label ? `, ${part.label}` : ""}: ${words(x, part.begin)} to ${words(x, part.end)}`;
  return made;
}

function whiskers(bar, at, x) {
  const color = `var(--${bar.color ?? "ink"}, ${COLORS[bar.color ?? "ink"]})`;
  const made = [];
  if (bar.interval) {
    const line = placed("b", "interval", at(bar.interval[0]));
    line.style.right = `calc(100% - ${at(bar.interval[1])})`;
    line.style.color = color;
    line.title = `${bar.name}: ${bar.interval.map((end) => words(x, end)).join(" to ")}`;
    made.push(line);
  }
  if (bar.at != null) {
    const dot = placed("b", "dot", at(bar.at));
    dot.style.background = color;
    dot.title = `${bar.name}: ${words(x, bar.at)}`;
    made.push(dot);
  }
  return made;
}

function barTicks({ ends: [low, high], linear_to: to }) {
  if (!to) { return evens(low, high, 5); }
  const found = [-to / 2, 0, to / 2];
  for (let n = to; n <= Math.max(-low, high); n *= 10) { found.push(n); if (-n >= low) { found.unshift(-n); } }
  return found.filter((tick) => low <= tick && tick <= high);
}

/** Linear up to a value on both sides of zero, and logarithmic beyond. */
function symmetric(to) {
  return (value) => {
    const size = Math.abs(value) / to;
    return Math.sign(value) * (size <= 1 ? size : 1 + Math.log10(size));
  };
}

function barKey(drawing) {
  const legend = element("div", "legend");
  const found = new Map();
  for (const part of drawing.bars.flatMap((bar) => bar.parts ?? [])) {
    if (part.label && !found.has(part.label)) { found.set(part.label, part); }
  }
  for (const [label, part] of found) {
    const swatch = element("i", part.faint ? "block faint" : "block");
    swatch.style.setProperty("--of", `var(--${part.color ?? "blue"}, ${COLORS[part.color ?? "blue"]})`);
    const entry = element("span", "entry");
    entry.append(swatch, element("span", "", label));
    legend.append(entry);
  }
  if (drawing.interval) {
    const entry = element("span", "entry");
    entry.append(element("i", "whisker"), element("span", "", drawing.interval));
    legend.append(entry);
  }
  return legend;
}
