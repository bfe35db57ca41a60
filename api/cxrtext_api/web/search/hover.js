// Where a found image supports the sentence: drawn over its thumbnail while it is looked at.

import { ground } from "../lib/api.js";
import { paint } from "../lib/colormap.js";
import { element, wait } from "../lib/dom.js";

const PAUSE = 150;
const SIDE = 128;
const REMEMBERED = 200;

const painted = new Map();
let looking = new AbortController();

function remember(key, value) {
  painted.set(key, value);
  if (painted.size > REMEMBERED) painted.delete(painted.keys().next().value);
}

/** The map over the whole picture as the thumbnail shows it: fitted into a square. */
function draw(found) {
  const { region, width, height } = found;
  const canvas = element("canvas", { className: "heat", width: SIDE, height: SIDE });
  const scale = SIDE / Math.max(width, height);
  const [left, top] = [(SIDE - width * scale) / 2, (SIDE - height * scale) / 2];
  const [x, y, w, h] = region;
  canvas.getContext("2d").drawImage(
    paint(found, { side: SIDE }), left + x * scale, top + y * scale, w * scale, h * scale,
  );
  return canvas;
}

async function show(pick, hit, sentence) {
  looking.abort();
  looking = new AbortController();
  const { signal } = looking;
  const key = `${hit.image_id}\n${sentence}`;
  try {
    if (!painted.has(key)) {
      await wait(PAUSE, signal);
      remember(key, draw(await ground({ id: hit.image_id }, { sentence }, signal)));
    }
    if (!signal.aborted) pick.querySelector(".thumb").append(painted.get(key));
  } catch {
    // A picture without its map still says what it is.
  }
}

function leave(pick) {
  looking.abort();
  pick.querySelector(".heat")?.remove();
}

/** Show a map while a result is pointed at or has the focus. */
export function watch(pick, hit, sentence) {
  for (const event of ["pointerenter", "focus"]) {
    pick.addEventListener(event, () => show(pick, hit, sentence));
  }
  pick.addEventListener("pointerleave", () => leave(pick));
  pick.addEventListener("blur", () => leave(pick));
}

/** Stop looking: the results go. */
export function forget() {
  looking.abort();
}
