// Turned and flipped, to look at only: the notes on the film say so, and where its sides are.

import { byId } from "../lib/dom.js";
import { bind } from "../lib/keys.js";

const PLACES = ["left", "top", "right", "bottom"]; // clockwise

/** Say what was done to the picture, and put the letters of the patient's sides where they are. */
export function show({ turn: { flip, quarter } }) {
  const right = flip && quarter % 2 === 0 ? (quarter + 2) % 4 : quarter;
  document.querySelector(".side-left").dataset.at = PLACES[right];
  document.querySelector(".side-right").dataset.at = PLACES[(right + 2) % 4];
  const done = [quarter ? `turned by ${90 * quarter}°` : "", flip ? "flipped" : ""].filter(Boolean).join(" and ");
  byId("view-note").textContent = done && `Film ${done}, for the eye only: scores are of the film as stored.`;
  byId("toggle-flip")?.setAttribute("aria-pressed", String(flip));
}

export function start(viewer) {
  const flip = () => viewer.turnBy({ flip: true });
  const turn = (quarter) => viewer.turnBy({ quarter });
  byId("toggle-flip").addEventListener("click", flip);
  byId("turn").addEventListener("click", () => turn(1));
  const when = () => viewer.picture;
  bind("Film", "read", [
    { keys: ["f"], does: "Flip from left to right", run: flip, when },
    { keys: ["t"], does: "Turn clockwise; with Shift the other way", run: () => turn(1), when },
    { keys: ["T"], run: () => turn(-1), when },
  ]);
}
