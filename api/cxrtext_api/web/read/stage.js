// The viewer with its controls and its notes in the corners.

import { byId, dayOf, element } from "../lib/dom.js";
import * as files from "../lib/files.js";
import * as frames from "./frames.js";
import * as link from "./link.js";
import * as overlay from "./overlay.js";
import { listen } from "./pointing.js";
import * as ruler from "./ruler.js";
import * as second from "./second.js";
import * as session from "../lib/session.js";
import * as turning from "./turning.js";
import { MAX_ZOOM, Viewer } from "./viewer.js";

const CONTROLS = ".toolbar :is(button, select, input):not(#open, #file)";
const OTHER = "other";
/** Views in which the patient's sides are not left and right, as manifests and DICOM name them. */
const LATERAL = /^(?:lat.*|.*lateral|[lr]|ll|rl|llo|rlo)$/i;

function showWindow({ scale, window: { width, level }, invert }) {
  for (const [name, value] of [["width", width], ["level", level]]) {
    byId(`window-${name}`).value = value;
    byId(`window-${name}-value`).textContent = value;
  }
  const [first] = scale.presets;
  const same = scale.presets.find((one) => one.width === width && one.level === level);
  byId("window-preset").value = same?.name ?? OTHER;
  byId("toggle-invert").setAttribute("aria-pressed", String(invert));
  const changed = scale.deep || same !== first;
  const parts = [changed ? `W ${width}  L ${level}` : "", invert ? "inverted" : ""];
  byId("window-note").textContent = parts.filter(Boolean).join("\n");
}

function showState(viewer) {
  overlay.showState(viewer);
  second.tell(viewer);
  if (!viewer.picture) return;
  turning.show(viewer);
  ruler.show(viewer);
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
  byId("view-note").textContent = "";
  byId("stage").classList.remove("zoomed", "open");
  for (const one of document.querySelectorAll(CONTROLS)) one.disabled = true;
  byId("empty-title").textContent = `${nameOf(wanted)} could not be opened`;
  byId("empty").hidden = false;
}

/** Offer the windows of a picture, within its own bounds. */
function showPresets({ presets, width, level, step }) {
  byId("window-preset").replaceChildren(
    ...presets.map(({ name, title }) => element("option", { value: name }, title)),
    element("option", { value: OTHER, hidden: true }, "Own window"),
  );
  for (const [name, [min, max]] of Object.entries({ width, level })) {
    Object.assign(byId(`window-${name}`), { min, max, step });
  }
}

function onOpened(viewer, { picture }) {
  byId("empty").hidden = true;
  viewer.setImage(picture);
  showPresets(viewer.scale);
  overlay.showFound(viewer, "", null);
  const { source, detail } = session.current;
  byId("image-note").textContent = detail
    ? [detail.image_id, dayOf(detail), `${detail.width} × ${detail.height}`].filter(Boolean).join("\n")
    : (source.name ?? "");
  for (const one of document.querySelectorAll(CONTROLS)) one.disabled = false;
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
  showPresets(viewer.scale);
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
  listenToControls(viewer);
  overlay.start(viewer);
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
  for (const part of [ruler, turning, frames, link, second]) part.start(() => viewer, [viewer]);
  listen(viewer);
}
