// Rows of column, operator and value that write the text of a filter.

import * as api from "../lib/api.js";
import { button, byId, element, whenReleased } from "../lib/dom.js";

const OPERATORS = {
  number: ["=", "!=", "<", "<=", ">", ">=", "is null", "is not null"],
  text: ["=", "!=", "is null", "is not null"],
};
const SHOWN = { "!=": "≠", "<=": "≤", ">=": "≥", "is null": "is empty", "is not null": "is filled" };

let columns = [];
let serial = 0;

const isPlain = (name) => /^[a-z_][a-z0-9_]*$/i.test(name) && !/^(and|or|not|in|between|is|null)$/i.test(name);
const named = (name) => (isPlain(name) ? name : `"${name.replaceAll('"', '""')}"`);
const isNumber = (text) => /^-?\d+(\.\d+)?$/.test(text);

function valued(kind, text) {
  if (kind === "number" && isNumber(text)) return text;
  return `'${text.replaceAll("'", "''")}'`;
}

/** One row as text; empty while its value is not given. */
function clause({ column, operator, value }) {
  const { kind } = columns.find((one) => one.name === column);
  if (operator.startsWith("is ")) return `${named(column)} ${operator}`;
  return value === "" ? "" : `${named(column)} ${operator} ${valued(kind, value)}`;
}

const rows = () => [...byId("filters").children].map((row) => ({
  column: row.querySelector(".filter-column").value,
  operator: row.querySelector(".filter-operator").value,
  value: row.querySelector(".filter-value").value.trim(),
}));

function write() {
  byId("where").value = rows().map(clause).filter(Boolean).join(" and ");
}

const options = (values, names = {}) =>
  values.map((value) => element("option", { value }, names[value] ?? value));

function hintOf({ kind, least, most, values }) {
  if (kind === "number" && least !== undefined && least !== null) return `${least} … ${most}`;
  return values?.[0] === undefined ? "" : String(values[0]);
}

/** Fit operators and value to the column of a row. */
function fit(row) {
  const column = columns.find((one) => one.name === row.querySelector(".filter-column").value);
  const operator = row.querySelector(".filter-operator");
  const value = row.querySelector(".filter-value");
  const before = operator.value;
  operator.replaceChildren(...options(OPERATORS[column.kind] ?? OPERATORS.text, SHOWN));
  if ([...operator.options].some((one) => one.value === before)) operator.value = before;
  value.placeholder = hintOf(column);
  value.inputMode = column.kind === "number" ? "decimal" : "text";
  row.querySelector("datalist").replaceChildren(...options((column.values ?? []).map(String)));
  value.hidden = operator.value.startsWith("is ");
}

function addRow(given = {}) {
  serial += 1;
  const list = element("datalist", { id: `filter-values-${serial}` });
  const column = element("select", { className: "filter-column", "aria-label": "Column" },
    ...options(columns.map(({ name }) => name)));
  const operator = element("select", { className: "filter-operator", "aria-label": "Comparison" });
  const value = element("input", {
    className: "filter-value", "aria-label": "Value", autocomplete: "off",
  });
  value.setAttribute("list", list.id);
  const row = element("div", { className: "filter" }, column, operator, value, list);
  row.append(button("✕", () => {
    row.remove();
    write();
    byId("add-filter").focus();
  }, { className: "quiet square small", "aria-label": "Remove this filter" }));
  if (given.column) column.value = given.column;
  fit(row);
  if (given.operator) operator.value = given.operator;
  if (given.value) value.value = given.value;
  for (const one of [column, operator, value]) {
    one.addEventListener("input", () => {
      fit(row);
      write();
    });
  }
  fit(row);
  byId("filters").append(row);
  return row;
}

const CLAUSE = /^\s*("(?:[^"]|"")+"|\w+)\s*(=|!=|<=|>=|<|>|is not null|is null)\s*('(?:[^']|'')*'|-?\d+(?:\.\d+)?)?\s*(?:$|and\s+)/i;

/** The rows that a text was written from; null where it was written by hand. */
function parsed(text) {
  const found = [];
  let rest = text;
  while (rest.trim()) {
    const match = CLAUSE.exec(rest);
    if (!match) return null;
    const [all, name, operator, value = ""] = match;
    const column = name.startsWith('"') ? name.slice(1, -1).replaceAll('""', '"') : name;
    if (!columns.some((one) => one.name === column)) return null;
    const bare = value.startsWith("'") ? value.slice(1, -1).replaceAll("''", "'") : value;
    found.push({ column, operator: operator.toLowerCase(), value: bare });
    rest = rest.slice(all.length);
  }
  return found;
}

/** Show the rows of the filter's text; a text of another kind stands alone. */
export function readText() {
  if (columns.length === 0) return;
  byId("filters").replaceChildren();
  for (const row of parsed(byId("where").value) ?? []) addRow(row);
}

/** Ask which columns there are; without an answer filters are written as text. */
export async function start() {
  byId("add-filter").addEventListener("click", () => {
    addRow().querySelector("select").focus();
  });
  // The field loses the focus to the button that is pressed, which is not to move.
  byId("where").addEventListener("change", () => whenReleased(readText));
  try {
    ({ columns } = await api.columns());
    byId("add-filter").hidden = columns.length === 0;
    readText();
  } catch {
    columns = [];
  }
}
