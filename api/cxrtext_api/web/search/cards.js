// The grid of results.

import { button, byId, element, moveAmong, percent, score } from "../lib/dom.js";
import * as marks from "../read/marks.js";
import { quality, UNLIKE_IMAGE } from "../lib/quality.js";
import { go } from "../lib/router.js";
import * as session from "../lib/session.js";
import { thumbnail } from "../lib/thumbnails.js";

const FACTS = 4;
const LABELS = 3;
const LIKELY = 0.5;

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
      title: `${finding}: probability ${percent(p)}, AUC ${qualityOf(finding).text}`,
    },
    element("span", { className: "label-name" }, finding),
    element("span", { className: "number" }, percent(p)),
  ));
  if (likely.length > LABELS) {
    const rest = likely.slice(LABELS).map(([finding]) => finding).join(", ");
    shown.push(element("span", { className: "muted", title: rest }, `${likely.length - LABELS} more`));
  }
  return shown.length ? element("span", { className: "label-rows" }, ...shown) : null;
}

function similarity(hit) {
  if (typeof hit.score !== "number") return null;
  const shown = score(hit.score);
  return element("span", { className: "number muted", title: "Similarity, from −1 to 1" },
    element("span", { className: "visually-hidden" }, "similarity "), shown);
}

function card(hit, sentence) {
  const pick = button("", () => go("read", {
    image: hit.image_id, ...(sentence ? { say: sentence } : {}),
  }), { className: "pick", title: hit.image_id, data: { id: hit.image_id } });
  pick.append(
    thumbnail(hit.image_id),
    element(
      "span",
      { className: "card-head" },
      element("span", { className: "visually-hidden" }, "Open study "),
      element("span", { className: "card-name" }, hit.study_id),
      similarity(hit) ?? "",
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
  const similar = button("Similar", () => go("search", { image: hit.image_id }), {
    className: "quiet small", "aria-label": `Similar images, study ${hit.study_id}`,
  });
  const mark = sentence && marks.control("hit", sentence, { image_id: hit.image_id });
  return element("li", { className: "card" }, pick,
    element("div", { className: "card-actions" }, ...[mark, similar].filter(Boolean)));
}

export const clear = () => byId("results").replaceChildren();

export const addImages = (hits, sentence) =>
  byId("results").append(...hits.map((hit) => card(hit, sentence)));

/** Arrow keys move between the cards. */
export function start() {
  byId("results").addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const columns = getComputedStyle(byId("results")).gridTemplateColumns.split(" ").length;
    moveAmong(event, [...byId("results").querySelectorAll(".pick")], columns);
  });
}
