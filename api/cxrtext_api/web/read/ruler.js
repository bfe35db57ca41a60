// Distances on the film: a line that is drawn by mouse or finger, or moved by keys.

import { byId } from "../lib/dom.js";
import { bind } from "../lib/keys.js";

const STEP = 8; // pixels of the stage
const NEAR = 14;
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const UNKNOWN = "of the film; its file gives no size of a pixel";
const OF = {
  PixelSpacing: "by PixelSpacing of the file",
  ImagerPixelSpacing: "at the detector (ImagerPixelSpacing); in the patient it is less",
  NominalScannedPixelSpacing: "on the scanned film (NominalScannedPixelSpacing)",
};

let end = 1; // the end that is moved
let held = null;

/** The length of the viewer's line, and what it rests on. */
function lengthOf({ line: [from, to], picture: { said, width, height } }) {
  const { size = [width, height], spacing } = said;
  const sides = size.map((pixels, axis) => pixels * (to[axis] - from[axis]) * (spacing?.mm[axis] ?? 1));
  const length = Math.hypot(...sides);
  return spacing ? [`${length.toFixed(1)} mm`, OF[spacing.of]] : [`${Math.round(length)} px`, UNKNOWN];
}

/** Draw the line over a viewer's film. */
export function draw(context, viewer) {
  if (!viewer.line) return;
  const [from, to] = viewer.line.map((place) => viewer.toStage(place));
  const path = new Path2D(`M${from.x} ${from.y}L${to.x} ${to.y}`);
  for (const { x, y } of [from, to]) path.rect(x - 3, y - 3, 6, 6);
  const place = [Math.min(to.x + 10, viewer.stage.clientWidth - 80), Math.max(to.y - 8, 18)];
  context.font = "600 14px system-ui, sans-serif";
  for (const [color, width] of [["#000", 4], ["#ffd866", 1.75]]) {
    Object.assign(context, { strokeStyle: color, fillStyle: color, lineWidth: width });
    context.stroke(path);
    context[width > 2 ? "strokeText" : "fillText"](lengthOf(viewer)[0], ...place);
  }
}

export function show({ line, stage }) {
  byId("toggle-ruler").setAttribute("aria-pressed", String(Boolean(line)));
  stage.classList.toggle("measuring", Boolean(line));
}

function set(viewer, line) {
  viewer.line = line;
  byId("ruler-note").textContent = line ? lengthOf(viewer).join(" ") : "";
  viewer.draw();
}

/** Lay the ruler over the middle of what is seen, or take it away. */
function toggle(viewer) {
  const { clientWidth: width, clientHeight: height } = viewer.stage;
  const places = [0.4, 0.6].map((share) => viewer.toPicture({ x: share * width, y: height / 2 }));
  end = 1;
  set(viewer, viewer.line ? null : places);
  viewer.stage.focus({ preventScroll: true });
}

const moveEnd = (viewer, to) =>
  set(viewer, viewer.line.map((place, at) => (at === end ? viewer.toPicture(to) : place)));

function nudge(viewer, { key, shiftKey }) {
  const { x, y } = viewer.toStage(viewer.line[end]);
  const [across, down] = ARROWS[key].map((one) => one * (shiftKey ? 1 : STEP));
  moveEnd(viewer, { x: x + across, y: y + down });
}

/** While the ruler lies there, the left button or a finger takes an end of it, or begins anew. */
function listenToPointer(viewer) {
  const { stage } = viewer;
  const placeOf = ({ clientX, clientY }) => {
    const { left, top } = stage.getBoundingClientRect();
    return { x: clientX - left, y: clientY - top };
  };
  stage.addEventListener("pointerdown", (event) => {
    if (!viewer.line || event.button !== 0) return;
    event.stopPropagation();
    const at = placeOf(event);
    const away = viewer.line.map((place) => viewer.toStage(place)).map(({ x, y }) => Math.hypot(x - at.x, y - at.y));
    end = away[0] < Math.min(away[1], NEAR) ? 0 : 1;
    if (Math.min(...away) > NEAR) set(viewer, [viewer.toPicture(at), viewer.toPicture(at)]);
    held = event.pointerId;
    stage.setPointerCapture(held);
  }, true);
  stage.addEventListener("pointermove", (event) => held === event.pointerId && moveEnd(viewer, placeOf(event)));
  for (const name of ["pointerup", "pointercancel"]) stage.addEventListener(name, () => { held = null; });
}

export function start(active, viewers) {
  for (const viewer of viewers) {
    viewer.layers.push(draw);
    listenToPointer(viewer);
  }
  const lay = () => toggle(active());
  const when = () => active().line;
  byId("toggle-ruler").addEventListener("click", lay);
  bind("Ruler", "read", [
    { keys: ["m"], does: "Lay it on the film, or take it away", run: lay, when: () => active().picture },
    { keys: Object.keys(ARROWS), does: "Move its end; with Shift by a pixel", near: ".viewer", when, run: (event) => nudge(active(), event) },
    { keys: ["x"], does: "Take its other end", when, run: () => { end = 1 - end; } },
    { keys: ["Escape"], does: "Take it away", when, run: lay },
  ]);
}
