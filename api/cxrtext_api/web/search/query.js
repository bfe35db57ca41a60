// What is asked of a search: between the form, the address and the server.

import { byId, linesOf } from "../lib/dom.js";

const PAGE = 40;

/** An image that was chosen here cannot stand in an address; this says that there was one. */
export const UPLOAD = "1";

/** source: { id } or { file, name } or null. */
export const nothing = () => ({
  target: "images", query: "", not: [], source: null, weight: 50, others: false, where: "",
  unique: "", min: "",
});

/** What the form says; the image is kept beside it. */
export function ofForm(source) {
  return {
    target: document.querySelector("#search-form [name=target]:checked").value,
    query: byId("query").value.trim(),
    not: linesOf(byId("not").value),
    source,
    weight: Number(byId("weight").value),
    others: byId("others").checked,
    where: byId("where").value.trim(),
    unique: byId("unique").value,
    min: byId("min-score").value,
  };
}

export function toForm(asked) {
  for (const one of document.querySelectorAll("#search-form [name=target]")) {
    one.checked = one.value === asked.target;
  }
  byId("query").value = asked.query;
  byId("not").value = asked.not.join("\n");
  byId("not").rows = Math.max(1, asked.not.length);
  byId("weight").value = asked.weight;
  byId("others").checked = asked.others;
  byId("where").value = asked.where;
  byId("unique").value = asked.unique;
  byId("min-score").value = asked.min;
}

/** The parameters of the address; what is as usual is left out. */
export function toParams(asked) {
  const params = new URLSearchParams();
  const usual = nothing();
  for (const name of ["target", "query", "weight", "where", "unique", "min"]) {
    if (asked[name] !== usual[name]) params.set(name, asked[name]);
  }
  for (const sentence of asked.not) params.append("not", sentence);
  if (asked.source?.id !== undefined) params.set("image", asked.source.id);
  if (asked.source?.file) params.set("upload", UPLOAD);
  if (asked.others) params.set("others", "1");
  return params;
}

/** What an address asks; `uploaded` is the image that was chosen on this page, or null. */
export function ofParams(params, uploaded) {
  const usual = nothing();
  const image = params.get("image");
  return {
    target: params.get("target") === "sentences" ? "sentences" : "images",
    query: params.get("query") ?? usual.query,
    not: params.getAll("not"),
    source: image !== null ? { id: image } : params.get("upload") === UPLOAD ? uploaded : null,
    weight: Number(params.get("weight") ?? usual.weight),
    others: params.get("others") === "1",
    where: params.get("where") ?? usual.where,
    unique: params.get("unique") ?? usual.unique,
    min: params.get("min") ?? usual.min,
  };
}

export const isEmpty = ({ query, source }) => query === "" && source === null;

/** The fields of the request for a page of results. */
export function fieldsOf(asked, offset = 0, k = PAGE) {
  const { target, query, source } = asked;
  if (target === "sentences") {
    return { target, query: source ? "" : query, where: asked.where, k };
  }
  return {
    target, query, not: asked.not, k, offset: offset || "",
    where: asked.where, unique: asked.unique, min_score: asked.min,
    image_weight: source && query ? asked.weight / 100 : "",
    other_patients: source?.id !== undefined && asked.others ? "true" : "",
  };
}

/** What was asked, in words. */
export function inWords({ target, query, not, source }) {
  const parts = [
    query ? `“${query}”` : "",
    not.length && target === "images" ? `not ${not.map((one) => `“${one}”`).join(", ")}` : "",
    source ? `like ${source.id ?? source.name}` : "",
  ];
  return parts.filter(Boolean).join(" · ");
}
