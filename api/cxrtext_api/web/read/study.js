// What the index knows of the open image: its study, its metadata, its report.

import * as api from "../lib/api.js";
import { button, byId, element, reportOf } from "../lib/dom.js";
import { go } from "../lib/router.js";
import * as session from "../lib/session.js";

/** Terms and descriptions, without those that are empty. */
export const facts = (pairs) => pairs
  .filter(([, value]) => value !== "" && value !== null && value !== undefined)
  .map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)));

function sentenceLine({ sentence }) {
  const show = () => session.locate(sentence, { secret: true });
  return element("li", {}, button(sentence, show, {
    className: "line", "aria-label": `${sentence} Show where.`,
  }));
}

const KINDS = { sc: "Heatmap", sr: "Report", seg: "Regions", gsps: "Annotations" };
const moment = (text) => new Date(text).toLocaleString();

function resultLine({ kind, peer, sent, revoked }) {
  const place = peer ? `sent to ${peer}, ${moment(sent)}` : "sent to nobody";
  const end = revoked && element("span", { className: "taken-back" }, `taken back, ${moment(revoked)}`);
  return element("li", {}, `${KINDS[kind] ?? kind}: ${place}`, ...(end ? [end] : []));
}

function resultsOfSentence(some) {
  const { sentence, probability, calibrated } = some[0];
  const likely = probability === null
    ? "no probability"
    : `${Math.round(100 * probability)} %, ${calibrated ? "" : "not "}calibrated`;
  return [
    element("p", { className: "sent-sentence" }, sentence, element("span", { className: "hint" }, likely)),
    element("ul", { className: "sent" }, ...some.map(resultLine)),
  ];
}

/** DICOM results of the study, and where each was sent, where the server shows them. */
async function showResults({ study_id: study }) {
  byId("study-results").replaceChildren();
  if (!study || !session.current.model?.has_results) return;
  const shown = (...children) => byId("study-results").replaceChildren(
    element("h3", {}, "DICOM results"),
    ...children,
  );
  const signal = session.whileOpen();
  try {
    const { results } = await api.results(study, signal);
    const sentences = new Map();
    for (const one of results) {
      const key = `${one.sentence}\n${one.probability}`; // another model finds another
      sentences.set(key, [...(sentences.get(key) ?? []), one]);
    }
    shown(...(results.length === 0
      ? [element("p", { className: "hint" }, "None was made of this study.")]
      : [...sentences.values()].flatMap(resultsOfSentence)));
  } catch {
    if (signal.aborted) return;
    shown(element("p", { className: "hint" }, "What was made and sent back cannot be read now."));
  }
}

/** Metadata in the words of a reader; what came from a PACS says from which, and when. */
function origin(metadata) {
  const { source, received, ...others } = metadata;
  if (!received) return Object.entries(metadata);
  const when = new Date(received).toLocaleString();
  return [["Came from", source], ["Received", when], ...Object.entries(others)];
}

function showStudy() {
  const { source, detail } = session.current;
  byId("study-hint").hidden = Boolean(detail);
  byId("study-hint").textContent = source
    ? "This image is not from the archive."
    : "Open an image of the archive to see its study.";
  byId("study-links").hidden = !detail;
  byId("study-results").replaceChildren();
  byId("study-facts").replaceChildren();
  byId("study-report").replaceChildren(...reportOf(detail?.report ?? [], sentenceLine));
  if (!detail) return;
  byId("study-facts").replaceChildren(...facts([
    ["Study", detail.study_id], ["Patient", detail.patient_id], ["Split", detail.split],
    ["Size", `${detail.width} × ${detail.height}`], ...origin(detail.metadata),
  ]));
  if (detail.report.length === 0) {
    byId("study-report").replaceChildren(
      element("p", { className: "hint" }, "The index holds no report of this study."),
    );
  }
  showResults(detail);
}

export function start() {
  session.on("opened", showStudy);
  session.on("closed", showStudy);
  const similar = (more) => go("search", { image: session.current.source.id, ...more });
  byId("similar").addEventListener("click", () => similar({}));
  byId("similar-others").addEventListener("click", () => similar({ others: "1" }));
}
