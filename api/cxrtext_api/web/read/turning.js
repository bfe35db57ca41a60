// Turned and flipped, to look at only: a note on the film says so, and letters where its sides are.

import { byId } from "../lib/dom.js";
import { bind } from "../lib/keys.js";

const PLACES = ["left", "top", "right", "bottom"]; // clockwise

/** Say what was done to the picture, and put the letters of the patient's sides where they are. */
export function show({ turn: { flip, quarter } }) {
  const right = flip && quarter % 2 === 0 ? quarter + 2 : quarter;
  document.querySelector(".side-left").dataset.at = PLACES[right % 4];
  document.querySelector(".side-right").dataset.at = PLACES[(right + 2) % 4];
  const angle = 90 * (flip ? (4 - quarter) % 4 : quarter);
  const done = [flip && "flipped", angle && `turned by ${angle}°`].filter(Boolean).join(" and ");
  byId("view-note").textContent = done && `Film ${done}, for the eye only: scores are of the film as stored.`;
  byId("toggle-flip")?.setAttribute("aria-pressed", String(flip));
}

export function start(active) {
  const flip = () => active().turnBy({ flip: true });
  const turn = ({ shiftKey }) => active().turnBy({ quarter: shiftKey ? 3 : 1 });
  const when = () => active().picture;
  byId("toggle-flip").addEventListener("click", flip);
  byId("turn").addEventListener("click", turn);
  bind("Film", "read", [
    { keys: ["f"], does: "Flip from left to right", run: flip, when },
    { keys: ["t", "T"], does: "Turn clockwise, or with Shift the other way", run: turn, when },
  ]);
}
