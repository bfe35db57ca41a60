// Which results are selected, and their table.

import * as api from "../lib/api.js";
import { byId, plural, save, whole } from "../lib/dom.js";
import { attempt } from "../lib/notices.js";
import * as query from "./query.js";

const KIND = "text/csv;charset=utf-8";
const PIECE = 2 ** 22;
const QUOTE = 0x22;
const LINE_END = 0x0a;

let asked = null;
let hits = [];
let selected = new Set();
let last = null;

/** Texts that a spreadsheet would run get an apostrophe. */
const plain = (text) => (/^[=+\-@\t\r]/.test(text) ? `'${text}` : text);
const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const cell = (value) => (typeof value === "number" ? String(value) : quoted(plain(String(value ?? ""))));

function rowOf(hit) {
  const { score, image_id: image, study_id, patient_id, split, metadata, labels = {}, unlike } = hit;
  const shares = Object.entries(labels).map(([finding, p]) => [`label.${finding}`, p]);
  const far = typeof unlike === "number" ? { "model.unlike": unlike } : {};
  return {
    score, image, study_id, patient_id, split, ...metadata, ...Object.fromEntries(shares), ...far,
  };
}

/** Hits as CSV; the columns are those that the server writes. */
export function asCsv(some) {
  const rows = some.map(rowOf);
  const columns = [...new Set(rows.flatMap(Object.keys))];
  const lines = [columns, ...rows.map((row) => columns.map((name) => row[name]))];
  return lines.map((values) => `${values.map(cell).join(",")}\r\n`).join("");
}

/** Counts the lines of a CSV table; a line break in quotes is part of a cell. */
export function lineCounter() {
  let lines = 0;
  let quoted = false;
  return (bytes) => {
    for (const byte of bytes) {
      if (byte === QUOTE) quoted = !quoted;
      else if (byte === LINE_END && !quoted) lines += 1;
    }
    return lines;
  };
}

/**
 * The whole table as a blob, which the browser may keep on its disk.
 *
 * Throws where it has not as many lines as there are images.
 */
async function everything(signal) {
  const { total, stream } = await api.exported(asked.source, query.fieldsOf(asked, 0, ""), signal);
  const count = lineCounter();
  const reader = stream.getReader();
  let table = new Blob([]);
  let parts = [];
  let held = 0;
  let lines = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      lines = count(value);
      parts.push(value);
      held += value.length;
      if (held > PIECE) {
        table = new Blob([table, ...parts]);
        [parts, held] = [[], 0];
      }
      showExport(`${whole(Math.max(0, lines - 1))} of ${whole(total)}`);
    }
  } catch (error) {
    if (signal.aborted) throw error;
    lines = 0;
  }
  if (lines !== total + 1) {
    throw new Error(`The export was broken off, and nothing was saved: not all of ` +
      `${plural(total, "image")} came. Export again.`);
  }
  return new Blob([table, ...parts], { type: KIND });
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

const saveTable = (content) => save("cohort.csv", content, KIND);

let exporting = null;

/** Show how far an export is; null when there is none. */
function showExport(text) {
  byId("export-progress").textContent = text === null ? "" : `Exporting… ${text}`;
  byId("export-all").textContent = text === null ? "Export all" : "Cancel export";
}

/** Export everything; or stop doing so. */
async function exportAll() {
  if (exporting) {
    exporting.abort();
    return;
  }
  exporting = new AbortController();
  const { signal } = exporting;
  showExport("");
  const found = await attempt(() => everything(signal));
  exporting = null;
  showExport(null);
  if (found === undefined || signal.aborted) return;
  saveTable(found);
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
