// The image to search by.

import { picture } from "../lib/api.js";
import { byId, element } from "../lib/dom.js";
import { choose, takeDrops } from "../lib/files.js";
import { attempt } from "../lib/notices.js";
import { thumbnail } from "../lib/thumbnails.js";

const SIDE = 224;

let source = null;
let upload = null;

export const chosen = () => source;

/** The last image chosen from this machine, kept for going back. */
export const uploaded = () => upload;

async function preview(given) {
  const shown = element("img", { alt: "", draggable: false });
  byId("like-picture").replaceChildren(element("span", { className: "thumb" }, shown));
  const found = await attempt(() => picture(given, SIDE));
  if (!found || source !== given) return;
  const url = URL.createObjectURL(found);
  shown.addEventListener("load", () => URL.revokeObjectURL(url), { once: true });
  shown.src = url;
}

/** Show an image as the one to search by (null for none). */
export function show(given) {
  const same = source?.id !== undefined && source.id === given?.id;
  source = given;
  if (given?.file) upload = given;
  byId("like-open").hidden = given !== null;
  byId("like-chosen").hidden = given === null;
  byId("others-row").hidden = given?.id === undefined;
  if (given === null || same) return;
  byId("like-name").textContent = given.id ?? given.name;
  if (given.file) preview(given);
  else byId("like-picture").replaceChildren(thumbnail(given.id));
}

/** `onChange` is called when the user chooses or removes an image. */
export function start(onChange) {
  const take = (file) => {
    show({ file, name: file.name });
    onChange();
  };
  choose(byId("like-open"), byId("like-file"), take);
  takeDrops("search", byId("like"), take);
  byId("like-remove").addEventListener("click", () => {
    show(null);
    byId("like-open").focus();
    if (byId("query").value.trim()) onChange();
  });
}
