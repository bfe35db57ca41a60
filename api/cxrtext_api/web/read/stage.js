// The viewers of the open image and of one beside it, with their controls and corner notes.

import { byId, dayOf, element } from "../lib/dom.js";
import * as files from "../lib/files.js";
import { PRESETS } from "./levels.js";
import * as marks from "./marks.js";
import * as overlay from "./overlay.js";
import { listen } from "./pointing.js";
import * as session from "../lib/session.js";
import { MAX_ZOOM, Viewer } from "./viewer.js";

const CONTROLS = ".toolbar :is(button, select, input):not(#open, #file)";
const OTHER = "other";
/** Lateral views, as manifests and DICOM name them: left and right are not the patient's sides. */
const LATERAL = /^(?:lat.*|.*lateral|[lr]|ll|rl|llo|rlo)$/i;

/** Keys and controls change the `active` viewer, and the other follows it. */
export const viewers = { present: null, prior: null };
let active = null;

/** Make the other viewer follow the active one: place, zoom, window and overlay. */
function lead() {
  const other = active === viewers.present ? viewers.prior : viewers.present;
  if (active.picture && other.picture) other.follow(active);
}

const presetOf = ({ width, level }) =>
  PRESETS.find((one) => one.width === width && one.level === level)?.name ?? OTHER;

function showState(viewer) {
  const { stage, window, invert } = viewer;
  stage.classList.toggle("zoomed", Boolean(viewer.picture) && viewer.zoom > 1);
  if (viewer.picture) {
    const changed = presetOf(window) !== PRESETS[0].name;
    stage.querySelector(".top-right").textContent = [
      changed ? `W ${window.width}  L ${window.level}` : "", invert ? "inverted" : "",
    ].filter(Boolean).join("\n");
  }
  if (viewer !== active) return;
  lead();
  overlay.showState(viewer);
  if (!viewer.picture) return;
  byId("window-preset").value = presetOf(window);
  byId("toggle-invert").setAttribute("aria-pressed", String(invert));
  const zoom = `${Math.round(viewer.zoom * 100)} %`;
  byId("fit").textContent = zoom;
  byId("fit").setAttribute("aria-label", `${zoom}. Fit the image`);
  byId("zoom-out").disabled = viewer.zoom === 1;
  byId("zoom-in").disabled = viewer.zoom === MAX_ZOOM;
}

const nameOf = ({ id, name }) => id ?? name ?? "image";

function onOpening(source) {
  byId("image-note").textContent = `Reading ${nameOf(source)}…`;
  busy("Reading the image…");
}

function enableControls(enabled) {
  for (const one of document.querySelectorAll(CONTROLS)) one.disabled = !enabled;
}

function onClosed(wanted) {
  showFilm(viewers.present, null);
  overlay.showFound(viewers.present, "", null);
  enableControls(false);
  byId("empty-title").textContent = `${nameOf(wanted)} could not be opened`;
  byId("empty").hidden = false;
}

/** Show a picture with its index entry or its name; null for no picture. */
function showFilm(viewer, picture, detail = null, name = "") {
  const { stage } = viewer;
  viewer.setImage(picture);
  stage.querySelector(".top-left").textContent = detail
    ? [detail.image_id, dayOf(detail), `${detail.width} × ${detail.height}`].filter(Boolean).join("\n")
    : name;
  stage.querySelector(".top-right").textContent = "";
  stage.classList.toggle("open", Boolean(picture));
  stage.classList.toggle("lateral", LATERAL.test(detail?.metadata?.view ?? ""));
}

/** Show an earlier film beside the open one (null for none), with the same place and window. */
export function showPrior(picture, detail = null) {
  if (!picture && document.activeElement === viewers.prior.stage) viewers.present.stage.focus();
  active = viewers.present;
  byId("prior-film").hidden = byId("present-caption").hidden = !picture;
  showFilm(viewers.prior, picture, detail);
  lead();
}

function onOpened({ picture }) {
  byId("empty").hidden = true;
  active = viewers.present;
  const { source, detail } = session.current;
  showFilm(active, picture, detail, source.name ?? "");
  overlay.showFound(active, "", null);
  enableControls(true);
  reveal();
}

/** On a small screen, scroll back to the image when it shows something new. */
function reveal() {
  const { bottom } = byId("stage").getBoundingClientRect();
  if (bottom < window.innerHeight / 4) byId("stage").scrollIntoView();
}

function busy(text) {
  byId("busy").hidden = !text;
  byId("busy").textContent = text ?? "";
  byId("stage").setAttribute("aria-busy", String(Boolean(text)));
}

function listenToControls() {
  byId("window-preset").replaceChildren(
    ...PRESETS.map(({ name, title }) => element("option", { value: name }, title)),
    element("option", { value: OTHER, hidden: true }, "Own window"),
  );
  byId("window-preset").addEventListener("change", ({ target }) => active.setPreset(target.value));
  byId("toggle-invert").addEventListener("click", () => active.setInvert(!active.invert));
  byId("zoom-in").addEventListener("click", () => active.zoomBy(1.25));
  byId("zoom-out").addEventListener("click", () => active.zoomBy(0.8));
  byId("fit").addEventListener("click", () => active.fit());
  byId("reset").addEventListener("click", () => active.reset());
}

/** Make a viewer with a picture the active one. */
function activate(viewer) {
  if (!viewer.picture || viewer === active) return;
  lead(); // changes that are not drawn yet reach the other viewer first
  active = viewer;
  showState(viewer);
}

export function start() {
  const viewer = new Viewer(byId("stage"), showState);
  Object.assign(viewers, { present: viewer, prior: new Viewer(byId("prior-stage"), showState) });
  active = viewer;
  listenToControls();
  overlay.start(() => active);
  marks.start();
  files.start();
  session.on("opening", onOpening);
  session.on("closed", onClosed);
  session.on("opened", onOpened);
  session.on("settled", () => busy(null));
  session.on("locating", () => busy("Looking…"));
  session.on("located", ({ sentence, found }) => {
    busy(null);
    overlay.showFound(viewer, sentence, found);
    if (found) reveal();
  });
  listen(Object.values(viewers), () => active, activate);
}
