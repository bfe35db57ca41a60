// The search view: asks, shows, and asks for more.

import * as api from "../lib/api.js";
import { byId, plural, sendOnEnter, whole } from "../lib/dom.js";
import * as cards from "./cards.js";
import * as cohort from "./cohort.js";
import * as filters from "./filters.js";
import * as like from "./like.js";
import { clearError, emptyLine, problemCard } from "../lib/notices.js";
import * as query from "./query.js";
import { go, note } from "../lib/router.js";
import * as saved from "./saved.js";
import * as session from "../lib/session.js";

const MOST_SKIPPED = 10_000;

let asked = query.nothing();
let searching = new AbortController();
let shown = null;

function title(found, count) {
  if (count === 0) return found.target === "images" ? "No images" : "No sentences";
  if (found.target === "sentences") return plural(count, "sentence");
  const { matching = null, scored = null, exact = null } = found;
  const of = matching === null ? plural(count, "image") : `${whole(count)} of ${plural(matching, "image")}`;
  if (exact === null) return of;
  return exact ? `${of}, in exact order` : `${of}; candidates only, ${whole(scored)} were scored`;
}

function describe(found, hits) {
  byId("found-title").textContent = title(found, hits.length);
  byId("found-title").title = query.inWords(asked);
  const warning = [found.warning, found.caution].filter(Boolean).join(" ");
  byId("found-warning").hidden = !warning;
  byId("found-warning").textContent = warning;
  const read = (found.read_as ?? []).filter(Boolean).join(" ");
  byId("found-read").textContent = read ? `Read as: ${read}` : "";
}

/** Whether there may be images beyond those shown. */
function hasMore(found, page, hits) {
  if (found.target === "sentences") return false;
  // The server skips no more than so many; "Export all" has the rest, too.
  if (hits.length > MOST_SKIPPED) return false;
  if (typeof found.matching === "number" && hits.length >= found.matching) return false;
  // A server that knows no offset would give the same page again.
  return typeof found.offset === "number" && page.length === (found.k ?? query.fieldsOf(asked).k);
}

function showPage(found, hits) {
  const page = found[found.target];
  const all = [...hits, ...page];
  shown = { found, hits: all };
  if (hits.length === 0) cards.clear(found.target);
  if (found.target === "images") cards.addImages(page, asked.query);
  else cards.addSentences(page, (sentence) => go("search", { query: sentence }));
  describe(found, all);
  tellStale();
  byId("results-note").replaceChildren(
    ...(all.length ? [] : [emptyLine("Nothing found. Loosen the filters or the least score.")]),
  );
  byId("more").hidden = !hasMore(found, page, all);
  byId("more").disabled = false;
  cohort.show(asked, found.target === "images" ? all : []);
}

/** Whether the form asks something else than what is shown. */
function isStale() {
  if (shown === null) return false;
  const now = query.ofForm(like.chosen());
  return query.toParams(now).toString() !== query.toParams(asked).toString() ||
    now.source?.file !== asked.source?.file;
}

/** Mark results that do not answer what the form asks now. */
function tellStale() {
  const stale = isStale();
  byId("found").classList.toggle("stale", stale);
  byId("found-stale").textContent = stale ? "These answer the former question." : "";
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
    cards.showLoading(asked.target);
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

/** Show that nothing was asked. */
function reset() {
  shown = null;
  cards.clear("images");
  cohort.show(asked, []);
  byId("found-title").textContent = "";
  byId("found-warning").hidden = true;
  byId("found-read").textContent = "";
  byId("more").hidden = true;
  tellStale();
}

function run() {
  if (!query.isEmpty(asked)) {
    ask([]);
    return;
  }
  searching.abort();
  reset();
  byId("results-note").replaceChildren(emptyLine("Ask for images by a sentence, by an image, or both."));
}

function showTarget() {
  const { target } = query.ofForm(null);
  for (const part of document.querySelectorAll("#search-form [data-images]")) {
    part.hidden = target === "sentences";
  }
}

/** Take what an address asks; the same question is not asked again. */
export function enter(params) {
  if (!session.current.model?.has_index) return;
  const next = query.ofParams(params, like.uploaded());
  const same = query.toParams(next).toString() === query.toParams(asked).toString();
  note("search", params, { replace: true });
  if (same && next.source?.file === asked.source?.file && (shown || query.isEmpty(next))) {
    if (!shown) run();
    return;
  }
  asked = next;
  query.toForm(asked);
  like.show(asked.source);
  filters.readText();
  showTarget();
  run();
}

function submit() {
  asked = query.ofForm(like.chosen());
  tellStale();
  note("search", query.toParams(asked));
  run();
  // On a small screen what is found lies below the question.
  const { top } = byId("found").getBoundingClientRect();
  if (top > 0.75 * window.innerHeight) byId("found").scrollIntoView();
}

/** Prepare the view; without an index it says so. */
export async function start(hasIndex) {
  byId("search-none").hidden = hasIndex;
  byId("search-form").hidden = byId("found").hidden = !hasIndex;
  if (!hasIndex) return;
  sendOnEnter(byId("query"));
  byId("search-form").addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  byId("search-form").addEventListener("change", showTarget);
  for (const event of ["input", "change", "click"]) {
    byId("search-form").addEventListener(event, tellStale);
  }
  byId("query").addEventListener("input", () => like.showWeight());
  byId("clear-search").addEventListener("click", () => {
    query.toForm(query.nothing());
    like.show(null);
    filters.readText();
    showTarget();
    submit();
    byId("query").focus();
  });
  byId("more").addEventListener("click", () => ask(shown.hits));
  like.start(submit);
  saved.start(() => query.ofForm(like.chosen()));
  cards.start((id) => go("search", { image: id }));
  cohort.start();
  await filters.start();
}
