// The address of what is seen: film, sentence, window. What follows its # reaches no server's log.

import { byId } from "../lib/dom.js";
import { bind } from "../lib/keys.js";
import { here, note } from "../lib/router.js";
import * as session from "../lib/session.js";

let active = () => null;

/** Show the open film with the window of a link. */
export function take(params) {
  const shown = active();
  const [width, level] = ["w", "l"].map((name) => Number(params.get(name) ?? NaN));
  if (!shown.picture || !(width > 0) || !Number.isFinite(level)) return;
  const same = shown.scale.presets.find((one) => one.width === width && one.level === level);
  if (same) shown.setPreset(same.name);
  else shown.setWindow({ width, level });
  shown.setInvert(params.has("invert"));
}

/** Bring the link into the address bar and, where the browser lets a page do it, to the clipboard. */
async function copy() {
  const shown = active();
  const { params } = here();
  params.set("w", shown.window.width);
  params.set("l", shown.window.level);
  if (shown.invert) params.set("invert", "1");
  else params.delete("invert");
  note("read", params, { replace: true });
  // Without TLS a page is given no clipboard.
  const isCopied = await navigator.clipboard?.writeText(window.location.href).then(() => true, () => false);
  byId("ruler-note").textContent = isCopied ? "Link copied." : "The link is in the address bar; copy it from there.";
}

export function start(shown) {
  active = shown;
  session.on("opened", () => { byId("copy-link").disabled = session.current.source.id === undefined; });
  byId("copy-link").addEventListener("click", copy);
  bind("Film", "read", [
    { keys: ["k"], does: "Copy a link to what is seen", run: copy, when: () => !byId("copy-link").disabled },
  ]);
}
