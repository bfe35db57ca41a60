// A report against the image: each sentence with how well the image supports it.

import * as api from "../lib/api.js";
import { byId, element, plural, reportOf, score, sectionsOf, skeletons, whole } from "../lib/dom.js";
import { emptyLine, problemCard } from "../lib/notices.js";
import * as marks from "./marks.js";
import { isUnlike, UNLIKE_SENTENCE } from "../lib/quality.js";
import * as session from "../lib/session.js";
import * as unlikeness from "./unlike.js";

const VERDICTS = {
  supported: { mark: "✓", title: "Supported" },
  weak: { mark: "~", title: "Weak" },
  unsupported: { mark: "✕", title: "Unsupported" },
  none: { mark: "–", title: "Not judged" },
};
const WORDINGS = { affirmed: "affirmed", negated: "negated", uncertain: "uncertain" };

let checking = new AbortController();

const number = (value) => value.toFixed(2);
const percent = (share) => `${Math.round(100 * share)} %`;

/** Why a sentence has its verdict, or none: evidence, thresholds and their measured errors. */
function whyOf({ reason, basis }) {
  const lines = reason ? [`Not judged: ${reason}.`] : [];
  if (!basis) return lines.join("\n");
  const { test, evidence, auc } = basis;
  if (typeof evidence === "number") {
    const side = test === "side" ? ", its side" : "";
    lines.push(`Evidence for ${basis.finding}${side}: ${number(evidence)}.`);
  }
  const tell = (threshold, where, share, images, kind) => {
    if (typeof threshold !== "number") return;
    const errors = typeof share === "number" && images
      ? ` (so ${kind}: ${percent(share)} of ${whole(images)} validation images)` : "";
    lines.push(`${where} ${number(threshold)}${errors}.`);
  };
  tell(basis.unsupported_below, "Unsupported below", basis.true_unsupported, basis.true_images,
    "although true");
  tell(basis.supported_above, "Supported above", basis.false_supported, basis.false_images,
    "although false");
  if (typeof auc === "number") lines.push(`AUC on validation images: ${number(auc)}.`);
  return lines.join("\n");
}

const verdictOf = ({ verdict }) => (verdict in VERDICTS ? verdict : "none");

function tellReference({ reference, sentences }) {
  const reasons = new Set(sentences.map(({ verdict, reason }) => verdict === "not judged" && reason));
  const [same] = reasons;
  const nothing = reasons.size === 1 && same ? `Nothing is judged: ${same}. ` : "";
  const images = reference?.images ?? 0;
  const against = {
    validation: `${whole(images)} validation images`,
    index: `${whole(images)} images of the archive`,
  }[reference?.source];
  const percents = against
    ? `Percent: how many of ${against} fit less well.`
    : "There are no images to compare with; the number is the score.";
  return `${nothing}${percents} Rest the pointer on a sentence to see what its mark rests on.`;
}

function sentenceRow(answer, one) {
  const { mark, title } = VERDICTS[verdictOf(one)];
  const support = typeof one.support === "number" ? `${Math.round(one.support)} %` : score(one.score);
  const shown = element(
    "button",
    {
      type: "button",
      className: `checked ${verdictOf(one)}`,
      title: whyOf(one),
    },
    element("span", { className: "verdict-mark", "aria-hidden": "true" }, mark),
    element(
      "span",
      { className: "line-text" },
      element("span", {}, one.sentence),
      element(
        "span",
        { className: "muted small-text" },
        `${title} · `,
        element("span", { className: `wording ${one.wording}` }, WORDINGS[one.wording] ?? ""),
      ),
      isUnlike(one.unlike)
        ? element("span", { className: "sentence-unlike small-text" }, UNLIKE_SENTENCE)
        : "",
    ),
    element("span", { className: "number" }, support),
  );
  shown.addEventListener("click", () => {
    for (const other of document.querySelectorAll("#verified .checked")) {
      other.setAttribute("aria-current", String(other === shown));
    }
    const { region, shift, width, height } = answer;
    session.show(one.sentence, { ...one, region, shift, width, height });
  });
  return element("li", {}, ...[shown, marks.control("sentence", one.sentence)].filter(Boolean));
}

function summary(answer) {
  const counts = Object.entries(VERDICTS).map(([name, { mark, title }]) => {
    const count = answer.sentences.filter((one) => verdictOf(one) === name).length;
    return count === 0 ? null : element(
      "li",
      { className: `count ${name}` },
      element("span", { className: "verdict-mark", "aria-hidden": "true" }, mark),
      `${whole(count)} ${title.toLowerCase()}`,
    );
  });
  return element("ul", { className: "counts" }, ...counts);
}

function showChecked(answer) {
  if (answer.sentences.length === 0) {
    byId("verified").replaceChildren(emptyLine("There is no sentence in this text."));
    return;
  }
  byId("verified").replaceChildren(
    summary(answer),
    element("p", { className: "muted small-text" }, tellReference(answer)),
    ...reportOf(answer.sentences, (one) => sentenceRow(answer, one)),
    element("p", { className: "foot" }, `${plural(answer.sentences.length, "sentence")} checked. ` +
      "A mark is the model’s opinion, not a reader’s."),
  );
}

async function check() {
  const report = byId("report").value.trim();
  if (!report) return;
  if (!session.current.source) {
    byId("verified").replaceChildren(emptyLine("Open an image first."));
    return;
  }
  checking.abort();
  checking = new AbortController();
  const signal = AbortSignal.any([checking.signal, session.whileOpen()]);
  byId("verified").replaceChildren(...skeletons("div", "skeleton-line", 4));
  try {
    const answer = await api.verify(session.current.source, { report }, signal);
    if (signal.aborted) return;
    showChecked(answer);
    if (answer.unlike) unlikeness.take(answer.unlike);
  } catch (error) {
    if (error.name === "AbortError" || signal.aborted) return;
    byId("verified").replaceChildren(problemCard(error, check));
  }
}

/** The text of a report that the index holds as sentences. */
const textOf = (report) => sectionsOf(report).map(([section, some]) =>
  `${section ? `${section.toUpperCase()}: ` : ""}${some.map((one) => one.sentence).join(" ")}`).join("\n\n");

export function start() {
  byId("report-form").addEventListener("submit", (event) => {
    event.preventDefault();
    check();
  });
  byId("report-of-study").addEventListener("click", () => {
    byId("report").value = textOf(session.current.detail.report);
    check();
  });
  for (const event of ["opened", "closed"]) {
    session.on(event, () => {
      byId("verified").replaceChildren();
      byId("report-of-study").hidden = !session.current.detail?.report.length;
    });
  }
}
