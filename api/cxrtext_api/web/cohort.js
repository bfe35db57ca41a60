// Which results are selected, and their table.

import * as api from "./api.js";
import { byId, save, whole } from "./dom.js";
import { attempt } from "./notices.js";
import * as query from "./query.js";
import * as session from "./session.js";

const PER_REQUEST = 1000;
const MOST = 20_000;

let asked = null;
let hits = [];
let selected = new Set();
let last = null;

/** Texts that a spreadsheet would run get an apostrophe. */
const plain = (text) => (/^[=+\-@\t\r]/.test(text) ? `'${text}` : text);
const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const cell = (value) => (typeof value === "number" ? String(value) : quoted(plain(String(value ?? ""))));

function rowOf(hit) {
  const { score, image_id: image, study_id, patient_id, split, metadata, labels = {} } = hit;
  const shares = Object.entries(labels).map(([finding, p]) => [`label.${finding}`, p]);
  return { score, image, study_id, patient_id, split, ...metadata, ...Object.fromEntries(shares) };
}

/** Hits as CSV; the columns are those that the server writes. */
export function asCsv(some) {
  const rows = some.map(rowOf);
  const columns = [...new Set(rows.flatMap(Object.keys))];
  const lines = [columns, ...rows.map((row) => columns.map((name) => row[name]))];
  return lines.map((values) => `${values.map(cell).join(",")}\r\n`).join("");
}

/** Every result, a page at a time; the header is kept once. */
async function everything() {
  const most = Math.min(session.current.model.limits?.max_results ?? PER_REQUEST, PER_REQUEST);
  let text = "";
  for (let offset = 0; offset < MOST; offset += most) {
    const page = await api.cohort(asked.source, query.fieldsOf(asked, offset, most));
    if (page.startsWith("{")) {
      // A server that writes no tables.
      return asCsv(JSON.parse(page).images);
    }
    const [, header, rows] = /^([^\r\n]*\r?\n)([^]*)$/.exec(page) ?? [null, page, ""];
    text = offset === 0 ? page : text + rows;
    if (!text.startsWith(header)) throw new Error("The pages of the table do not fit together.");
    const count = rows.split("\n").length - 1;
    if (count < most) return text;
  }
  return text;
}

function showSelected() {
  for (const pick of document.querySelectorAll("#results .pick")) {
    pick.setAttribute("aria-pressed", String(selected.has(pick.dataset.id)));
  }
  byId("selected").textContent = selected.size ? `${whole(selected.size)} selected` : "";
  byId("select-none").disabled = byId("export-selected").disabled = selected.size === 0;
}

/** Select an image or no longer; with `range` all from the one before. */
export function pick(id, range) {
  const place = hits.findIndex((hit) => hit.image_id === id);
  const from = range ? hits.findIndex((hit) => hit.image_id === last) : -1;
  if (from >= 0) {
    const [low, high] = [Math.min(from, place), Math.max(from, place)];
    for (const hit of hits.slice(low, high + 1)) selected.add(hit.image_id);
  } else if (!selected.delete(id)) selected.add(id);
  last = id;
  showSelected();
}

/** Take the results shown; what was selected among them stays selected. */
export function show(question, shown) {
  const known = new Set(shown.map((hit) => hit.image_id));
  selected = new Set([...selected].filter((id) => question === asked && known.has(id)));
  asked = question;
  hits = shown;
  last = selected.has(last) ? last : null;
  byId("cohort").hidden = shown.length === 0;
  showSelected();
}

const saveTable = (text) => save("cohort.csv", text, "text/csv;charset=utf-8");

async function exportAll({ currentTarget: button }) {
  button.disabled = true;
  button.setAttribute("aria-busy", "true");
  const text = await attempt(everything);
  button.disabled = false;
  button.removeAttribute("aria-busy");
  if (text !== undefined) saveTable(text);
}

export function start() {
  byId("select-all").addEventListener("click", () => {
    selected = new Set(hits.map((hit) => hit.image_id));
    showSelected();
  });
  byId("select-none").addEventListener("click", () => {
    selected.clear();
    showSelected();
    byId("select-all").focus();
  });
  byId("export-selected").addEventListener("click", () => {
    saveTable(asCsv(hits.filter((hit) => selected.has(hit.image_id))));
  });
  byId("export-all").addEventListener("click", exportAll);
}
