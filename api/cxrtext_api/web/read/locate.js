// Grounds a typed sentence: where the image supports it, and how well.

import * as api from "../lib/api.js";
import { byId, element, line, plural, sendOnEnter } from "../lib/dom.js";
import { emptyLine, problemCard } from "../lib/notices.js";
import * as marks from "./marks.js";
import { fit, fitTitle } from "./overlay.js";
import { isUnlike, qualityTag, showUnlike, UNLIKE_SENTENCE } from "../lib/quality.js";
import * as session from "../lib/session.js";

const FITTING = 12;

const placeOf = ({ stands_out: standsOut, boxes, peak }) => (standsOut === false
  ? "Nothing stands out: its best region fits no better than that of most other images."
  : `${plural(boxes.length, "region")}, best at ${peak.map(Math.round).join(", ")} px.`);

/** The evaluation of the finding that has this sentence as a prompt. */
function qualityOf(sentence, ofUnlike) {
  const { prompts, evaluated } = session.current.model;
  const asked = Object.keys(prompts).find((name) =>
    [...prompts[name].positive, ...prompts[name].negative].includes(sentence));
  return qualityTag(evaluated?.findings[asked], ofUnlike);
}

function showResult(sentence, found) {
  const odd = isUnlike(found.unlike_sentence);
  const small = (text) => element("p", { className: "muted small-text" }, text);
  byId("locate-result").replaceChildren(element(
    "div",
    { className: odd ? "result odd" : "result" },
    element("p", { className: "result-number" }, fit(found)),
    element(
      "div",
      {},
      element("p", { className: "result-sentence" }, sentence),
      found.read_as ? small(`Read as: ${found.read_as}`) : null,
      small(fitTitle(found)),
      small(placeOf(found)),
      found.side ? small(`The image speaks for the ${found.side} side.`) : null,
      qualityOf(sentence, isUnlike(found.unlike)),
      odd ? element("p", { className: "sentence-unlike" }, UNLIKE_SENTENCE) : null,
    ),
    found.stands_out === false || found.boxes.length === 0
      ? null : marks.control("box", sentence, { box: found.boxes[0].bbox }),
  ));
}

function forget() {
  byId("locate-result").replaceChildren();
  byId("fitting-list").replaceChildren();
  byId("fitting").disabled = session.current.source === null;
}

async function findFitting() {
  const list = byId("fitting-list");
  const show = (rows) => list.replaceChildren(...rows.map((row) => element("li", {}, row)));
  show([emptyLine("Searching…")]);
  try {
    const fields = { target: "sentences", k: FITTING };
    const found = await api.search(session.current.source, fields, session.whileOpen());
    const rows = found.sentences.map(({ sentence, studies }) => line(
      sentence, plural(studies, "study", "studies"), () => session.locate(sentence, { secret: true }),
    ));
    show(rows.length ? [emptyLine("The best fit comes first."), ...rows] : [emptyLine("None found.")]);
  } catch (error) {
    if (error.name !== "AbortError") show([problemCard(error, findFitting)]);
  }
}

export function start() {
  const field = byId("sentence");
  sendOnEnter(field);
  byId("locate-form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (!session.current.source) byId("locate-result").replaceChildren(emptyLine("Open an image first."));
    else if (field.value.trim()) session.locate(field.value.trim());
  });
  byId("fitting").addEventListener("click", findFitting);
  session.on("opened", forget);
  session.on("closed", forget);
  session.on("located", ({ sentence, found }) => {
    if (!found) {
      byId("locate-result").replaceChildren();
      return;
    }
    field.value = sentence;
    showResult(sentence, found);
    if (found.unlike) showUnlike(found.unlike);
  });
}
