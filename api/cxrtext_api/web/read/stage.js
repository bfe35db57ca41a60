// The viewer with its controls and its notes in the corners.

import { PRESETS, WHOLE } from "./levels.js";
import { byId, element } from "../lib/dom.js";
import * as files from "../lib/files.js";
import * as marks from "./marks.js";
import * as overlay from "./overlay.js";
import { listen } from "./pointing.js";
import * as session from "../lib/session.js";
import { MAX_ZOOM, Viewer } from "./viewer.js";

const CONTROLS = [
  "window-preset", "window-width", "window-level", "toggle-invert", "zoom-in", "zoom-out", "fit",
  "reset",
];
const OTHER = "other";
/** Views in which the patient's sides are not left and right, as manifests and DICOM name them. */
const LATERAL = /^(?:lat.*|.*lateral|[lr]|ll|rl|llo|rlo)$/i;

function presetOf({ width, level }) {
  const same = PRESETS.find((one) => one.width === width && one.level === level);
  return same?.name ?? OTHER;
}

function showWindow({ window: { width, level }, invert }) {
  for (const [name, value] of [["width", width], ["level", level]]) {
    byId(`window-${name}`).value = value;
    byId(`window-${name}-value`).textContent = value;
  }
  byId("window-preset").value = presetOf({ width, level });
  byId("toggle-invert").setAttribute("aria-pressed", String(invert));
  const changed = width !== WHOLE.width || level !== WHOLE.level;
  const parts = [changed ? `W ${width}  L ${level}` : "", invert ? "inverted" : ""];
  byId("window-note").textContent = parts.filter(Boolean).join("\n");
}

function showState(viewer) {
  overlay.showState(viewer);
  if (!viewer.picture) return;
  showWindow(viewer);
  const percent = `${Math.round(viewer.zoom * 100)} %`;
  byId("fit").textContent = percent;
  byId("fit").setAttribute("aria-label", `${percent}. Fit the image`);
  byId("zoom-out").disabled = viewer.zoom === 1;
  byId("zoom-in").disabled = viewer.zoom === MAX_ZOOM;
  byId("stage").classList.toggle("zoomed", viewer.zoom > 1);
}

const nameOf = ({ id, name }) => id ?? name ?? "image";

function onOpening(source) {
  byId("image-note").textContent = `Reading ${nameOf(source)}…`;
  busy("Reading the image…");
}

function onClosed(viewer, wanted) {
  viewer.clear();
  overlay.showFound(viewer, "", null);
  byId("image-note").textContent = "";
  byId("window-note").textContent = "";
  byId("stage").classList.remove("zoomed", "open");
  for (const id of CONTROLS) byId(id).disabled = true;
  byId("empty-title").textContent = `${nameOf(wanted)} could not be opened`;
  byId("empty").hidden = false;
}

function onOpened(viewer, { bitmap }) {
  byId("empty").hidden = true;
  viewer.setImage(bitmap);
  overlay.showFound(viewer, "", null);
  const { source, detail } = session.current;
  byId("image-note").textContent = detail
    ? `${detail.image_id}\n${detail.width} × ${detail.height}`
    : (source.name ?? "");
  for (const id of CONTROLS) byId(id).disabled = false;
  byId("stage").classList.add("open");
  byId("stage").classList.toggle("lateral", LATERAL.test(detail?.metadata?.view ?? ""));
  reveal();
}

/** On a small screen, come back to the image when there is something new to see. */
function reveal() {
  const { bottom } = byId("stage").getBoundingClientRect();
  if (bottom < window.innerHeight / 4) byId("stage").scrollIntoView();
}

function busy(text) {
  byId("busy").hidden = !text;
  if (text) byId("busy").firstElementChild.textContent = text;
  byId("stage").setAttribute("aria-busy", String(Boolean(text)));
}

function listenToControls(viewer) {
  const presets = [...PRESETS, { name: OTHER, title: "Own window" }];
  byId("window-preset").replaceChildren(
    ...presets.map(({ name, title }) => element("option", { value: name }, title)),
  );
  byId("window-preset").lastElementChild.hidden = true;
  byId("window-preset").addEventListener("change", ({ target }) => viewer.setPreset(target.value));
  for (const name of ["width", "level"]) {
    byId(`window-${name}`).addEventListener("input", ({ target }) =>
      viewer.setWindow({ [name]: Number(target.value) }));
  }
  byId("toggle-invert").addEventListener("click", () => viewer.setInvert(!viewer.invert));
  byId("zoom-in").addEventListener("click", () => viewer.zoomBy(1.25));
  byId("zoom-out").addEventListener("click", () => viewer.zoomBy(0.8));
  byId("fit").addEventListener("click", () => viewer.fit());
  byId("reset").addEventListener("click", () => viewer.reset());
}

export function start() {
  const viewer = new Viewer(byId("stage"), byId("canvas"), byId("peak"), showState);
  listen(viewer);
  listenToControls(viewer);
  overlay.start(viewer);
  marks.start(viewer);
  files.start();
  session.on("opening", onOpening);
  session.on("closed", (wanted) => onClosed(viewer, wanted));
  session.on("opened", (event) => onOpened(viewer, event));
  session.on("settled", () => busy(null));
  session.on("locating", () => busy("Looking…"));
  session.on("located", ({ sentence, found }) => {
    busy(null);
    overlay.showFound(viewer, sentence, found);
    if (found) reveal();
  });
}
