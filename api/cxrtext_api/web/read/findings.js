// Findings with their probabilities, one line each.

import * as api from "../lib/api.js";
import { byId, element, percent } from "../lib/dom.js";
import { problemCard } from "../lib/notices.js";
import * as marks from "./marks.js";
import { isUnlike, quality, qualityTag, showUnlike } from "../lib/quality.js";
import * as session from "../lib/session.js";

let classifying = new AbortController();

/** The sentence that locates a finding. */
const sentenceOf = (finding) => session.current.model.prompts[finding]?.positive[0] ?? `${finding}.`;

/** Whether a probability gets a color: calibrated, above one half, of a finding that the model detects. */
const isLikely = ({ probability, calibrated, evaluated = null }) =>
  calibrated && probability >= 0.5 && quality(evaluated).sound;

const classOf = (found) => [
  "finding", isLikely(found) ? "likely" : "", found.calibrated ? "" : "uncalibrated",
].filter(Boolean).join(" ");

function row(found, ofUnlike) {
  const { finding, probability, evaluated = null } = found;
  const fill = element("span", { className: "bar-fill" });
  fill.style.width = `${100 * probability}%`;
  const asked = session.current.model.prompts[finding];
  const from = found.by_head || !asked
    ? "From a head that was trained on the findings of reports."
    : `From “${asked.positive[0]}” against “${asked.negative[0]}”.`;
  const shown = element(
    "button",
    {
      type: "button",
      className: classOf(found),
      title: session.current.model.says_where ? `${from} Press to see where.` : from,
      data: { finding },
    },
    element("span", { className: "finding-name" }, finding),
    element("span", { className: "visually-hidden" }, ", probability "),
    element("span", { className: "bar-track" }, fill),
    element("span", { className: "finding-number" }, percent(probability)),
    qualityTag(evaluated, ofUnlike, found.calibrated),
  );
  shown.addEventListener("click", () => session.locate(sentenceOf(finding)));
  const mark = marks.control("finding", finding, { said: found.flagged ?? probability >= 0.5 });
  return element("li", { className: "finding-item" }, shown, mark);
}

/** How many of the findings are calibrated, in words. */
function calibratedOf(findings) {
  const count = findings.filter(({ calibrated }) => calibrated).length;
  if (count === findings.length) return "Calibrated";
  return count === 0 ? "Not calibrated" : `${count} of ${findings.length} calibrated`;
}

const ON_VALIDATION = "Probabilities are calibrated on the validation images.";
const NO_SHARE =
  "compares a sentence that says so with one that denies it. It is not a share of patients.";

function tellCalibration({ calibrated, findings, unlike = null }) {
  const said = calibratedOf(findings);
  byId("calibration").hidden = byId("findings-head").hidden = findings.length === 0;
  byId("calibration").className = calibrated ? "tag good" : "tag";
  byId("calibration").textContent = said;
  byId("findings-foot").hidden = false;
  byId("findings-foot").textContent = [
    session.current.model.says_where ? "Select a finding to see where it shows." : "",
    said.includes(" of ") ? `${ON_VALIDATION} A gray one ${NO_SHARE}`
      : calibrated ? ON_VALIDATION : `Each probability ${NO_SHARE}`,
    unlike || findings.length === 0 ? "" : unknown(),
  ].filter(Boolean).join(" ");
}

/** Why it is not known whether the image is like the training images. */
const unknown = () => "It is not known whether this image is like the training images: " +
  (session.current.model?.knows_images
    ? "it was indexed before the checkpoint said so."
    : "the checkpoint does not say. “cxrtext calibrate --keep-reference” adds it.");

function showFindings(answer) {
  const ofUnlike = isUnlike(answer.unlike);
  byId("findings").replaceChildren(...answer.findings.map((found) => row(found, ofUnlike)));
  byId("findings").setAttribute("aria-busy", "false");
  byId("findings-hint").hidden = answer.findings.length > 0;
  byId("findings-hint").textContent = "There are no findings to look for.";
  tellCalibration({ calibrated: false, ...answer });
  showUnlike(answer.unlike ?? null);
}

/** Clear the findings and the notes on them. */
function showNone() {
  byId("findings").replaceChildren();
  byId("findings").setAttribute("aria-busy", "false");
  for (const id of ["calibration", "findings-head", "findings-foot"]) byId(id).hidden = true;
}

async function classify() {
  const list = byId("findings");
  classifying.abort();
  classifying = new AbortController();
  const { signal } = classifying;
  byId("findings-hint").textContent = "Looking for findings…";
  byId("findings-hint").hidden = false;
  list.setAttribute("aria-busy", "true");
  try {
    const answer = await api.classify(session.current.source, {}, signal);
    if (!signal.aborted) showFindings(answer);
  } catch (error) {
    if (error.name === "AbortError" || signal.aborted) return;
    showNone();
    byId("findings-hint").hidden = true;
    list.replaceChildren(element("li", {}, problemCard(error, classify)));
  }
}

function mark(sentence) {
  for (const one of document.querySelectorAll("#findings .finding")) {
    one.classList.toggle("shown", sentenceOf(one.dataset.finding) === sentence);
  }
}

export function start() {
  session.on("opened", () => {
    showNone();
    classify();
  });
  session.on("closed", () => {
    classifying.abort();
    showNone();
    byId("findings-hint").textContent = "Open an image to see its findings.";
    byId("findings-hint").hidden = false;
  });
  session.on("located", ({ sentence, found }) => mark(found ? sentence : null));
  for (const event of ["opened", "closed"]) session.on(event, () => showUnlike(null));
}
