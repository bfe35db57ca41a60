// How far to trust an answer: how well a finding was detected on held-out images, and whether the
// open image and a sentence are like those of the training.

import { byId, element } from "./dom.js";

/** An AUC in short form: ".93". */
export const short = (value) => value.toFixed(2).replace(/^0/, "");

/** An AUC below this says next to nothing; neither does an interval that includes one half. */
const NEAR_CHANCE = 0.6;

const NOT_CALIBRATED =
  "Too few validation images have this finding, or “cxrtext calibrate” did not run.";

/** A finding's evaluation in words, and whether its probability gets a color. */
export function quality(evaluated, ofUnlike = false, calibrated = true) {
  if (ofUnlike) {
    const title = "The evaluation holds for images like the training images; this one is unlike them.";
    return { text: "not evaluated", title, sound: false };
  }
  if (!evaluated) {
    return calibrated
      ? { text: "not evaluated", title: "How well this is detected was not measured.", sound: false }
      : { text: "not calibrated", title: NOT_CALIBRATED, sound: false };
  }
  const { auc, low, high } = evaluated;
  const near = auc < NEAR_CHANCE || low <= 0.5;
  const interval = `[${short(low)}, ${short(high)}]`;
  return {
    text: `${short(auc)} ${interval}`,
    title: `${near ? "Near chance. " : ""}Area under the ROC curve on held-out images with its ` +
      "95 % interval. A coin’s toss has .50.",
    sound: !near,
  };
}

/** The words as an element. */
export function qualityTag(evaluated, ofUnlike = false, calibrated = true) {
  const { text, title, sound } = quality(evaluated, ofUnlike, calibrated);
  return element("span", { className: sound ? "quality" : "quality doubtful", title },
    element("span", { className: "quality-of" }, text.startsWith("not") ? "" : "AUC "), text);
}

/** Whether something is known to be unlike the training data. */
export const isUnlike = (unlike) => unlike?.flagged === true;

export const UNLIKE_IMAGE =
  "This image is unlike those the model was trained on. Its answers mean little.";

export const UNLIKE_SENTENCE =
  "This sentence resembles nothing in the reports the model was trained on. The answer means little.";

/** Show a banner if the image is unlike the training images; null if that is not known. */
export function showUnlike(unlike) {
  const flagged = isUnlike(unlike);
  byId("unlike").hidden = !flagged;
  byId("unlike").textContent = flagged ? UNLIKE_IMAGE : "";
  byId("unlike").title = flagged ? `Distance ${unlike.distance.toFixed(2)}; held-out images of the ` +
    `training data seldom exceed ${unlike.threshold.toFixed(2)}.` : "";
  byId("view-read").classList.toggle("unlike", flagged);
}
