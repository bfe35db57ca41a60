// The grid of results.

import { button, byId, element, moveAmong, plural, score, skeletons } from "../lib/dom.js";
import * as cohort from "./cohort.js";
import { forget, watch } from "./hover.js";
import { fit, line } from "../read/locate.js";
import * as marks from "../read/marks.js";
import { go } from "../lib/router.js";
import { quality, UNLIKE_IMAGE } from "../lib/quality.js";
import * as session from "../lib/session.js";
import { thumbnail } from "../lib/thumbnails.js";

const FACTS = 4;
const LABELS = 3;
const LIKELY = 0.5;

let showSimilar = () => {};

const qualityOf = (finding) => quality(session.current.model?.evaluated?.findings[finding]);

const factsOf = ({ metadata }) => Object.entries(metadata)
  .filter(([, value]) => value !== "").slice(0, FACTS)
  .map(([name, value]) => `${name} ${value}`).join(" · ");

function labelsOf({ labels = {} }) {
  const likely = Object.entries(labels).filter(([, p]) => p >= LIKELY).sort(([, a], [, b]) => b - a);
  const shown = likely.slice(0, LABELS).map(([finding, p]) => element(
    "span",
    {
      className: qualityOf(finding).sound ? "label-row" : "label-row doubtful",
      title: `${finding}: probability ${p.toFixed(2)}, ${qualityOf(finding).text}`,
    },
    element("span", { className: "label-name" }, finding),
    element("span", { className: "number" }, p.toFixed(2)),
  ));
  if (likely.length > LABELS) {
    const rest = likely.slice(LABELS).map(([finding]) => finding).join(", ");
    shown.push(element("span", { className: "muted", title: rest }, `${likely.length - LABELS} more`));
  }
  return shown.length ? element("span", { className: "label-rows" }, ...shown) : null;
}

function actions(hit, sentence) {
  const study = `study ${hit.study_id}`;
  return element(
    "div",
    { className: "card-actions" },
    button("Open", () => go("read", { image: hit.image_id }), {
      className: "quiet small", "aria-label": `Open ${study}`,
    }),
    button("More like this", () => showSimilar(hit.image_id), {
      className: "quiet small", "aria-label": `More like this, ${study}`,
    }),
    ...[sentence && marks.control("hit", sentence, { image_id: hit.image_id })].filter(Boolean),
  );
}

function card(hit, sentence) {
  const pick = element(
    "button",
    {
      type: "button",
      className: "pick",
      "aria-pressed": "false",
      title: hit.image_id,
      data: { id: hit.image_id },
    },
    thumbnail(hit.image_id),
    element(
      "span",
      { className: "card-head" },
      element("span", { className: "tick", "aria-hidden": "true" }, "✓"),
      element("span", { className: "visually-hidden" }, "Study "),
      element("span", { className: "card-name" }, hit.study_id),
      element("span", { className: "visually-hidden" }, " score "),
      element("span", { className: "score number" }, score(hit.score, 3)),
    ),
    element(
      "span",
      { className: "card-text" },
      element("span", { className: "muted" }, `Patient ${hit.patient_id}`),
      element("span", { className: "muted" }, factsOf(hit)),
      hit.unlike > 1
        ? element("span", { className: "card-unlike", title: UNLIKE_IMAGE }, "Unlike the training")
        : null,
      labelsOf(hit),
    ),
  );
  pick.addEventListener("click", (event) => cohort.pick(hit.image_id, event.shiftKey));
  pick.addEventListener("dblclick", () => go("read", { image: hit.image_id }));
  if (sentence) watch(pick, hit, sentence);
  return element("li", { className: "card" }, pick, actions(hit, sentence));
}

export function clear(target) {
  forget();
  byId("results").className = `results ${target}`;
  byId("results").replaceChildren();
}

export function showLoading(target) {
  clear(target);
  const kind = target === "images" ? "skeleton-card" : "skeleton-line";
  byId("results").replaceChildren(...skeletons("li", kind, 12));
}

/** Cards out of view are not laid out. Each is once, in its width, and the browser keeps its height. */
function measure(cards) {
  for (const one of cards) one.classList.add("measuring");
  requestAnimationFrame(() => requestAnimationFrame(() => {
    for (const one of cards) one.classList.remove("measuring");
  }));
}

let measuredWidth = 0;
const widths = new ResizeObserver(([{ contentRect }]) => {
  if (contentRect.width === measuredWidth) return;
  measuredWidth = contentRect.width;
  measure(document.querySelectorAll("#results > .card"));
});

export function addImages(hits, sentence) {
  const added = hits.map((hit) => card(hit, sentence));
  measure(added);
  byId("results").append(...added);
  widths.observe(byId("results"));
}

export function addSentences(hits, onClick) {
  byId("results").append(...hits.map((hit) => element("li", {},
    line(hit.sentence, fit(hit, 3), () => onClick(hit.sentence),
      plural(hit.studies, "study", "studies")))));
}

/** Arrow keys move among the cards by place; Enter opens, space selects. */
function onKey(event) {
  const here = event.target.closest(".pick");
  if (!here || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Enter") {
    event.preventDefault();
    go("read", { image: here.dataset.id });
    return;
  }
  const columns = getComputedStyle(byId("results")).gridTemplateColumns.split(" ").length;
  moveAmong(event, [...byId("results").querySelectorAll(".pick")], columns);
}

/** `onSimilar` is called with the image that others are to be like. */
export function start(onSimilar) {
  showSimilar = onSimilar;
  byId("results").addEventListener("keydown", onKey);
}
