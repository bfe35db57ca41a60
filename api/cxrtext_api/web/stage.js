// The viewer with its controls, its notes in the corners, and the ways to open a file.

import { paintLegend, range } from "./colormap.js";
import { byId, score } from "./dom.js";
import * as session from "./session.js";
import { Viewer } from "./viewer.js";

const OVERLAY_CONTROLS = ["toggle-heat", "toggle-boxes", "opacity"];

let viewer = null;

function showNotes() {
  const { source, detail } = session.current;
  byId("image-note").textContent = detail
    ? `${detail.image_id}\n${detail.width} × ${detail.height}`
    : (source.name ?? "");
}

function showFound(sentence, found) {
  viewer.setFound(found);
  for (const id of OVERLAY_CONTROLS) byId(id).disabled = !found;
  byId("heat-note").hidden = byId("legend").hidden = !found;
  if (!found) return;
  byId("heat-note").textContent = `“${sentence}”\nScore ${score(found.score)}`;
  const [low, high] = range(found.grid);
  byId("legend-high").textContent = score(high);
  byId("legend-low").textContent = score(low);
}

function onOpened({ bitmap }) {
  byId("empty").hidden = true;
  viewer.setImage(bitmap);
  showFound("", null);
  showNotes();
  for (const id of ["toggle-invert", "fit"]) byId(id).disabled = false;
  reveal();
}

/** On a small screen, come back to the image when there is something new to see. */
function reveal() {
  const { bottom } = byId("stage").getBoundingClientRect();
  if (bottom < window.innerHeight / 4) byId("stage").scrollIntoView();
}

function toggle(id, name) {
  const button = byId(id);
  button.addEventListener("click", () => {
    const pressed = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(pressed));
    viewer.set({ [name]: pressed });
    if (name === "heat") byId("legend").hidden = !pressed;
  });
}

function busy(text) {
  byId("busy").hidden = !text;
  if (text) byId("busy").firstElementChild.textContent = text;
  byId("stage").setAttribute("aria-busy", String(Boolean(text)));
}

function openFile(file) {
  if (file) session.open({ file, name: file.name });
}

function listenForFiles() {
  const input = byId("file");
  byId("open").addEventListener("click", () => input.click());
  input.addEventListener("change", () => {
    openFile(input.files[0]);
    input.value = "";
  });
  let depth = 0;
  const mark = (change) => {
    depth = Math.max(0, depth + change);
    byId("stage").classList.toggle("dropping", depth > 0);
  };
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  window.addEventListener("dragenter", (event) => hasFiles(event) && mark(1));
  window.addEventListener("dragleave", (event) => hasFiles(event) && mark(-1));
  window.addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
  window.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    mark(-depth);
    openFile(event.dataTransfer.files[0]);
  });
}

export function start() {
  viewer = new Viewer(byId("stage"), byId("canvas"), (zoom) => {
    byId("zoom-note").textContent = zoom && zoom !== 1 ? `${Math.round(zoom * 100)} %` : "";
  });
  paintLegend(byId("legend-bar"));
  toggle("toggle-heat", "heat");
  toggle("toggle-boxes", "boxes");
  toggle("toggle-invert", "invert");
  byId("fit").addEventListener("click", () => viewer.fit());
  byId("opacity").addEventListener("input", (event) => {
    byId("opacity-value").textContent = `${event.target.value} %`;
    viewer.set({ opacity: event.target.value / 100 });
  });
  listenForFiles();
  session.on("opening", () => busy("Reading the image…"));
  session.on("opened", onOpened);
  session.on("settled", () => busy(null));
  session.on("locating", () => busy("Looking…"));
  session.on("located", ({ sentence, found }) => {
    busy(null);
    if (!found) return;
    showFound(sentence, found);
    reveal();
  });
}
