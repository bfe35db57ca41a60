// The banner over an image that is unlike those the model was trained on.

import { byId } from "../lib/dom.js";
import { isUnlike, UNLIKE_IMAGE, unlikeTitle } from "../lib/quality.js";
import * as session from "../lib/session.js";

/** Take what an answer says of the open image; null where the server does not know. */
export function take(unlike) {
  const flagged = isUnlike(unlike);
  byId("unlike").hidden = !flagged;
  byId("unlike").textContent = flagged ? UNLIKE_IMAGE : "";
  byId("unlike").title = flagged ? unlikeTitle(unlike) : "";
  byId("view-read").classList.toggle("unlike", flagged);
}

/** What to say where nothing is known of images. */
export const unknown = () => " Whether this image is like those of the training is not known: " +
  (session.current.model?.knows_images
    ? "it was indexed before the checkpoint said so."
    : "the checkpoint does not say. “cxrtext calibrate --keep-reference” with the training data adds it.");

export function start() {
  for (const event of ["opened", "closed"]) session.on(event, () => take(null));
  session.on("located", ({ found }) => found?.unlike && take(found.unlike));
}
