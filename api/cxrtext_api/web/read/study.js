// The open image's study, metadata and report, from the index.

import { byId, element, line, reportOf } from "../lib/dom.js";
import { go } from "../lib/router.js";
import * as session from "../lib/session.js";

/** Terms and descriptions, without empty ones. */
export const facts = (pairs) => pairs
  .filter(([, value]) => value !== "" && value !== null && value !== undefined)
  .map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)));

function sentenceLine({ sentence }) {
  const show = () => session.locate(sentence, { secret: true });
  return element("li", {}, line(sentence, "", show, `${sentence} Show where.`));
}

/** Metadata in a reader's words, with the PACS it came from and when. */
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
  byId("study-facts").replaceChildren();
  byId("study-report").replaceChildren(...reportOf(detail?.report ?? [], sentenceLine));
  if (!detail) return;
  byId("study-facts").replaceChildren(...facts([
    ["Study", detail.study_id], ["Patient", detail.patient_id], ["Split", detail.split],
    ["Size", `${detail.width} × ${detail.height}`], ...origin(detail.metadata),
  ]));
  if (detail.report.length === 0) {
    byId("study-report").replaceChildren(
      element("p", { className: "muted" }, "The index holds no report of this study."),
    );
  }
}

export function start() {
  session.on("opened", showStudy);
  session.on("closed", showStudy);
  const similar = (more) => go("search", { image: session.current.source.id, ...more });
  byId("similar").addEventListener("click", () => similar({}));
  byId("similar-others").addEventListener("click", () => similar({ others: "1" }));
}
