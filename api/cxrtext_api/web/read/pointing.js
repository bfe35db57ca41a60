// The viewers by mouse, finger and keyboard.

import * as session from "../lib/session.js";
import { openBeside } from "../search/archive.js";

const STEP = 48;
const PRESET_KEYS = ["whole", "auto", "contrast", "lungs", "mediastinum"];

function listenToWheel(viewer) {
  const { stage } = viewer;
  stage.addEventListener("wheel", (event) => {
    if (!viewer.picture || (event.deltaY > 0 && viewer.zoom === 1)) return;
    event.preventDefault();
    const box = stage.getBoundingClientRect();
    const at = { x: event.clientX - box.left, y: event.clientY - box.top };
    viewer.zoomBy(Math.exp(-event.deltaY / 400), at);
  }, { passive: false });
}

/** Left button or finger moves; right button sets window (across) and level (up and down). */
function listenToPointer(viewer) {
  const { stage } = viewer;
  let held = null;
  stage.addEventListener("pointerdown", (event) => {
    if (!viewer.picture || held || (event.button !== 0 && event.button !== 2)) return;
    if (event.target.closest("button, input, select, label")) return;
    if (event.button === 0 && viewer.zoom === 1) return;
    held = { button: event.button, x: event.clientX, y: event.clientY };
    stage.setPointerCapture(event.pointerId);
    stage.dataset.held = event.button === 2 ? "window" : "move";
  });
  stage.addEventListener("pointermove", (event) => {
    if (!held) return;
    const [x, y] = [event.clientX - held.x, event.clientY - held.y];
    Object.assign(held, { x: event.clientX, y: event.clientY });
    if (held.button === 0) viewer.moveBy(x, y);
    else {
      const { width, level } = viewer.window;
      viewer.setWindow({ width: width + x, level: level - y });
    }
  });
  for (const end of ["pointerup", "pointercancel"]) {
    stage.addEventListener(end, () => {
      held = null;
      delete stage.dataset.held;
    });
  }
  stage.addEventListener("contextmenu", (event) => viewer.picture && event.preventDefault());
  stage.addEventListener("dblclick", () => viewer.fit());
}

function actionOf(key, viewer) {
  const { width, level } = viewer.window;
  const { heat, boxes } = viewer.overlay;
  return {
    "+": () => viewer.zoomBy(1.25),
    "=": () => viewer.zoomBy(1.25),
    "-": () => viewer.zoomBy(0.8),
    0: () => viewer.fit(),
    ArrowLeft: () => viewer.moveBy(STEP, 0),
    ArrowRight: () => viewer.moveBy(-STEP, 0),
    ArrowUp: () => viewer.moveBy(0, STEP),
    ArrowDown: () => viewer.moveBy(0, -STEP),
    "[": () => viewer.setWindow({ level: level - 6 }),
    "]": () => viewer.setWindow({ level: level + 6 }),
    ",": () => viewer.setWindow({ width: width - 8 }),
    ".": () => viewer.setWindow({ width: width + 8 }),
    i: () => viewer.setInvert(!viewer.invert),
    r: () => viewer.reset(),
    h: () => viewer.setOverlay({ heat: !heat }),
    b: () => viewer.setOverlay({ boxes: !boxes }),
    n: () => openBeside(1),
    p: () => openBeside(-1),
  }[key];
}

/** Listen to the keys of the open image; `actionOf` gives what a key does, or nothing. */
export function onKeys(actionOf) {
  document.querySelector(".viewer").addEventListener("keydown", (event) => {
    if (!session.current.source || event.ctrlKey || event.metaKey || event.altKey) return;
    // A slider, a list, and the strip of images have keys of their own.
    if (event.defaultPrevented || event.target.closest("input, select")) return;
    const action = actionOf(event.key);
    if (!action) return;
    event.preventDefault();
    action();
  });
}

/**
 * A button that was pressed by mouse or finger to see something gives the keyboard to the image;
 * who presses by keyboard stays where they are.
 */
function listenToPresses(active) {
  let byPointer = false;
  for (const kind of ["pointerdown", "keydown"]) {
    document.addEventListener(kind, () => { byPointer = kind === "pointerdown"; }, true);
  }
  for (const event of ["opened", "located"]) {
    session.on(event, () => {
      if (byPointer && document.activeElement.matches("button, body")) {
        active().stage.focus({ preventScroll: true });
      }
    });
  }
}

/** Listen to some viewers; the one that `active` gives has the keys, and `activate` chooses it. */
export function listen(viewers, active, activate) {
  for (const viewer of viewers) {
    for (const event of ["pointerdown", "wheel", "focusin"]) {
      viewer.stage.addEventListener(event, () => activate(viewer), { capture: true, passive: true });
    }
    listenToWheel(viewer);
    listenToPointer(viewer);
  }
  onKeys((key) => {
    const preset = PRESET_KEYS[Number(key) - 1];
    return preset ? () => active().setPreset(preset) : actionOf(key, active());
  });
  listenToPresses(active);
}
