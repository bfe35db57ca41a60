// A second window, for a second screen: it shows the film alone, as this one does.
//
// It asks the server for nothing: all that it shows is handed to it on a channel of these two.

import { byId } from "../lib/dom.js";
import { bind } from "../lib/keys.js";
import * as session from "../lib/session.js";

const KEPT = "cxrtext-second";
let channel = null;

function listen(viewer, id) {
  channel = new BroadcastChannel(`cxrtext-${id}`);
  channel.addEventListener("message", () => tell(viewer, true));
}

/** Tell the second window how the film is looked at; `whole` with its pixels. */
export function tell(viewer, whole = false) {
  if (!channel) return;
  const { picture } = viewer;
  const film = picture && { width: picture.width, height: picture.height, values: picture.values, said: picture.said };
  channel.postMessage({
    ...(whole || !film ? { film } : {}), ...(film ? { view: viewer.view() } : {}),
    note: byId("image-note").textContent, stage: viewer.stage.className,
    unlike: byId("view-read").classList.contains("unlike"),
  });
}

export function start(viewer) {
  const known = sessionStorage.getItem(KEPT);
  if (known) listen(viewer, known); // this window was loaded anew, and the other is still there
  const open = () => {
    const id = sessionStorage.getItem(KEPT) ?? [...crypto.getRandomValues(new Uint32Array(4))].join("-");
    sessionStorage.setItem(KEPT, id);
    if (!channel) listen(viewer, id);
    window.open(`/web/read/film.html#${id}`, `cxrtext-${id}`, "popup,width=900,height=900");
  };
  byId("second").addEventListener("click", open);
  for (const event of ["opened", "closed"]) session.on(event, () => tell(viewer, true));
  window.addEventListener("pagehide", () => channel?.postMessage({ film: null, note: "" }));
  bind("Film", "read", [{ keys: ["w"], does: "Show it in a second window", run: open, when: () => viewer.picture }]);
}
