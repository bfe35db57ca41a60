// A typed sentence: where the image supports it, and how much.

import * as api from "../lib/api.js";
import { button, byId, element, plural, score, sendOnEnter, settled } from "../lib/dom.js";
import { emptyLine, problemCard } from "../lib/notices.js";
import * as marks from "./marks.js";
import { isUnlike, qualityTag, UNLIKE_SENTENCE } from "../lib/quality.js";
import * as session from "../lib/session.js";

const FITTING = 12;
const asked = new Map();

/** A slider for the score from which on a region counts for the boxes. */
function thresholdSlider(sentence, found, secret) {
  const values = found.grid.flat();
  const value = element("output", { className: "number" }, score(found.threshold));
  const slider = element("input", {
    type: "range", step: "any",
    min: Math.min(...values), max: Math.max(...values), value: found.threshold,
    "aria-label": "Score from which on a region counts for the boxes",
  });
  const ask = settled((threshold) => session.locate(sentence, { threshold, secret }), 250);
  slider.addEventListener("input", () => {
    value.textContent = score(Number(slider.value));
    ask(slider.value);
  });
  return element("label", { className: "slider wide" }, "Boxes from", slider, value);
}

const about = (found) => `Similarity from −1 to 1 · ` + (found.stands_out === false
  ? "nothing stands out: its best region fits no better than that of most other images"
  : `${plural(found.boxes.length, "region")} · best at ` +
    `${Math.round(found.peak[0])}, ${Math.round(found.peak[1])} px`);

/** The words of a text, with a space around each. */
const wordsOf = (text) => ` ${(text.toLowerCase().match(/[\p{L}\p{M}\p{N}]+/gu) ?? []).join(" ")} `;

/** What was measured of the finding whose prompt a sentence is, or that it names in other words. */
function qualityOf(sentence, ofUnlike) {
  const { prompts = {}, evaluated = null } = session.current.model ?? {};
  const asks = ({ positive, negative }) => [...positive, ...negative].includes(sentence);
  const asked = Object.keys(prompts).find((name) => asks(prompts[name]));
  const said = wordsOf(sentence);
  const named = Object.keys(prompts).filter((name) => said.includes(wordsOf(name)));
  const finding = asked ?? named.sort((one, other) => other.length - one.length)[0];
  const measured = evaluated?.findings[finding] ?? null;
  const tag = qualityTag(measured, ofUnlike);
  if (measured && !asked && !ofUnlike) tag.prepend(`as evaluated, ${finding}: `);
  return tag;
}

let answered = null;

/** Update what the threshold changes of the same sentence; the slider may be held, and stays. */
function updateAbout(line, found) {
  line.textContent = about(found);
  const slider = byId("locate-result").querySelector("input");
  if (slider.matches(":active")) return;
  slider.value = found.threshold;
  byId("locate-result").querySelector("output").textContent = score(found.threshold);
}

function showResult(sentence, found, secret) {
  const line = byId("locate-result").querySelector(".result-about");
  const question = `${secret} ${sentence}`;
  if (line && answered === question) {
    updateAbout(line, found);
    return;
  }
  answered = question;
  byId("locate-result").replaceChildren(
    element(
      "div",
      { className: isUnlike(found.unlike_sentence) ? "result odd" : "result" },
      element("p", { className: "result-number" }, score(found.score)),
      element(
        "div",
        {},
        element("p", { className: "result-sentence" }, sentence),
        found.read_as ? element("p", { className: "muted small-text" }, `Read as: ${found.read_as}`) : null,
        element(
          "p",
          { className: "result-about muted small-text" },
          about(found),
        ),
        found.side ? element("p", { className: "muted small-text" }, `The image speaks for the ${found.side} side.`) : null,
        qualityOf(sentence, isUnlike(found.unlike)),
        isUnlike(found.unlike_sentence)
          ? element("p", { className: "sentence-unlike" }, UNLIKE_SENTENCE)
          : null,
      ),
      thresholdSlider(sentence, found, secret),
      found.stands_out === false || found.boxes.length === 0
        ? null : marks.control("box", sentence, { box: found.boxes[0].bbox }),
    ),
  );
}

function showHistory() {
  byId("history-title").hidden = asked.size === 0;
  byId("history").replaceChildren(
    ...[...asked].reverse().map(([sentence, { value, secret }]) => element(
      "li",
      {},
      line(sentence, score(value), () => session.locate(sentence, { secret })),
    )),
  );
}

/** What found sentences are ranked by: their lift, where there is one, with its meaning on hover. */
export function fit(hit, digits) {
  if (hit.lift == null) return score(hit.score, digits);
  const title = "Lift: how much better the sentence fits this image than the archive's other images, in nats";
  return element("span", { title }, `lift ${score(hit.lift, 1)}`);
}

/** A sentence as a button, with a number. */
export function line(sentence, number, onClick, below = "") {
  const made = button("", onClick, { className: "line" });
  made.append(
    element(
      "span",
      { className: "line-text" },
      element("span", {}, sentence),
      below ? element("span", { className: "muted small-text" }, below) : "",
    ),
    element("span", { className: "number" }, number),
  );
  return made;
}

function forget() {
  asked.clear();
  byId("locate-result").replaceChildren();
  byId("fitting-list").replaceChildren();
  byId("fitting").disabled = session.current.source === null;
  showHistory();
}

async function findFitting() {
  const list = byId("fitting-list");
  const fields = { target: "sentences", k: FITTING };
  list.replaceChildren(element("li", {}, emptyLine("Searching…")));
  try {
    const found = await api.search(session.current.source, fields, session.whileOpen());
    const rows = found.sentences.map((hit) => element(
      "li",
      {},
      line(hit.sentence, fit(hit, 2), () => session.locate(hit.sentence, { secret: true }),
        plural(hit.studies, "study", "studies")),
    ));
    list.replaceChildren(...(rows.length ? rows : [element("li", {}, emptyLine("None found."))]));
  } catch (error) {
    if (error.name !== "AbortError") {
      list.replaceChildren(element("li", {}, problemCard(error, findFitting)));
    }
  }
}

export function start() {
  const form = byId("locate-form");
  const field = byId("sentence");
  sendOnEnter(field);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!session.current.source) byId("locate-result").replaceChildren(emptyLine("Open an image first."));
    else if (field.value.trim()) session.locate(field.value.trim());
  });
  byId("fitting").addEventListener("click", findFitting);
  session.on("opened", forget);
  session.on("closed", forget);
  session.on("located", ({ sentence, found, secret }) => {
    if (!found) {
      byId("locate-result").replaceChildren();
      return;
    }
    field.value = sentence;
    asked.delete(sentence);
    asked.set(sentence, { value: found.score, secret });
    showResult(sentence, found, secret);
    showHistory();
  });
}
