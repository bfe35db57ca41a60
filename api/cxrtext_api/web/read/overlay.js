// The strip below the image that says what its colors mean.

import { paintLegend, range } from "../lib/colormap.js";
import { byId, element, score } from "../lib/dom.js";
import * as session from "../lib/session.js";

const NOTHING = "Its best region fits this sentence no better than that of three in four reference images.";
const FIXED = "The same scale for every image: from what the best region of 75 % of the reference " +
  "images stays below to what that of 99 % does.";
const OWN = "A scale of this image alone: there are no reference images, so its best region is " +
  "always bright.";

/** The scores of an earlier film and of this one, and their difference. */
const change = ([before, now]) =>
  `score ${score(before)} → ${score(now)}, ${now < before ? "" : "+"}${score(now - before)}`;

/** Show a grounding of a sentence over the image, or take it away (null). */
export function showFound(viewer, sentence, found, scores = null) {
  viewer.setFound(found);
  // The strip stays where it is, so that the image does not jump.
  byId("overlay").hidden = !session.current.source || !session.current.model.says_where;
  byId("overlay").classList.toggle("idle", !found);
  if (!found) {
    byId("heat-note").replaceChildren(
      element("span", { className: "muted" }, "Select a finding or type a sentence to see where."),
    );
    return;
  }
  byId("heat-note").replaceChildren(...[
    element("span", { className: "number" }, scores
      ? change(scores)
      : `best region ${score(Math.max(...found.grid.flat()))}`),
    found.stands_out === false && !found.map
      ? element("span", { className: "heat-nothing", title: NOTHING }, "Nothing stands out")
      : null,
    element("span", { className: "heat-sentence", title: sentence }, sentence),
  ].filter(Boolean));
  const [low, high] = range(found);
  byId("legend-bar").title = found.legend ?? (found.limits ? FIXED : OWN);
  paintLegend(byId("legend-bar"), found.map ?? viewer.overlay.map);
  byId("legend-low").textContent = score(low);
  byId("legend-high").textContent = score(high);
}

/** Show in the controls how the viewer draws. */
export function showState({ overlay: { heat, boxes, opacity, map } }) {
  byId("toggle-heat").setAttribute("aria-pressed", String(heat));
  byId("toggle-boxes").setAttribute("aria-pressed", String(boxes));
  byId("opacity-value").textContent = `${Math.round(100 * opacity)} %`;
  byId("overlay").dataset.map = map;
}

/** The controls change the viewer that `active` gives. */
export function start(active) {
  paintLegend(byId("legend-bar"), active().overlay.map);
  for (const name of ["heat", "boxes"]) {
    byId(`toggle-${name}`).addEventListener("click", () => {
      active().setOverlay({ [name]: !active().overlay[name] });
    });
  }
  byId("opacity").addEventListener("input", ({ target }) => {
    active().setOverlay({ opacity: target.value / 100 });
  });
  byId("colors").addEventListener("change", ({ target }) => {
    active().setOverlay({ map: target.value });
    paintLegend(byId("legend-bar"), target.value);
  });
  byId("hide-found").addEventListener("click", () => {
    session.hide();
    byId("stage").focus();
  });
}
