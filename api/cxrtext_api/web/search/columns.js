// The columns a filter can name, each with an example; a press adds the example to the filter.

import * as api from "../lib/api.js";
import { button, byId, element } from "../lib/dom.js";

const isPlain = (name) => /^[a-z_][a-z0-9_]*$/i.test(name) && !/^(and|or|not|in|between|is|null)$/i.test(name);
const named = (name) => (isPlain(name) ? name : `"${name.replaceAll('"', '""')}"`);
const quoted = (text) => `'${text.replaceAll("'", "''")}'`;

const rangeOf = ({ kind, least, most, values }) => (kind === "number"
  ? [least, most].filter((one) => typeof one === "number").join(" … ")
  : (values ?? []).slice(0, 4).join(", "));

function exampleOf({ name, kind, least, most, values }) {
  if (kind === "number") return `${named(name)} >= ${Math.round(((least ?? 0) + (most ?? 0)) / 2)}`;
  return values?.length ? `${named(name)} = ${quoted(String(values[0]))}` : `${named(name)} is not null`;
}

function add(column) {
  const field = byId("where");
  field.value = [field.value.trim(), exampleOf(column)].filter(Boolean).join(" and ");
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.focus();
}

/** List the columns; filters also work without the list. */
export async function start() {
  try {
    const { columns } = await api.columns();
    byId("columns-body").hidden = columns.length === 0;
    byId("columns").replaceChildren(...columns.map((one) => element("li", {},
      button(one.name, () => add(one), { className: "quiet small", title: `Add ${exampleOf(one)}` }),
      element("span", { className: "muted" }, rangeOf(one)))));
  } catch {
    // The field takes a filter anyway.
  }
}
