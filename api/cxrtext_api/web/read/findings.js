// The probabilities of findings, and the prompts that they come from.

import * as api from "../lib/api.js";
import { byId, element, skeletons, whenReleased } from "../lib/dom.js";
import { problemCard } from "../lib/notices.js";
import * as marks from "./marks.js";
import * as prompts from "./prompts.js";
import { isUnlike, quality, qualityTag } from "../lib/quality.js";
import * as session from "../lib/session.js";
import * as unlikeness from "./unlike.js";

let classifying = new AbortController();

/** Whether a probability is worth a color: it is calibrated, above a half, of a finding that works. */
const isLikely = ({ probability, calibrated, evaluated = null }) =>
  calibrated && probability >= 0.5 && quality(evaluated).sound;

const classOf = (found) => [
  "finding", isLikely(found) ? "likely" : "", found.calibrated ? "" : "uncalibrated",
].filter(Boolean).join(" ");

function row(found, ofUnlike) {
  const { finding, probability, evaluated = null } = found;
  const fill = element("span", { className: "bar-fill" });
  fill.style.width = `${100 * probability}%`;
  const asked = prompts.of(finding);
  const shown = element(
    "button",
    {
      type: "button",
      className: classOf(found),
      title: session.current.model.says_where ? "Show where" : "",
      data: { finding },
    },
    element("span", { className: "finding-name" }, finding),
    element("span", { className: "visually-hidden" }, ", probability "),
    element("span", { className: "finding-number" }, probability.toFixed(2)),
    qualityTag(evaluated, ofUnlike),
    element("span", { className: "bar-track" }, fill),
    element("span", { className: "finding-prompts" }, found.by_head
      ? "trained on the findings of reports, not asked by prompts"
      : `${asked.positive[0]} / ${asked.negative[0]}`),
  );
  shown.addEventListener("click", () => session.locate(asked.positive[0]));
  const mark = marks.control("finding", finding, { said: found.flagged ?? probability >= 0.5 });
  return element("li", { className: "finding-item" }, shown, mark, prompts.editor(finding));
}

function tellCalibration({ calibrated, findings, unlike = null }) {
  const custom = prompts.changed();
  byId("calibration").hidden = findings.length === 0;
  byId("calibration").className = calibrated ? "tag good" : "tag";
  byId("calibration").textContent = calibrated ? "Calibrated" : "Not calibrated";
  byId("findings-foot").hidden = false;
  byId("findings-foot").textContent =
    (session.current.model.says_where ? "Select a finding to see where the image supports it. " : "") +
    (calibrated
      ? "Probabilities are calibrated on the validation images."
      : "Each compares a sentence that says so with one that denies it; it is no share of patients.") +
    (custom ? " Prompts were changed on this page." : "") +
    (unlike || findings.length === 0 ? "" : unlikeness.unknown());
}

function showFindings(answer) {
  const ofUnlike = isUnlike(answer.unlike);
  byId("findings").replaceChildren(...answer.findings.map((found) => row(found, ofUnlike)));
  byId("findings").setAttribute("aria-busy", "false");
  byId("findings-hint").hidden = answer.findings.length > 0;
  byId("findings-hint").textContent = "There are no findings to look for; add one.";
  tellCalibration({ calibrated: false, ...answer });
  unlikeness.take(answer.unlike ?? null);
}

/** Show no finding, and nothing that was said of the former ones. */
function showNone() {
  byId("findings").replaceChildren();
  byId("findings").setAttribute("aria-busy", "false");
  byId("calibration").hidden = byId("findings-foot").hidden = true;
}

async function classify() {
  const list = byId("findings");
  classifying.abort();
  classifying = new AbortController();
  const { signal } = classifying;
  byId("findings-hint").hidden = true;
  list.setAttribute("aria-busy", "true");
  if (!list.querySelector(".finding")) {
    list.replaceChildren(...skeletons("li", "skeleton-finding", prompts.count() || 1));
  }
  if (prompts.count() === 0) {
    showFindings({ findings: [] });
    return;
  }
  try {
    const fields = prompts.changed() ? { prompts: prompts.asJson() } : {};
    const answer = await api.classify(session.current.source, fields, signal);
    whenReleased(() => {
      if (!signal.aborted) showFindings(answer);
    });
  } catch (error) {
    if (error.name === "AbortError" || signal.aborted) return;
    showNone();
    list.replaceChildren(element("li", {}, problemCard(error, classify)));
  }
}

function mark(sentence) {
  for (const one of document.querySelectorAll("#findings .finding")) {
    one.classList.toggle("shown", prompts.of(one.dataset.finding)?.positive[0] === sentence);
  }
}

export function start() {
  prompts.start(() => session.current.source && classify());
  session.on("opened", () => {
    showNone();
    byId("edit-prompts").disabled = false;
    classify();
  });
  session.on("closed", () => {
    classifying.abort();
    showNone();
    byId("edit-prompts").disabled = true;
    byId("findings-hint").textContent = "Open an image to see its findings.";
    byId("findings-hint").hidden = false;
  });
  session.on("located", ({ sentence, found }) => mark(found ? sentence : null));
}

