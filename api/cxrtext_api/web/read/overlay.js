// The strip below the image that explains its colors.

import { byId, element, percent, score } from "../lib/dom.js";
import * as session from "../lib/session.js";

const FIXED = "The same scale for every image: color begins where a region fits better than the best " +
  "region of 75 % of the comparison images, and is full at 99 %.";
const OWN = "A scale of this image alone, as there are no comparison images: from its mean to its best region.";

/** How well a sentence fits: the percentage of comparison images that fit less well. */
export const fit = ({ support = null, score: similarity }) =>
  (typeof support === "number" ? percent(support / 100) : `similarity ${score(similarity)}`);

/** The explanation of that number. */
export const fitTitle = ({ support = null }) => (typeof support === "number"
  ? "How many of the comparison images fit this sentence less well."
  : "Similarity from −1 to 1, as there are no comparison images.");

/** Show the grounding of a sentence over the image (null removes it); `prior` is that of the film beside it. */
export function showFound(viewer, sentence, found, prior = null) {
  viewer.setFound(found);
  // The strip keeps its place, so that the image does not jump.
  byId("overlay").hidden = !session.current.source || !session.current.model.says_where;
  byId("overlay").classList.toggle("idle", !found);
  if (!found) {
    byId("heat-note").replaceChildren(
      element("span", { className: "muted" }, "Select a finding or type a sentence to see where it fits."),
    );
    return;
  }
  const numbers = [prior, found].filter(Boolean).map(fit).join(" → ");
  byId("heat-note").replaceChildren(
    element("span", { className: "number", title: fitTitle(found) }, numbers),
    element("span", { className: "heat-sentence", title: sentence }, sentence),
    found.stands_out === false
      ? element("span", { className: "heat-nothing", title: FIXED }, "nothing stands out")
      : "",
  );
  byId("legend").title = found.limits ? FIXED : OWN;
  byId("legend-low").textContent = found.limits ? "75 %" : "mean";
  byId("legend-high").textContent = found.limits ? "99 %" : "best";
}

/** Update the controls from the viewer. */
export function showState({ overlay: { heat, boxes } }) {
  byId("toggle-heat").setAttribute("aria-pressed", String(heat));
  byId("toggle-boxes").setAttribute("aria-pressed", String(boxes));
}

/** The controls change the viewer that `active` returns. */
export function start(active) {
  for (const name of ["heat", "boxes"]) {
    byId(`toggle-${name}`).addEventListener("click", () => {
      active().setOverlay({ [name]: !active().overlay[name] });
    });
  }
  byId("hide-found").addEventListener("click", () => {
    session.hide();
    byId("stage").focus();
  });
}
