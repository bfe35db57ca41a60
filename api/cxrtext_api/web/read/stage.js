// The viewers, of the open image and of one beside it, with their controls and notes in the corners.

import { byId, dayOf, element } from "../lib/dom.js";
import * as files from "../lib/files.js";
import * as frames from "./frames.js";
import * as address from "./link.js";
import * as marks from "./marks.js";
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

/** The viewers; `active` is the one that keys and controls change, and the other follows it. */
export const viewers = { present: null, prior: null };
let active = null;
let isLinked = true;

const other = () => (active === viewers.present ? viewers.prior : viewers.present);

/** Let the other viewer show the same place in the same way, where both films count in alike values. */
function lead() {
  const follower = other();
  if (!active.picture || !follower.picture) return;
  const { window, invert, turn, zoom, overlay, move } = active.view();
  const own = active.scale.deep === follower.scale.deep ? window : follower.window;
  follower.showAs({ window: { ...own }, invert, turn: { ...turn }, zoom, overlay: { ...overlay }, move });
}

/** Whether the two viewers show the same place in the same way; the active one leads. */
export function link(linked = isLinked) {
  isLinked = linked;
  if (isLinked) lead();
}

export const linked = () => isLinked;

const presetOf = ({ scale, window: { width, level } }) =>
  scale.presets.find((one) => one.width === width && one.level === level);

function showNote(viewer) {
  const { stage, scale, window: { width, level }, invert } = viewer;
  const changed = scale.deep || presetOf(viewer) !== scale.presets[0];
  const parts = [changed ? `W ${width}  L ${level}` : "", invert ? "inverted" : ""];
  stage.querySelector(".top-right").textContent = parts.filter(Boolean).join("\n");
}

function showWindow(viewer) {
  const { window: { width, level }, invert } = viewer;
  for (const [name, value] of [["width", width], ["level", level]]) {
    byId(`window-${name}`).value = value;
    byId(`window-${name}-value`).textContent = value;
  }
  byId("window-preset").value = presetOf(viewer)?.name ?? OTHER;
  byId("toggle-invert").setAttribute("aria-pressed", String(invert));
}

function showState(viewer) {
  viewer.stage.classList.toggle("zoomed", Boolean(viewer.picture) && viewer.zoom > 1);
  if (viewer.picture) {
    showNote(viewer);
    turning.showSides(viewer);
  }
  if (viewer === viewers.present) second.tell(viewer);
  if (viewer !== active) return;
  if (isLinked) lead();
  overlay.showState(viewer);
  if (!viewer.picture) return;
  turning.show(viewer);
  ruler.show(viewer);
  showWindow(viewer);
  const percent = `${Math.round(viewer.zoom * 100)} %`;
  byId("fit").textContent = percent;
  byId("fit").setAttribute("aria-label", `${percent}. Fit the image`);
  byId("zoom-out").disabled = viewer.zoom === 1;
  byId("zoom-in").disabled = viewer.zoom === MAX_ZOOM;
}

const nameOf = ({ id, name }) => id ?? name ?? "image";

function onOpening(source) {
  byId("image-note").textContent = `Reading ${nameOf(source)}…`;
  busy("Reading the image…");
}

function onClosed(viewer, wanted) {
  showFilm(viewer, null);
  overlay.showFound(viewer, "", null);
  for (const one of document.querySelectorAll(CONTROLS)) one.disabled = true;
  byId("view-note").textContent = "";
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

/** Show a picture, with what the index knows of it, or a name; null for no picture. */
export function showFilm(viewer, picture, detail = null, name = "") {
  const { stage } = viewer;
  if (picture) viewer.setImage(picture);
  else viewer.clear();
  stage.querySelector(".top-left").textContent = detail
    ? [detail.image_id, dayOf(detail), `${detail.width} × ${detail.height}`].filter(Boolean).join("\n")
    : name;
  stage.querySelector(".top-right").textContent = "";
  stage.classList.toggle("open", Boolean(picture));
  stage.classList.toggle("lateral", LATERAL.test(detail?.metadata?.view ?? ""));
}

/** Show an earlier film beside the open one, looked at alike where they are linked; null for none. */
export function showPrior(picture, detail = null) {
  if (!picture && document.activeElement === viewers.prior.stage) viewers.present.stage.focus();
  active = viewers.present;
  byId("prior-film").hidden = byId("present-caption").hidden = !picture;
  showFilm(viewers.prior, picture, detail);
  link();
}

function onOpened(viewer, { picture }) {
  byId("empty").hidden = true;
  active = viewer;
  const { source, detail } = session.current;
  showFilm(viewer, picture, detail, source.name ?? "");
  showPresets(viewer.scale);
  overlay.showFound(viewer, "", null);
  for (const one of document.querySelectorAll(CONTROLS)) one.disabled = false;
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

function listenToControls() {
  showPresets(active.scale);
  byId("window-preset").addEventListener("change", ({ target }) => active.setPreset(target.value));
  for (const name of ["width", "level"]) {
    byId(`window-${name}`).addEventListener("input", ({ target }) =>
      active.setWindow({ [name]: Number(target.value) }));
  }
  byId("toggle-invert").addEventListener("click", () => active.setInvert(!active.invert));
  byId("zoom-in").addEventListener("click", () => active.zoomBy(1.25));
  byId("zoom-out").addEventListener("click", () => active.zoomBy(0.8));
  byId("fit").addEventListener("click", () => active.fit());
  byId("reset").addEventListener("click", () => active.reset());
}

/** Let keys and controls change a viewer that shows a picture. */
function activate(viewer) {
  if (!viewer.picture || viewer === active) return;
  active = viewer;
  showPresets(viewer.scale);
  showState(viewer);
}

export function start() {
  const viewer = new Viewer(byId("stage"), showState);
  Object.assign(viewers, { present: viewer, prior: new Viewer(byId("prior-stage"), showState) });
  active = viewer;
  listenToControls();
  overlay.start(() => active);
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
  for (const part of [frames, address, second]) part.start(() => viewer);
  for (const part of [ruler, turning]) part.start(() => active, Object.values(viewers));
  listen(Object.values(viewers), () => active, activate);
}
