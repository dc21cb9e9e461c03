// Rows of tables, and expressions over them.

/** The rows of a table that have these values: `columns`, and the numbers of the `rows`. */
export function selected(run, table, where) {
  const columns = withGroup(run.tables[table] ?? {}, run.tables.flows);
  const length = Object.values(columns)[0]?.length ?? 0;
  const wanted = Object.entries(where ?? {});
  const rows = [];
  for (let row = 0; row < length; row += 1) {
    if (wanted.every(([name, value]) => same(columns[name]?.[row], value))) { rows.push(row); }
  }
  return { columns, rows, count: rows.length };
}

function same(one, other) {
  return typeof other === "boolean" ? Boolean(one) === other : one === other;
}

/** A table that names connections has their groups too. */
function withGroup(columns, flows) {
  if (!columns.flow || columns.group || !flows) { return columns; }
  const groups = new Map(Array.from(flows.flow, (flow, row) => [flow, flows.group[row]]));
  return { ...columns, group: Array.from(columns.flow, (flow) => groups.get(flow) ?? null) };
}

/** The rows of each curve of a series, by its name. */
export function parts(rows, series) {
  if (!series.each?.length || !rows.count) { return [[series.label, rows]]; }
  const found = new Map();
  for (const row of rows.rows) {
    const values = series.each.map((name) => rows.columns[name][row]);
    const key = JSON.stringify(values);
    if (!found.has(key)) {
      const named = Object.fromEntries(series.each.map((name, at) => [name, values[at]]));
      found.set(key, [filled(series.label, named), { columns: rows.columns, rows: [], count: 0 }]);
    }
    const part = found.get(key)[1];
    part.rows.push(row);
    part.count += 1;
  }
  return [...found.values()];
}

/** A text with the values of columns in place of their names in braces. */
export function filled(text, row) {
  return Object.entries(row).reduce((sum, [name, one]) => sum.replaceAll(`{${name}}`, String(one)), text);
}

/** An expression's value for each row; NaN where it is missing. */
export function value(rows, expression, endS, functions = {}) {
  const known = {
    end: () => endS,
    place: (name, names) => rows.rows.map((row) => {
      const at = names.indexOf(rows.columns[name][row]);
      return at < 0 ? NaN : at;
    }),
    ...functions,
  };
  const found = computed(expression, rows, known);
  return Array.isArray(found) ? found : Array(rows.count).fill(found);
}

function computed(expression, rows, functions) {
  if (typeof expression === "string") {
    const column = rows.columns[expression];
    if (!column) { return NaN; }
    return rows.rows.map((row) => (column[row] == null ? NaN : Number(column[row])));
  }
  if (!Array.isArray(expression)) { return Number(expression); }
  const [operator, ...given] = expression;
  if (Object.hasOwn(functions, operator)) { return functions[operator](...given); }
  const [a, b] = given.map((one) => computed(one, rows, functions));
  const apply = OPERATORS[operator];
  if (!apply) { throw new Error(`unknown operator ${operator}`); }
  if (Array.isArray(a)) { return a.map((one, at) => apply(one, Array.isArray(b) ? b[at] : b)); }
  return Array.isArray(b) ? b.map((one) => apply(a, one)) : apply(a, b);
}

const OPERATORS = {
  "+": (a, b) => a + b,
  "-": (a, b) => a - b,
  "*": (a, b) => a * b,
  "/": (a, b) => a / b,
};

/** The least or the largest value; null if there is none. */
export function extreme({ of, table, value: expression, where }, run) {
  const known = value(selected(run, table, where), expression, run.end_s).filter((one) => !Number.isNaN(one));
  if (!known.length) { return null; }
  return known.reduce((a, b) => (of === "min" ? Math.min(a, b) : Math.max(a, b)));
}
