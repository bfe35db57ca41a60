// The search view: sends the query, shows results, and loads more.

import * as api from "../lib/api.js";
import { byId, plural, sendOnEnter, whole } from "../lib/dom.js";
import * as cards from "./cards.js";
import * as columns from "./columns.js";
import * as examples from "./examples.js";
import * as exports from "./export.js";
import * as like from "./like.js";
import { clearError, emptyLine, problemCard } from "../lib/notices.js";
import * as query from "./query.js";
import { go, note } from "../lib/router.js";
import * as session from "../lib/session.js";

const MOST_SKIPPED = 10_000;

let asked = query.nothing();
let searching = new AbortController();
let shown = null;

function title({ matching, scored, exact }, count) {
  const asking = query.inWords(asked);
  if (count === 0) return `No images for ${asking}`;
  const sure = exact ? "" : ` (candidates only: ${whole(scored)} were scored)`;
  return `${whole(count)} of ${plural(matching, "image")} for ${asking}${sure}`;
}

function describe(found, hits) {
  byId("found-title").textContent = title(found, hits.length);
  const warning = [found.warning, found.caution].filter(Boolean).join(" ");
  byId("found-warning").hidden = !warning;
  byId("found-warning").textContent = warning;
  const read = (found.read_as ?? []).filter(Boolean).join(" ");
  byId("found-read").textContent = read ? `Read as: ${read}` : "";
}

/** Whether there may be images beyond those shown. The exported table has them all. */
const hasMore = ({ matching, k, images }, all) =>
  all.length <= MOST_SKIPPED && all.length < matching && images.length === k;

function showPage(found, hits) {
  const all = [...hits, ...found.images];
  shown = all;
  if (hits.length === 0) cards.clear();
  cards.addImages(found.images, asked.query);
  describe(found, all);
  byId("results-note").replaceChildren(
    ...(all.length ? [] : [emptyLine("Loosen the filter or the least similarity.")]),
  );
  byId("more").hidden = !hasMore(found, all);
  byId("more").disabled = false;
  byId("export").hidden = all.length === 0;
}

async function ask(hits) {
  searching.abort();
  searching = new AbortController();
  const { signal } = searching;
  clearError();
  byId("found").setAttribute("aria-busy", "true");
  byId("results-note").replaceChildren();
  byId("more").disabled = true;
  if (hits.length === 0) {
    byId("found-title").textContent = "Searching…";
    cards.clear();
  }
  try {
    const found = await api.search(asked.source, query.fieldsOf(asked, hits.length), signal);
    if (!signal.aborted) showPage(found, hits);
  } catch (error) {
    if (error.name === "AbortError" || signal.aborted) return;
    if (hits.length === 0) reset();
    byId("results-note").replaceChildren(problemCard(error, () => ask(hits)));
  }
  if (!signal.aborted) byId("found").setAttribute("aria-busy", "false");
}

/** Show the view without a query. */
function reset() {
  shown = null;
  cards.clear();
  byId("export").hidden = true;
  byId("found-title").textContent = "";
  byId("found-warning").hidden = true;
  byId("found-read").textContent = "";
  byId("more").hidden = true;
}

function run() {
  if (!query.isEmpty(asked)) {
    ask([]);
    return;
  }
  searching.abort();
  searching = new AbortController();
  const { signal } = searching;
  reset();
  byId("found").setAttribute("aria-busy", "false");
  byId("results-note").replaceChildren(emptyLine("Ask for images by a sentence, by an image, or both."));
  examples.show(() => !signal.aborted);
}

/** Run the query of an address, unless it is shown already. */
export function enter(params) {
  if (!session.current.model?.has_index) return;
  const next = query.ofParams(params, like.uploaded());
  const same = query.toParams(next).toString() === query.toParams(asked).toString();
  note("search", params, { replace: true });
  if (same && shown && next.source?.file === asked.source?.file) return;
  asked = next;
  query.toForm(asked);
  like.show(asked.source);
  run();
}

function submit() {
  asked = query.ofForm(like.chosen());
  note("search", query.toParams(asked));
  run();
  // On a small screen the results lie below the form.
  const { top } = byId("found").getBoundingClientRect();
  if (top > 0.75 * window.innerHeight) byId("found").scrollIntoView();
}

/** Prepare the view, or say that there is no index. */
export async function start(hasIndex) {
  byId("search-none").hidden = hasIndex;
  byId("search-form").hidden = byId("found").hidden = !hasIndex;
  if (!hasIndex) return;
  sendOnEnter(byId("query"));
  byId("search-form").addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  byId("clear-search").addEventListener("click", () => {
    query.toForm(query.nothing());
    like.show(null);
    submit();
    byId("query").focus();
  });
  byId("more").addEventListener("click", () => ask(shown));
  like.start(submit);
  cards.start();
  exports.start(() => asked);
  await columns.start();
}
