// The address of what is seen: film, sentence, window. What follows its # reaches no server's log.

import { byId } from "../lib/dom.js";
import { bind } from "../lib/keys.js";
import { here, note } from "../lib/router.js";
import * as session from "../lib/session.js";

let shown = null;

function paramsOf({ window: { width, level }, scale, invert, turn: { flip, quarter } }) {
  const [first] = scale.presets;
  const own = first.width !== width || first.level !== level;
  return Object.entries({ w: own && width, l: own && level, invert: invert && 1, flip: flip && 1, turn: quarter })
    .filter(([, value]) => value !== false && value !== 0 || (own && value === 0));
}

/** Show a film as a link says; another film's link says nothing of this one. */
export function take(params) {
  const number = (name) => Number(params.get(name));
  if (!shown.picture || !["w", "l", "invert", "flip", "turn"].some((name) => params.has(name))) return;
  shown.reset();
  const same = shown.scale.presets.find(({ width, level }) => width === number("w") && level === number("l"));
  if (same) shown.setPreset(same.name);
  else if (number("w") > 0 && Number.isFinite(number("l"))) shown.setWindow({ width: number("w"), level: number("l") });
  shown.setInvert(params.has("invert"));
  shown.turnBy({ quarter: number("turn") % 4 || 0 });
  if (params.has("flip")) shown.turnBy({ flip: true });
}

/** Bring the link into the address bar and, where the browser allows it, among what can be pasted. */
async function copy() {
  if (session.current.source?.id === undefined) {
    byId("ruler-note").textContent = "A file of this machine has no link.";
    return;
  }
  const { params } = here();
  const kept = ["image", "say"].filter((name) => params.has(name)).map((name) => [name, params.get(name)]);
  note("read", [...kept, ...paramsOf(shown)], { replace: true });
  let said = "Link copied.";
  try {
    await navigator.clipboard.writeText(window.location.href);
  } catch {
    said = "The link is in the address bar; copy it from there.";
  }
  byId("ruler-note").textContent = said;
}

export function start(viewer) {
  shown = viewer;
  byId("copy-link").addEventListener("click", copy);
  bind("Film", "read", [{ keys: ["l"], does: "Copy a link to what is seen", run: copy, when: () => viewer.picture }]);
}
