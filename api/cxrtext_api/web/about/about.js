// The About view: what is loaded, how good it is, and its limits.

import { byId, element, plural, whole } from "../lib/dom.js";
import { short } from "../lib/quality.js";
import { facts } from "../read/study.js";

const card = (title, ...content) =>
  element("section", { className: "about-card" }, element("h2", {}, title), ...content);

const list = (pairs) => element("dl", { className: "facts-list" }, ...facts(pairs));

const said = (text) => element("p", { className: "muted" }, text);

const digest = (text) => text && element("code", { className: "digest" }, text);

function notice(model) {
  return element(
    "section",
    { className: "about-card caution" },
    element("h2", {}, "Not a medical device"),
    element("p", {}, "This is research software. Do not use it to diagnose, treat, triage or " +
      "reassure. Its scores are a model’s opinions about pictures. Nobody has tested them on " +
      "patients, and they are wrong without notice on images unlike those that the model was " +
      "trained on: other devices, projections, ages and diseases."),
    element("p", {}, "A heatmap says where the model found its words, not where a disease is. A " +
      "high score for a sentence that denies something proves nothing to be absent. " +
      (model.calibrated
        ? "Probabilities are calibrated on the validation images, and on no others."
        : "Probabilities are not calibrated.")),
  );
}

const measureOfFinding = ([name, { auc, low, high }]) =>
  ({ name, figure: "AUC", value: auc, low, high, control: 0.5 });

/** The measures, each with its interval and the figure of a model without skill. */
const measuresOf = ({ how_good: good, evaluated }) => (good?.measures?.length
  ? good.measures
  : Object.entries(evaluated?.findings ?? {}).map(measureOfFinding));

/** A bar with its 95 % interval as a line, and its control as a tick. */
function bar({ name, figure, value, low, high, control }, calibrationError) {
  const isRank = figure === "median rank";
  const shown = isRank ? (number) => whole(Math.round(number)) : short;
  const place = (number) => `${100 * Math.min(number / (isRank ? 2 * control : 1), 1)}%`;
  const [fill, interval, tick] = ["bar-fill", "interval", "control"]
    .map((className) => element("span", { className }));
  fill.style.width = place(value);
  interval.style.left = place(low);
  interval.style.width = `calc(${place(high)} - ${place(low)})`;
  tick.style.left = place(control);
  const off = typeof calibrationError === "number" ? `, calibration off by ${short(calibrationError)}` : "";
  return element(
    "li",
    { className: (isRank ? high < control : low > control) ? "measure" : "measure doubtful" },
    element("span", {}, name),
    element("span", { className: "bar-track", "aria-hidden": "true" }, fill, interval, tick),
    element("span", { className: "number" },
      `${figure} ${shown(value)} [${shown(low)}, ${shown(high)}], control ${shown(control)}${off}`),
  );
}

function goodCard(model) {
  const { how_good: good, evaluated } = model;
  const measures = measuresOf(model);
  const lines = (good?.lines ?? []).slice(measures.length ? 3 : 0); // the bars show the first three
  return element(
    "section",
    { className: good?.at_chance ? "about-card caution" : "about-card" },
    element("h2", {}, "How good is it?"),
    good?.warning ? element("p", {}, good.warning) : null,
    measures.length ? said("On held-out images, with 95 % intervals. The tick is the control: chance, " +
      "or the films of other patients. A gray bar cannot be told from it.") : null,
    element("ol", { className: "measures" }, ...measures.map((one) =>
      bar(one, evaluated?.findings[one.name]?.calibration_error))),
    ...lines.map(said),
    evaluated ? said(`Calibrated on ${whole(evaluated.images)} images of the split “${evaluated.split}”.`) : null,
  );
}

function modelCard(model) {
  const { trained } = model;
  return card("Model", list([
    ["Fingerprint", digest(model.model)], ["Image encoder", model.image_encoder],
    ["Text encoder", plural(model.text_encoder_layers, "layer")], ["Similarity", model.similarity],
    ["Dimension", whole(model.dimension)], ["Reads", `${model.crop} × ${model.crop} of ${model.resize} pixels`],
    ["Findings", Object.keys(model.prompts).join(", ")],
    ["Recognizes unlike images", model.knows_images ? "yes" : "no, its training data are not noted"],
    ["Trained on", trained?.studies && plural(trained.studies, "study", "studies")],
    ["Objective", trained?.objective], ["Steps", trained?.steps && whole(trained.steps)],
    ["Date", trained?.date], ["Training data", digest(trained?.data)],
  ]));
}

function serverCard({ access, limits, has_index: hasIndex, ...model }) {
  const may = {
    read: "ask and search", mark: "say what is right or wrong", write: "add images, and change and remove your own",
    admin: "change and remove others’ images", metrics: "read the metrics",
  };
  return card("This server", list([
    ["Version of cxrtext", model.version],
    ["Index", hasIndex ? `${plural(model.images, "image")}, ${plural(model.sentences, "sentence")}` : "No index is loaded."],
    ["Your key", access.key_id ?? "none; this machine only"],
    ["You may", access.scopes.map((scope) => may[scope] ?? scope).join("; ")],
    ["Largest request", `${whole(Math.round(limits.max_body_bytes / 2 ** 20))} MiB`],
    ["API", element("a", { href: "/openapi.json" }, "openapi.json")],
  ]));
}

export function show(model) {
  byId("about").replaceChildren(...[notice, goodCard, modelCard, serverCard].map((part) => part(model)));
}
