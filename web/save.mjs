// Files that the page gives: points as CSV, tables, and ZIP files, of which browsers only deflate parts.

import { plots } from "./plots.mjs";

export function save(name, type, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const quote = (text) => `"${String(text).replaceAll('"', '""')}"`;

/** All curves of a run as CSV: plot, curve, x, y. */
export function points({ tables, plan }) {
  const lines = ["plot,curve,x,y"];
  for (const { title, curves, bars } of plots(tables, plan)) {
    for (const { label, x, y } of curves ?? []) {
      for (let n = 0; n < x.length; n += 1) {
        lines.push([quote(title), quote(label), x[n], Number.isNaN(y[n]) ? "" : y[n]].join());
      }
    }
    for (const { label, share } of bars ?? []) lines.push([quote(title), quote(label), "", share].join());
  }
  return `${lines.join("\n")}\n`;
}

/** A table as CSV, with the columns of the run folder's table. */
function csv(table) {
  const names = Object.keys(table);
  const rows = table[names[0]].length;
  const cell = (value) => (typeof value === "string" ? quote(value) : Number.isNaN(value) ? "" : String(value));
  const lines = [names.join()];
  for (let row = 0; row < rows; row += 1) lines.push(names.map((name) => cell(table[name][row])).join());
  return `${lines.join("\n")}\n`;
}

/**
 * The scenario, the command that makes the same run folder, and the tables as CSV, in a ZIP file.
 * @param {string} name  the example's
 * @param {string} toml
 * @param {string} command  which makes the same of the example's own file
 * @param {{tables: object, why: string}} run  `why` it ended early, or nothing
 * @returns {Promise<Blob>}
 */
export function archive(name, toml, command, { tables, why }) {
  const readme =
    `Tables of a run of ${name}.toml, simulated on narrows' laboratory page.\n\n` +
    (why ? `The page's run ended early (${why}), and so do these tables.\n\n` : "") +
    `This command makes its run folder, with ${why ? "whole" : "the same"} tables as Parquet, and a report:\n\n` +
    `    narrows run ${name}.toml\n\n` +
    `A checkout of narrows can do it without that file, and without what only the page samples:\n\n` +
    `    ${command}\n`;
  const files = { [`${name}.toml`]: toml, "README.txt": readme };
  for (const [table, columns] of Object.entries(tables)) {
    if (Object.values(columns)[0]?.length) files[`${table}.csv`] = csv(columns);
  }
  return zip(Object.fromEntries(Object.entries(files).map(([path, text]) => [`${name}/${path}`, text])));
}

const CRC = Uint32Array.from({ length: 256 }, (_, byte) => {
  let sum = byte;
  for (let bit = 0; bit < 8; bit += 1) sum = sum & 1 ? (sum >>> 1) ^ 0xedb88320 : sum >>> 1;
  return sum;
});
const check = (bytes) => ~bytes.reduce((sum, byte) => (sum >>> 8) ^ CRC[(sum ^ byte) & 255], ~0) >>> 0;

const HEADS = { file: 0x04034b50, entry: 0x02014b50, end: 0x06054b50 };
const [VERSION, UTF8, DEFLATED, DAY] = [20, 0x800, 8, 0x5a21]; // 1 January 2025: runs have no date

/** Numbers of 16 and, where the list says [number], of 32 bits, little-endian. */
function packed(...numbers) {
  const bytes = new Uint8Array(numbers.reduce((sum, each) => sum + (each.length ? 4 : 2), 0));
  const view = new DataView(bytes.buffer);
  let at = 0;
  for (const each of numbers) {
    if (each.length) view.setUint32(at, each[0], true);
    else view.setUint16(at, each, true);
    at += each.length ? 4 : 2;
  }
  return bytes;
}

async function deflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** A ZIP file (PKWARE's APPNOTE.TXT, 4.3) of texts by path. */
async function zip(files) {
  const [parts, entries] = [[], []];
  let at = 0;
  for (const [path, text] of Object.entries(files)) {
    const [name, bytes] = [path, text].map((each) => new TextEncoder().encode(each));
    const data = await deflated(bytes);
    const facts = [VERSION, UTF8, DEFLATED, 0, DAY, [check(bytes)], [data.length], [bytes.length], name.length, 0];
    parts.push(packed([HEADS.file], ...facts), name, data);
    entries.push(packed([HEADS.entry], VERSION, ...facts, 0, 0, 0, [0], [at]), name);
    at += 30 + name.length + data.length;
  }
  const count = entries.length / 2;
  const length = entries.reduce((sum, each) => sum + each.length, 0);
  return new Blob([...parts, ...entries, packed([HEADS.end], 0, 0, count, count, [length], [at], 0)], { type: "application/zip" });
}
