// A second window, for a second screen, that shows the film alone, as this one does.
//
// It asks the server for nothing: all that it shows is handed to it on a channel of these two.

import { byId } from "../lib/dom.js";
import { bind } from "../lib/keys.js";
import * as session from "../lib/session.js";

const KEPT = "cxrtext-second";
let channel = null;

/** Tell the second window how the film is looked at; `whole` with its pixels. */
export function tell(viewer, whole = false) {
  const { canvas, context, pixels, ...film } = viewer.picture ?? {};
  channel?.postMessage({
    film: viewer.picture ? whole && film : null, view: viewer.view(), stage: viewer.stage.className,
    note: byId("image-note").textContent, unlike: byId("view-read").classList.contains("unlike"),
  });
}

function listen(active, id) {
  channel ??= new BroadcastChannel(`cxrtext-${id}`);
  channel.onmessage = () => tell(active(), true);
}

export function start(active) {
  let id = sessionStorage.getItem(KEPT);
  if (id) listen(active, id); // this page was loaded anew, and the other may still be there
  const open = () => {
    id ??= crypto.getRandomValues(new Uint32Array(4)).join("-");
    sessionStorage.setItem(KEPT, id);
    listen(active, id);
    window.open(`/web/read/film.html#${id}`, `cxrtext-${id}`, "popup,width=900,height=900");
  };
  byId("second").addEventListener("click", open);
  for (const event of ["opened", "closed"]) session.on(event, () => tell(active(), true));
  window.addEventListener("pagehide", () => channel?.postMessage({ film: null, stage: "stage" }));
  bind("Film", "read", [{ keys: ["w"], does: "Show it in a second window", run: open, when: () => active().picture }]);
}
