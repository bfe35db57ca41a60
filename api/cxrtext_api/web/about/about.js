// What is loaded, what it is worth, and what it is not.

import { byId, element, plural, score, skeletons, whole } from "../lib/dom.js";
import { facts } from "../read/study.js";

const card = (title, ...content) =>
  element("section", { className: "about-card" }, element("h2", {}, title), ...content);

const list = (pairs) => element("dl", { className: "facts-list" }, ...facts(pairs));

const said = (text) => element("p", { className: "muted" }, text);

/** A name of the API in words. */
const words = (name) => {
  const text = name.replace(/^auc_/, "AUC, ").replace(/^auc$/, "Mean AUC").replaceAll("_", " ");
  return text[0].toUpperCase() + text.slice(1);
};

const digest = (text) => element("code", { className: "digest" }, text);

/** Any value in a few words: numbers to three places, lists and maps joined. */
function shown(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return Number.isInteger(value) ? whole(value) : score(value, 3);
  if (Array.isArray(value)) return value.map(shown).join(", ");
  if (typeof value === "object") {
    return Object.entries(value).map(([name, one]) => `${words(name)} ${shown(one)}`).join(" · ");
  }
  return String(value);
}

const pairsOf = (record) => Object.entries(record).map(([name, value]) => [
  words(name), name === "data" && typeof value === "string" ? digest(value) : shown(value),
]);

/** What is worth reading first: areas under the curve, then retrieval, then how training went. */
const rank = (name) => (/^auc/i.test(name) ? 0 : /R@|rank/i.test(name) ? 1 : 2);
const ranked = (record) => Object.fromEntries(
  Object.entries(record).toSorted(([a], [b]) => rank(a) - rank(b)),
);

function notice(model) {
  return element(
    "section",
    { className: "about-card wide caution" },
    element("h2", {}, "Not a medical device"),
    element("p", {}, "This is research software. It must not be used to diagnose, to treat, to " +
      "triage or to reassure. Its scores are opinions of a model about pictures; nobody has " +
      "tested them on patients, and they are wrong without notice on images unlike those that " +
      "the model was trained on: other devices, projections, ages and diseases."),
    element("p", {}, "A heatmap says where the model found its words, not where a disease is. A " +
      "high score for a sentence that denies something proves nothing to be absent. " +
      (model.calibrated
        ? "Probabilities are calibrated on the validation images, and on no others."
        : "Probabilities are not calibrated.")),
  );
}

/** What the model finds, weakly, and not, on what that rests, and what more films would bring. */
function goodCard({ how_good: good }) {
  if (!good) return null;
  const { warning, lines } = good;
  const pairs = lines.map((line) => {
    const at = line.indexOf(": ");
    return [line.slice(0, at), line.slice(at + 2)];
  });
  return element("section", { className: `about-card wide good${warning ? " caution" : ""}` },
    element("h2", {}, "How good is it"), warning ? element("p", {}, warning) : null, list(pairs));
}

function modelCard(model) {
  return card("Model", list([
    ["Fingerprint", digest(model.model)], ["Image encoder", model.image_encoder],
    ["Text encoder", plural(model.text_encoder_layers, "layer")], ["Similarity", model.similarity],
    ["Dimension", whole(model.dimension)], ["Scale γ²", score(model.gamma_sq, 2)],
    ["Reads", `${model.crop} × ${model.crop} of ${model.resize} pixels`],
    ["Findings", Object.keys(model.prompts).join(", ")],
    ["Tells unlike images", model.knows_images ? "yes" : "no; its training data are not noted"],
    ["Tells unlike sentences", model.knows_sentences ? "yes" : "no; its training data are not noted"],
  ]));
}

function trainedCard({ trained }) {
  return card("Training data", trained
    ? list(pairsOf(trained))
    : said("The checkpoint does not say what it was trained on."));
}

/** AUC by finding with its interval, and how far its probabilities are off. */
function evaluatedTable({ split, images, findings }) {
  const row = (kind, ...cells) => element("tr", {}, ...cells.map((one) => element(kind, {}, one)));
  const rows = Object.entries(findings).map(([name, { auc, low, high, calibration_error: off }]) =>
    row("td", name, `${score(auc, 3)} (${score(low, 3)}–${score(high, 3)})`,
      typeof off === "number" ? score(off, 3) : ""));
  return element("table", { className: "measures" },
    element("caption", {}, `${whole(images)} images of the split “${split}”; 95 % intervals`),
    element("thead", {}, row("th", "Finding", "AUC", "Calibration error")),
    element("tbody", {}, ...rows));
}

function measuredCard({ measured, evaluated }) {
  if (evaluated) return card("Measured performance", evaluatedTable(evaluated));
  return card("Measured performance", measured
    ? list(pairsOf(ranked(measured)))
    : said("The checkpoint carries no measurement. Run “cxrtext evaluate” on data of your own " +
      "before relying on any number."));
}

function indexCard(model) {
  if (!model.has_index) return card("Index", said("No index is loaded."));
  return card("Index", list([
    ["Images", whole(model.images)], ["Distinct sentences", whole(model.sentences)],
    ["Columns to filter by", model.columns === undefined ? "" : whole(model.columns)],
  ]));
}

function accessCard({ access }) {
  if (!access) return card("Access", said("This server does not say what you may do."));
  const may = {
    read: "ask and search", mark: "mark answers as right or wrong", write: "add images, and change and remove your own",
    admin: "change and remove others' images", metrics: "read the metrics",
  };
  return card("Access", list([
    ["Key", access.key_id ?? "none; this machine only"],
    ["Scopes", access.scopes.join(", ")],
    ["You may", access.scopes.map((scope) => may[scope] ?? scope).join("; ")],
  ]));
}

function limitsCard(model) {
  const { limits = {} } = model;
  return card("This server", list([
    ["Version of cxrtext", model.version],
    ["Largest request", `${whole(Math.round((limits.max_body_bytes ?? model.max_body_bytes) / 2 ** 20))} MiB`],
    ["Results per request", limits.max_results ? whole(limits.max_results) : ""],
    ["Prompts per request", limits.max_prompts ? whole(limits.max_prompts) : ""],
    ["Characters per sentence", limits.max_sentence_characters ? whole(limits.max_sentence_characters) : ""],
  ]));
}

export function showLoading() {
  byId("about").replaceChildren(...skeletons("div", "skeleton-about", 4));
}

export function show(model) {
  byId("about").replaceChildren(...[
    notice, goodCard, modelCard, trainedCard, indexCard, accessCard, limitsCard, measuredCard,
  ].map((part) => part(model)).filter(Boolean));
}
