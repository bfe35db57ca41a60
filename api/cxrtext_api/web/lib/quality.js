// How far to trust what is shown: how well a finding was detected on images that the model did not
// see, and whether the open image and a sentence are like those it was trained on.

import { element } from "./dom.js";

/** An area under the curve in short: ".93". */
const share = (value) => value.toFixed(2).replace(/^0/, "");

/** Below this an area under the curve says next to nothing; so does an interval that holds a half. */
const NEAR_CHANCE = 0.6;

/** What an evaluation says of a finding, in words, and whether it is worth a color. */
export function quality(evaluated, ofUnlike = false) {
  if (ofUnlike) {
    return {
      text: "not evaluated on such images",
      title: "What was measured holds for images like those of the training.",
      sound: false,
    };
  }
  if (!evaluated) {
    return { text: "not evaluated", title: "Nobody measured how well this is detected.", sound: false };
  }
  const { auc, low, high } = evaluated;
  const title = `Area under the ROC curve on held-out images, 95 % interval: ${auc.toFixed(3)} ` +
    `(${low.toFixed(3)}–${high.toFixed(3)}). A half is a coin's toss.`;
  const near = auc < NEAR_CHANCE || low <= 0.5;
  return {
    text: near ? `near chance, AUC ${share(auc)}` : `AUC ${share(auc)} (${share(low)}–${share(high)})`,
    title,
    sound: !near,
  };
}

/** The words as an element. */
export function qualityTag(evaluated, ofUnlike = false) {
  const { text, title, sound } = quality(evaluated, ofUnlike);
  return element("span", { className: sound ? "quality" : "quality doubtful", title }, text);
}

/** Whether something is known to be unlike what the model was trained on. */
export const isUnlike = (unlike) => unlike?.flagged === true;

export const UNLIKE_IMAGE =
  "This image is unlike those the model was trained on; its answers mean little.";

export const UNLIKE_SENTENCE =
  "This sentence resembles nothing in the reports the model was trained on; the answer means little.";

/** How far beyond the limit, for whoever points at it. */
export const unlikeTitle = ({ distance, threshold }) =>
  `Distance ${distance.toFixed(2)}; held-out images of the training data seldom exceed ${threshold.toFixed(2)}.`;
