// What the index knows of the open image: its study, its metadata, its report.

import { byId, element } from "./dom.js";
import { locateAndShow } from "./locate.js";
import * as session from "./session.js";

function showFacts(detail) {
  const facts = [
    ["Study", detail.study_id], ["Patient", detail.patient_id], ["Split", detail.split],
    ...Object.entries(detail.metadata),
  ];
  byId("image-facts").replaceChildren(
    ...facts.filter(([, value]) => value !== "").map(([name, value]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, value))),
  );
}

function sentenceLine(sentence) {
  const button = element(
    "button",
    { type: "button", className: "line", "aria-label": `${sentence} Show where.` },
    element("span", {}, sentence),
  );
  button.addEventListener("click", () => locateAndShow(sentence));
  return element("li", {}, button);
}

function showReport(report) {
  const sections = new Map();
  for (const { section, sentence } of report) {
    sections.set(section, [...(sections.get(section) ?? []), sentence]);
  }
  byId("report").replaceChildren(
    ...[...sections].map(([section, sentences]) =>
      element(
        "section",
        { className: "report-section" },
        element("h3", {}, section),
        element("ol", { className: "lines" }, ...sentences.map(sentenceLine)),
      )),
  );
}

function onOpened() {
  const { detail } = session.current;
  const hint = byId("report-hint");
  hint.hidden = Boolean(detail?.report.length);
  hint.textContent = detail
    ? "The index holds no report of this study."
    : "This image is not from the archive, so there is no report.";
  byId("image-facts").replaceChildren();
  if (detail) showFacts(detail);
  showReport(detail?.report ?? []);
}

export function start() {
  session.on("opened", onOpened);
}
