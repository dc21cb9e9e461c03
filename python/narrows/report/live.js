// Plots that zoom and tell values, of the curves that stand beside each figure (live.py).
// The button below a figure makes its plot and shows it instead of the picture; again, the picture.
"use strict";
for (const data of document.querySelectorAll("script.curves")) {
  const figure = data.closest("figure");
  const picture = figure.querySelector("svg");
  const button = document.createElement("button");
  let box = null;
  const name = () => {
    button.textContent = box && !box.hidden ? "Show the picture" : "Zoom and read values";
  };
  button.type = "button";
  button.className = "live";
  button.addEventListener("click", () => {
    if (box === null) {
      box = document.createElement("div");
      figure.insertBefore(box, picture.nextSibling);
      box.hidden = true;
      plot(JSON.parse(data.textContent), box, figure.clientWidth);
    }
    box.hidden = !box.hidden;
    picture.style.display = box.hidden ? "" : "none";
    name();
  });
  name();
  figure.append(button);
}

const many = (value) => (value == null ? "" : String(Number(value.toPrecision(4))));

// Logarithmic axes are of response times, in milliseconds.
const time = (value) =>
  value == null ? "" : value >= 1000 ? many(value / 1000) + " s" : many(value) + " ms";
const steps = {
  splits: (self, axis, low, high) => {
    const found = [];
    for (let ten = 10 ** Math.floor(Math.log10(low)); ten <= high; ten *= 10) {
      found.push(...[ten, 2 * ten, 5 * ten].filter((value) => low <= value && value <= high));
    }
    return found;
  },
  filter: (self, splits) => splits,
  values: (self, splits) => splits.map(time),
};

function plot(curves, box, width) {
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink").trim();
  const grid = { stroke: style.getPropertyValue("--grid").trim(), width: 1 };
  const axis = (label) => ({ label, stroke: ink, grid, ticks: grid });
  // Curves have points of their own; uPlot wants one column of x, and bridges what is missing.
  const tables = curves.series.map((one) => [one.x, one.y]);
  const first = {};
  const series = curves.series.map((one) => {
    // The other seeds of a curve go with it.
    if (one.label) { first.label = one.label; }
    return {
      label: one.label || first.label + ", another seed",
      class: one.label ? null : "seed",
      stroke: one.label ? one.color : one.color + "59",
      width: one.width,
      spanGaps: true,
      points: { show: false },
      paths: one.step ? uPlot.paths.stepped({ align: one.step }) : uPlot.paths.linear(),
      value: (_, value) => many(value),
    };
  });
  const [low, high] = curves.ends;
  new uPlot(
    {
      title: curves.title,
      width: Math.max(280, width - 30),
      height: 360,
      scales: { x: { time: false, distr: curves.log ? 3 : 1, range: zoomed(low, high) } },
      axes: [{ ...axis(curves.x), ...(curves.log ? steps : {}) }, axis(curves.y)],
      series: [{ label: curves.x, value: (_, value) => (curves.log ? time : many)(value) }, ...series],
      hooks: { setSeries: [together] },
      cursor: { drag: { x: true, y: false } },
    },
    uPlot.join(tables),
    box,
  );
}

// Whoever switches a curve off or on means its other seeds too.
function together(self, index, options) {
  if (index === null || options.show == null) { return; }
  for (let i = index + 1; self.series[i]?.class === "seed"; i += 1) {
    if (self.series[i].show !== options.show) { self.setSeries(i, { show: options.show }); }
  }
}

// The whole figure's ends until somebody zooms; after a double click again.
function zoomed(low, high) {
  return (self, from, to) => {
    const all = self.data[0];
    const whole = from === all[0] && to === all[all.length - 1];
    return whole ? [low, high] : [from, to];
  };
}
