// Draws plots that are plain data ("drawings", docs/plots.md): curves with uPlot, bars and heat maps
// as HTML. Reports carry this module, and other pages can import it. uPlot must be loaded before.
// Texts of a drawing are foreign: they only become text, never markup.

import { bars } from "./draw/bars.js";
import { curves } from "./draw/curves.js";
import { heat } from "./draw/heat.js";
import { element } from "./draw/words.js";

/**
 * @typedef {{label: string, ends: [number, number], log?: boolean, ticks?: [number, string][],
 *   mixed?: boolean, linear_to?: number}} Axis
 * @typedef {{label: string, color: string, x: number[], y: (number|null)[], shape?: string,
 *   width?: number, dash?: boolean|"dots", seed?: boolean, margin?: string, low?: (number|null)[],
 *   high?: (number|null)[], marker?: string, values?: number[][], base?: number}} Curve
 * @typedef {{axis: "x"|"y", at: number, name: string, color?: string, dash?: boolean,
 *   upright?: boolean}} Level
 * @typedef {{begin: number, end: number, color?: string, label?: string, thin?: boolean,
 *   faint?: boolean}} Part
 * @typedef {{name: string, parts?: Part[], interval?: [number, number], at?: number, color?: string,
 *   text?: string, head?: boolean}} Bar
 * @typedef {{columns: string[], rows: string[], values: (number|null)[][], texts: string[][],
 *   unit?: string}} Heat
 * @typedef {{title: string, subtitle?: string, x: Axis, y: Axis, curves?: Curve[], levels?: Level[],
 *   bars?: Bar[], heat?: Heat, legend?: string, interval?: string,
 *   corner?: string}} Drawing
 * @typedef {{plot: any, destroy: () => void}} Drawn
 */

/**
 * Draws into an element, which is emptied first.
 * @param {Drawing} drawing
 * @param {HTMLElement} box
 * @param {{alt?: string, group?: Set<Drawn>, finer?: ?(low: number, high: number) => Curve[]}} [options]
 *   `alt`: what it shows, for readers who cannot see it; `group`: plots that share the pointer and the
 *   zoom, where their x axes have one label; `finer`: the curves with more points between two values of
 *   x, which a zoom then shows
 * @returns {Drawn}
 */
export function draw(drawing, box, options = {}) {
  box.replaceChildren();
  box.classList.add("plot");
  if (drawing.subtitle) { box.append(element("p", "subtitle", drawing.subtitle)); }
  if (drawing.bars) { return bars(drawing, box, options); }
  if (drawing.heat) { return heat(drawing.heat, box, options); }
  return curves(drawing, box, options);
}

/**
 * Draws every figure of a page that carries a drawing as JSON in a script element.
 * @param {Document|HTMLElement} root
 * @returns {Drawn[]}
 */
export function drawPage(root = document) {
  const group = new Set();
  return [...root.querySelectorAll("script.drawing")].map((data) => {
    const figure = data.closest("figure");
    const says = figure.querySelector(".says");
    const box = element("div", "");
    data.before(box);
    says?.classList.add("hidden");
    const drawn = draw(JSON.parse(data.textContent), box, { alt: says?.textContent ?? "", group });
    figure.drawn = drawn;
    return drawn;
  });
}
