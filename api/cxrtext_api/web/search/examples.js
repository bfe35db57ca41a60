// Examples for an empty search: sentences and films of this archive.

import * as api from "../lib/api.js";
import { byId, element, line } from "../lib/dom.js";
import { go } from "../lib/router.js";
import * as session from "../lib/session.js";
import * as cards from "./cards.js";

const FILMS = 12;
const REPORTS = 6;
const SENTENCES = 8;

let known = null;

/** The marks that de-identification leaves in place of words. */
const MASK = /X{3}|_{3}/;

/** Sentences from some of the archive's reports; without reports, the prompts of findings. */
async function load() {
  const { images } = await api.images(0, FILMS);
  const studies = [...new Map(images.map((one) => [one.study_id, one.image_id])).values()];
  const details = await Promise.all(studies.slice(0, REPORTS).map((id) => api.image(id)));
  const said = details.flatMap(({ report }) => report.map(({ sentence }) => sentence))
    .filter((sentence) => !MASK.test(sentence));
  const prompts = Object.values(session.current.model.prompts).map(({ positive }) => positive[0]);
  const sentences = [...new Set(said.length ? said : prompts)].slice(0, SENTENCES);
  return { images, sentences };
}

/** Show the examples in place of results, unless a search starts meanwhile. */
export async function show(isWanted) {
  try {
    known ??= await load();
  } catch {
    return; // the form works without examples
  }
  if (!isWanted()) return;
  byId("found-title").textContent = "Search this archive, for example:";
  byId("results-note").replaceChildren(element("ul", { className: "lines examples" },
    ...known.sentences.map((sentence) =>
      element("li", {}, line(sentence, "", () => go("search", { query: sentence }))))));
  cards.addImages(known.images, "");
}
