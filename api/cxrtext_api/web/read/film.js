// The window that shows the film alone, as the first window does.

import { byId } from "../lib/dom.js";
import * as ruler from "./ruler.js";
import * as turning from "./turning.js";
import { Viewer } from "./viewer.js";

const channel = new BroadcastChannel(`cxrtext-${window.location.hash.slice(1)}`);
const viewer = new Viewer(byId("stage"), (shown) => {
  turning.showSides(shown);
  turning.show(shown);
});
viewer.layers.push(ruler.draw);

channel.onmessage = ({ data: { film, view, note, stage, unlike = false } }) => {
  if (film) viewer.setImage(film);
  else if (film === null) viewer.clear();
  byId("image-note").textContent = note || "No film is open in the first window.";
  byId("stage").className = stage;
  byId("alone").classList.toggle("unlike", unlike);
  if (viewer.picture) viewer.showAs(view);
};
channel.postMessage("which film?");
