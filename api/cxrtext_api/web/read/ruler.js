// Distances on the film: a line that is drawn by mouse or finger, or moved by keys.

import { byId } from "../lib/dom.js";
import { bind } from "../lib/keys.js";

const STEP = 8; // pixels of the stage
const NEAR = 14;
const OF = {
  PixelSpacing: "by PixelSpacing of the file",
  ImagerPixelSpacing: "at the detector (ImagerPixelSpacing); in the patient it is less",
  NominalScannedPixelSpacing: "on the scanned film (NominalScannedPixelSpacing)",
};

let measures = false;
let end = 1; // the end that keys move
let held = null;

/** The length of the viewer's line: a short text, and what it rests on. */
function lengthOf({ line, picture }) {
  const { size = [picture.width, picture.height], spacing = null } = picture.said;
  const along = size.map((pixels, axis) => pixels * (line[1][axis] - line[0][axis]));
  if (!spacing) return [`${Math.round(Math.hypot(...along))} px`, "of the film; its file gives no size of a pixel"];
  const millimeters = Math.hypot(...along.map((pixels, axis) => pixels * spacing.mm[axis]));
  return [`${millimeters.toFixed(1)} mm`, OF[spacing.of] ?? ""];
}

function draw(context, viewer) {
  if (!viewer.line) return;
  const [from, to] = viewer.line.map((place) => viewer.toStage(place));
  for (const [style, width] of [["rgba(0, 0, 0, 0.75)", 4], ["#ffd866", 1.75]]) {
    Object.assign(context, { strokeStyle: style, lineWidth: width });
    context.beginPath();
    context.moveTo(from.x, from.y);
    context.lineTo(to.x, to.y);
    context.stroke();
    for (const { x, y } of [from, to]) context.strokeRect(x - 3, y - 3, 6, 6);
  }
  Object.assign(context, { font: "600 14px system-ui, sans-serif", lineWidth: 4, fillStyle: "#ffd866", strokeStyle: "#000" });
  const [text] = lengthOf(viewer);
  const place = [Math.min(to.x + 10, viewer.stage.clientWidth - 80), Math.max(to.y - 8, 18)];
  context.strokeText(text, ...place);
  context.fillText(text, ...place);
}

export function show({ line }) {
  byId("toggle-ruler").setAttribute("aria-pressed", String(Boolean(line)));
  byId("stage").classList.toggle("measuring", Boolean(line));
  measures = Boolean(line);
}

function set(viewer, line) {
  measures = Boolean(line);
  viewer.line = line;
  byId("ruler-note").textContent = line ? lengthOf(viewer).join(" ") : "";
  viewer.draw();
}

/** Lay the ruler over the middle of what is seen, or take it away. */
function toggle(viewer) {
  const { clientWidth: width, clientHeight: height } = viewer.stage;
  end = 1;
  const places = [0.4, 0.6].map((share) => viewer.toPicture({ x: share * width, y: height / 2 }));
  set(viewer, measures ? null : places);
  if (measures) viewer.stage.focus({ preventScroll: true });
}

function moveEnd(viewer, to) {
  set(viewer, viewer.line.map((place, at) => (at === end ? viewer.toPicture(to) : place)));
}

function nudge(viewer, key, step) {
  const [x, y] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
  const { x: left, y: top } = viewer.toStage(viewer.line[end]);
  moveEnd(viewer, { x: left + step * x, y: top + step * y });
}

/** While the ruler lies there, the left button or a finger takes an end of it, or begins anew. */
function listenToPointer(viewer) {
  const { stage } = viewer;
  const placeOf = (event) => {
    const box = stage.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const take = (event) => {
    const at = placeOf(event);
    const away = viewer.line.map((place) => {
      const { x, y } = viewer.toStage(place);
      return Math.hypot(x - at.x, y - at.y);
    });
    held = event.pointerId;
    stage.setPointerCapture(held);
    end = away[0] < Math.min(away[1], NEAR) ? 0 : 1;
    if (Math.min(...away) > NEAR) set(viewer, [viewer.toPicture(at), viewer.toPicture(at)]);
  };
  stage.addEventListener("pointerdown", (event) => {
    if (!measures || event.button !== 0 || held !== null) return;
    event.stopPropagation();
    take(event);
  }, true);
  stage.addEventListener("pointermove", (event) => held === event.pointerId && moveEnd(viewer, placeOf(event)));
  for (const name of ["pointerup", "pointercancel"]) stage.addEventListener(name, () => { held = null; });
}

export function start(viewer) {
  viewer.layers.push(draw);
  listenToPointer(viewer);
  byId("toggle-ruler").addEventListener("click", () => toggle(viewer));
  const is = () => measures;
  const arrows = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"];
  bind("Ruler", "read", [
    { keys: ["m"], does: "Lay the ruler, or take it away", run: () => toggle(viewer), when: () => viewer.picture },
    { keys: arrows, does: "Move its end; with Shift by a pixel", near: ".viewer", when: is,
      run: ({ key, shiftKey }) => nudge(viewer, key, shiftKey ? 1 : STEP) },
    { keys: ["x"], does: "Take its other end", when: is, run: () => { end = 1 - end; } },
    { keys: ["Escape"], does: "Take it away", when: is, run: () => set(viewer, null) },
  ]);
}

/** Draw the line of a viewer that only follows another. */
export const follow = (viewer) => viewer.layers.push(draw);
