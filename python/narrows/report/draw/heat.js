// Draws heat maps as HTML.

import { element } from "./words.js";

export function heat({ columns, rows, values, texts }, box, { alt }) {
  const known = values.flat().filter((value) => value != null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const table = element("table", "heat");
  if (alt) { table.append(element("caption", "hidden", alt)); }
  const header = element("tr", "");
  header.append(element("td", ""), ...columns.map((name) => cell("th", name, "col")));
  table.append(header);
  rows.forEach((name, row) => {
    const line = element("tr", "");
    line.append(cell("th", name, "row"));
    columns.forEach((_, at) => {
      const value = values[row][at];
      const one = element("td", "", texts[row][at]);
      const share = value == null ? 0 : high > low ? (value - low) / (high - low) : 0.5;
      if (value != null) { one.style.background = `color-mix(in srgb, var(--blue) ${Math.round(70 * share)}%, var(--paper))`; }
      line.append(one);
    });
    table.append(line);
  });
  const scroll = element("div", "scroll");
  scroll.tabIndex = 0;
  scroll.append(table);
  box.append(scroll);
  return { plot: null, destroy: () => box.replaceChildren() };
}

function cell(tag, text, scope) {
  const made = element(tag, "", text);
  made.setAttribute("scope", scope);
  return made;
}
