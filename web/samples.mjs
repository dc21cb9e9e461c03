// A curve's samples, as many of them as a plot can show: of each column the least and the largest.

const BLOCK = 64;

export class Samples {
  /** @param {import("./plots.mjs").Curve} curve */
  constructor({ x, y }, columns = 1200) {
    Object.assign(this, { x, y, columns });
    /** Whether a plot of all shows fewer. */
    this.many = x.length > 2 * columns;
    if (this.many) this.#index();
    this.all = this.#thinned(0, x.length);
  }

  /** As `all`, but for the samples between two values of x: as many of these as of the whole. */
  between(low, high) {
    const from = Math.max(0, this.#first((x) => x > low) - 1);
    const to = Math.min(this.x.length, this.#first((x) => x >= high) + 1);
    return [...this.all.filter((at) => at < from), ...this.#thinned(from, to), ...this.all.filter((at) => at >= to)];
  }

  /** The number of the first sample of which something holds, as it does of all after it. */
  #first(holds) {
    let [from, to] = [0, this.x.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (holds(this.x[middle])) to = middle;
      else from = middle + 1;
    }
    return from;
  }

  #index() {
    const count = Math.ceil(this.y.length / BLOCK);
    const blocks = { lows: new Uint32Array(count), highs: new Uint32Array(count) };
    for (let block = 0; block < count; block += 1) {
      const end = Math.min(this.y.length, (block + 1) * BLOCK);
      [blocks.lows[block], blocks.highs[block]] = this.#ends(block * BLOCK, end);
    }
    this.blocks = blocks;
  }

  #thinned(from, to) {
    if (to - from <= 2 * this.columns) return Array.from({ length: to - from }, (_, n) => from + n);
    const keep = [];
    for (let column = 0; column < this.columns; column += 1) {
      const edge = (number) => from + Math.floor((number * (to - from)) / this.columns);
      const [low, high] = this.#ends(edge(column), edge(column + 1));
      keep.push(...(low <= high ? [low, high] : [high, low]));
    }
    return keep;
  }

  /** The numbers of the least and the largest sample of a range; a gap is neither, beside a number. */
  #ends(from, to) {
    const { y, blocks } = this;
    let [low, high] = [from, from];
    for (let at = from; at < to;) {
      const whole = blocks && at % BLOCK === 0 && at + BLOCK <= to;
      const [least, most] = whole ? [blocks.lows[at / BLOCK], blocks.highs[at / BLOCK]] : [at, at];
      if (y[least] < y[low] || Number.isNaN(y[low])) low = least;
      if (y[most] > y[high] || Number.isNaN(y[high])) high = most;
      at += whole ? BLOCK : 1;
    }
    return [low, high];
  }
}
