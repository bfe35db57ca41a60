// Files that are chosen or dropped.

import { byId } from "./dom.js";
import * as session from "./session.js";

const hasFiles = (event) => event.dataTransfer?.types.includes("Files");

/** Open a file dialog from a button and pass the chosen file on. */
export function choose(button, input, take) {
  button.addEventListener("click", () => input.click());
  input.addEventListener("change", () => {
    if (input.files[0]) take(input.files[0]);
    input.value = "";
  });
}

const takers = new Map();
const taker = () => takers.get(document.body.dataset.view);

/** Handle a file dropped anywhere on a view; `mark` is highlighted while it is dragged. */
export function takeDrops(view, mark, take) {
  takers.set(view, { mark, take });
}

function listenForDrops() {
  let depth = 0;
  const change = (by) => {
    depth = Math.max(0, depth + by);
    taker()?.mark.classList.toggle("dropping", depth > 0);
  };
  window.addEventListener("dragenter", (event) => hasFiles(event) && change(1));
  window.addEventListener("dragleave", (event) => hasFiles(event) && change(-1));
  window.addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
  window.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    change(-depth);
    const [file] = event.dataTransfer.files;
    if (file) taker()?.take(file);
  });
}

export function start() {
  const open = (file) => session.open({ file, name: file.name });
  choose(byId("open"), byId("file"), open);
  takeDrops("read", byId("stage"), open);
  listenForDrops();
}
