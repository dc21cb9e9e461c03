// A time-sequence diagram as SVG: nodes are vertical lines, time goes downwards, and packets go from
// line to line. A bar on a node's line is a wait for its link; a cross is a loss. Long times in which
// nothing moves are cut short.

import { ms } from "./queries.mjs";

const TOP = 28;
const LEFT = 58;
const RIGHT = 34;
const BREAK = 56;
const LETTER = 6.3;
const LEAST_S = 1e-4; // a wait worth telling

const svg = (name, attributes, text = "") => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
};

/**
 * @param {import("./queries.mjs").Story} story
 * @param {number} width  in pixels
 */
export function sequence({ title, start, nodes, packets }, width) {
  const scale = vertical(packets);
  const height = scale.height + TOP + 24;
  const drawing = svg("svg", { class: "sequence", role: "img", width, height, viewBox: `0 0 ${width} ${height}` });
  drawing.setAttribute("aria-label", `${title}: its packets between ${nodes.join(", ")}, from top to bottom`);
  const gap = (width - LEFT - RIGHT) / Math.max(1, nodes.length - 1);
  const x = (node) => LEFT + gap * nodes.indexOf(node);
  const y = (t) => TOP + 12 + scale.at(t);
  nodes.forEach((node) => {
    drawing.append(svg("line", { class: "lane", x1: x(node), x2: x(node), y1: TOP, y2: height }));
    const most = Math.floor(gap / LETTER);
    const short = node.length > most ? `${node.slice(0, Math.max(1, most - 1))}…` : node;
    const name = svg("text", { x: x(node), y: TOP - 10, "text-anchor": "middle" }, short);
    name.append(svg("title", {}, node));
    drawing.append(name);
  });
  for (const { from, to } of scale.breaks) {
    const middle = y(to) - 20;
    drawing.append(
      svg("rect", { class: "break", x: 0, width, y: middle - 9, height: 18 }),
      svg("text", { class: "muted", x: LEFT + (width - LEFT - RIGHT) / 2, y: middle + 4, "text-anchor": "middle" },
        `${ms(to - from)} later`),
    );
  }
  const labels = taken();
  const notes = svg("g", {});
  for (const packet of packets) drawing.append(journey(packet, { x, y, start, labels, notes, width }));
  drawing.append(notes);
  return drawing;
}

function journey({ name, attempt, hops }, { x, y, start, labels, notes, width }) {
  const group = svg("g", { class: attempt ? "packet" : "packet other" });
  const events = [];
  const [first] = hops;
  const right = x(first.to) > x(first.at);
  const note = (text, at, t, anchor, kind = "") => {
    if (labels(at, y(t))) notes.append(svg("text", { class: kind, x: at, y: y(t) - 4, "text-anchor": anchor }, text));
  };
  note(`+${ms(first.queued - start)}`, LEFT - 8, first.queued, "end", "muted");
  for (const { link, at, to, queued, left, arrived, lost } of hops) {
    const place = x(at);
    const gone = left ?? queued;
    if (gone > queued) {
      group.append(svg("rect", { class: "wait", x: place - 3, width: 6, y: y(queued), height: y(gone) - y(queued) }));
      if (gone - queued > LEAST_S) events.push(`${ms(gone - queued)} at ${link}`);
    }
    if (arrived !== null) {
      group.append(svg("line", { x1: place, y1: y(gone), x2: x(to), y2: y(arrived) }));
    }
    if (lost) {
      // In the queue, or with `left` on the wire.
      const cross = left === null ? place : (place + x(to)) / 2;
      const end = y(gone) + (left === null ? 0 : 6);
      if (left !== null) group.append(svg("line", { x1: place, y1: y(gone), x2: cross, y2: end }));
      group.append(svg("path", { class: "lost", d: `M${cross - 6} ${end - 6}l12 12m0 -12l-12 12` }));
      const before = cross > width / 2;
      const side = { x: cross + (before ? -10 : 10), "text-anchor": before ? "end" : "start" };
      notes.append(svg("text", { class: "lost", y: end + 16, ...side }, `lost at ${link}`));
      events.push(`lost at ${link}`);
    }
  }
  note(name, x(first.at) + (right ? 6 : -6), first.left ?? first.queued, right ? "start" : "end");
  group.prepend(svg("title", {}, [name, ...events].join("; ")));
  return group;
}

/** Whether there is room for one more text at a place. */
function taken() {
  const places = [];
  return (x, y) => {
    if (places.some(([a, b]) => Math.abs(a - x) < 12 && Math.abs(b - y) < 12)) return false;
    places.push([x, y]);
    return true;
  };
}

/** Places of times: even, but for times in which nothing moves for longer than any packet took. */
function vertical(packets) {
  const times = (packet) =>
    packet.hops.flatMap(({ queued, left, arrived }) => [queued, left, arrived].filter((t) => t !== null));
  const all = [...new Set(packets.flatMap(times))].sort((a, b) => a - b);
  const trips = packets.map((packet) => Math.max(...times(packet)) - Math.min(...times(packet)));
  const longest = Math.max(...trips, 1e-6);
  const gaps = all.slice(1).map((t, n) => t - all[n]);
  const breaks = [];
  gaps.forEach((gap, n) => {
    if (gap > 1.5 * longest) breaks.push({ from: all[n], to: all[n + 1] });
  });
  const even = gaps.reduce((sum, gap) => sum + (gap > 1.5 * longest ? 0 : gap), 0);
  const pixels = Math.min(900, Math.max(160, (110 * even) / longest)) / (even || 1);
  const places = [0];
  gaps.forEach((gap, n) => places.push(places[n] + (gap > 1.5 * longest ? BREAK : gap * pixels)));
  const known = new Map(all.map((t, n) => [t, places[n]]));
  return { at: (t) => known.get(t), breaks, height: places[places.length - 1] ?? 0 };
}
