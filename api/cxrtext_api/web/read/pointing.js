// Mouse, touch and keyboard control of the viewers.

import { bind } from "../lib/keys.js";
import { openBeside } from "../search/archive.js";
import { PRESETS } from "./levels.js";

const STEP = 48;
const MOVES = { ArrowLeft: [STEP, 0], ArrowRight: [-STEP, 0], ArrowUp: [0, STEP], ArrowDown: [0, -STEP] };
const PRESET_KEYS = PRESETS.map((_, at) => String(at + 1));

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

/** Left button or finger moves the picture; right button sets window (across) and level (up and down). */
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

function bindKeys(active) {
  const when = () => active().picture;
  const choose = ({ key }) => active().setPreset(PRESETS[key - 1].name);
  const film = (keys, does, run) => ({ keys, does, run, when });
  const window = (key, does, name, by) => film([key], does, () =>
    active().setWindow({ [name]: active().window[name] + by }));
  bind("Film", "read", [
    film(["n"], "Next film", () => openBeside(1)),
    film(["p"], "Previous film", () => openBeside(-1)),
    film(["+", "="], "Zoom in", () => active().zoomBy(1.25)),
    film(["-"], "Zoom out", () => active().zoomBy(0.8)),
    film(["0"], "Fit", () => active().fit()),
    { ...film(Object.keys(MOVES), "Move, while the viewer has the focus", ({ key }) => active().moveBy(...MOVES[key])), near: ".viewer" },
    { ...film(PRESET_KEYS, "Window presets", choose), names: ["1", "…", PRESET_KEYS.at(-1)] },
    window("]", "Level up", "level", 6),
    window("[", "Level down", "level", -6),
    window(".", "Window wider", "width", 8),
    window(",", "Window narrower", "width", -8),
    film(["i"], "Invert", () => active().setInvert(!active().invert)),
    film(["h"], "Heatmap", () => active().setOverlay({ heat: !active().overlay.heat })),
    film(["b"], "Boxes", () => active().setOverlay({ boxes: !active().overlay.boxes })),
    film(["r"], "Reset", () => active().reset()),
    { keys: [], names: ["right drag"], does: "Window and level" },
  ]);
}

/** Listen to viewers. Keys go to the one that `active` returns; `activate` makes one active. */
export function listen(viewers, active, activate) {
  for (const viewer of viewers) {
    for (const event of ["pointerdown", "wheel", "focusin"]) {
      viewer.stage.addEventListener(event, () => activate(viewer), { capture: true, passive: true });
    }
    listenToWheel(viewer);
    listenToPointer(viewer);
  }
  bindKeys(active);
}
