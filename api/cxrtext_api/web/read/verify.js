// Checks a report: how well the image supports each sentence.

import * as api from "../lib/api.js";
import { byId, element, plural, reportOf, sectionsOf, whole } from "../lib/dom.js";
import { emptyLine, problemCard } from "../lib/notices.js";
import * as marks from "./marks.js";
import { fit } from "./overlay.js";
import { isUnlike, showUnlike, UNLIKE_SENTENCE } from "../lib/quality.js";
import * as session from "../lib/session.js";

const VERDICTS = {
  supported: { mark: "✓", title: "Supported" },
  weak: { mark: "~", title: "Weak" },
  unsupported: { mark: "✕", title: "Unsupported" },
  none: { mark: "–", title: "Not judged" },
};

let checking = new AbortController();

const verdictOf = ({ verdict }) => (verdict in VERDICTS ? verdict : "none");

/** What the numbers mean, and the reason if nothing is judged. */
function tellReference({ reference: { source, images }, sentences }) {
  const reasons = new Set(sentences.map(({ verdict, reason }) => verdict === "not judged" && reason));
  const [same] = reasons;
  const nothing = reasons.size === 1 && same ? `Nothing is judged: ${same}. ` : "";
  if (source === "none") return `${nothing}The number is the similarity, as there are no images to compare with.`;
  const against = `${whole(images)} ${source === "index" ? "images of the archive" : "validation images"}`;
  return `${nothing}Per cent of ${against} that fit the sentence less well.`;
}

function sentenceRow(answer, one) {
  const { mark, title } = VERDICTS[verdictOf(one)];
  const shown = element(
    "button",
    {
      type: "button",
      className: `checked ${verdictOf(one)}`,
      title: one.reason ?? "",
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
        element("span", { className: `wording ${one.wording}` }, one.wording),
      ),
      isUnlike(one.unlike)
        ? element("span", { className: "sentence-unlike small-text" }, UNLIKE_SENTENCE)
        : "",
    ),
    element("span", { className: "number" }, fit(one)),
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

function showChecked(answer) {
  if (answer.sentences.length === 0) {
    byId("verified").replaceChildren(emptyLine("There is no sentence in this text."));
    return;
  }
  byId("verified").replaceChildren(
    element("p", { className: "muted small-text" }, tellReference(answer)),
    ...reportOf(answer.sentences, (one) => sentenceRow(answer, one)),
    element("p", { className: "foot" }, `${plural(answer.sentences.length, "sentence")} checked. ` +
      "The marks are the model’s opinion, not a reader’s."),
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
  byId("verified").replaceChildren(emptyLine("Checking…"));
  try {
    const answer = await api.verify(session.current.source, { report }, signal);
    if (signal.aborted) return;
    showChecked(answer);
    if (answer.unlike) showUnlike(answer.unlike);
  } catch (error) {
    if (error.name === "AbortError" || signal.aborted) return;
    byId("verified").replaceChildren(problemCard(error, check));
  }
}

/** The text of a report, from the sentences in the index. */
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
