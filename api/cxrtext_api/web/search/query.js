// A search query: converts between the form, the address and the server's request.

import { byId, linesOf } from "../lib/dom.js";

const PAGE = 40;

/** Stands in the address for an image from this machine, which an address cannot hold. */
const UPLOAD = "1";

/** source: { id } or { file, name } or null. */
export const nothing = () =>
  ({ query: "", not: [], source: null, others: false, where: "", unique: "", min: "" });

/** The query in the form; the image is kept apart. */
export const ofForm = (source) => ({
  query: byId("query").value.trim(),
  not: linesOf(byId("not").value),
  source,
  others: byId("others").checked,
  where: byId("where").value.trim(),
  unique: byId("unique").value,
  min: byId("min-score").value,
});

export function toForm(asked) {
  byId("query").value = asked.query;
  byId("not").value = asked.not.join("\n");
  byId("others").checked = asked.others;
  byId("where").value = asked.where;
  byId("unique").value = asked.unique;
  byId("min-score").value = asked.min;
}

/** The address's parameters, without empty ones. */
export function toParams(asked) {
  const params = new URLSearchParams();
  for (const name of ["query", "where", "unique", "min"]) {
    if (asked[name]) params.set(name, asked[name]);
  }
  for (const sentence of asked.not) params.append("not", sentence);
  if (asked.source?.id !== undefined) params.set("image", asked.source.id);
  if (asked.source?.file) params.set("upload", UPLOAD);
  if (asked.others) params.set("others", "1");
  return params;
}

/** The query in an address; `uploaded` is the image chosen on this page, or null. */
export function ofParams(params, uploaded) {
  const image = params.get("image");
  return {
    ...Object.fromEntries(["query", "where", "unique", "min"].map((name) => [name, params.get(name) ?? ""])),
    not: params.getAll("not"),
    source: image !== null ? { id: image } : params.get("upload") === UPLOAD ? uploaded : null,
    others: params.get("others") === "1",
  };
}

export const isEmpty = ({ query, source }) => query === "" && source === null;

/** The fields of the request for a page of results. */
export const fieldsOf = ({ query, not, source, others, where, unique, min }, offset = 0, k = PAGE) => ({
  target: "images", query, not, where, unique, min_score: min, k, offset: offset || "",
  other_patients: source?.id !== undefined && others ? "true" : "",
});

/** The query in words. */
export const inWords = ({ query, not, source }) => [
  query ? `“${query}”` : "",
  source ? `like ${source.id ?? source.name}` : "",
  ...not.map((sentence) => `not “${sentence}”`),
].filter(Boolean).join(", ");
