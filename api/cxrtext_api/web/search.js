// Search: images by a sentence, images by the open image, sentences by the open image.

import * as api from "./api.js";
import { attempt, byId, clearError, element, plural, score } from "./dom.js";
import { locateAndShow } from "./locate.js";
import * as session from "./session.js";
import { thumbnail } from "./thumbnails.js";

const COUNT = 24;
let latest = 0;

const factsOf = (hit) =>
  Object.entries(hit.metadata).filter(([, value]) => value !== "").slice(0, 3)
    .map(([name, value]) => `${name} ${value}`).join(" · ");

function imageRow(hit) {
  const button = element(
    "button",
    {
      type: "button",
      className: session.isOpen(hit.image_id) ? "hit open" : "hit",
      "aria-label": `Study ${hit.study_id}, patient ${hit.patient_id}, score ${score(hit.score, 3)}`,
    },
    thumbnail(hit.image_id),
    element(
      "span",
      { className: "hit-text" },
      element("span", { className: "hit-name" }, `Study ${hit.study_id}`),
      element("span", { className: "muted" }, `Patient ${hit.patient_id}`),
      element("span", { className: "muted" }, factsOf(hit)),
    ),
    element("span", { className: "number" }, score(hit.score, 3)),
  );
  button.dataset.id = hit.image_id;
  button.addEventListener("click", () => session.open({ id: hit.image_id }));
  return element("li", {}, button);
}

function sentenceRow(hit) {
  const button = element(
    "button",
    { type: "button", className: "line" },
    element(
      "span",
      {},
      element("span", {}, hit.sentence),
      element("span", { className: "muted small" }, plural(hit.studies, "study", "studies")),
    ),
    element("span", { className: "number" }, score(hit.score, 3)),
  );
  button.addEventListener("click", () => locateAndShow(hit.sentence));
  return element("li", {}, button);
}

function showFound(title, found) {
  const rows = found.target === "images"
    ? found.images.map(imageRow)
    : found.sentences.map(sentenceRow);
  byId("results-title").textContent = rows.length ? title : `${title}: nothing found`;
  byId("results").replaceChildren(...rows);
  byId("results").className = `results ${found.target}`;
}

async function run(title, source, fields) {
  clearError();
  latest += 1;
  const turn = latest;
  byId("results-title").textContent = "Searching…";
  byId("results").setAttribute("aria-busy", "true");
  const found = await attempt(() => api.search(source, { k: COUNT, ...fields }));
  if (turn !== latest) return;
  byId("results").setAttribute("aria-busy", "false");
  if (found) showFound(title, found);
  else byId("results-title").textContent = "";
}

function onOpened() {
  byId("similar").disabled = false;
  byId("fitting").disabled = !session.current.model.sentences;
  for (const button of document.querySelectorAll("#results .hit")) {
    button.classList.toggle("open", session.isOpen(button.dataset.id));
  }
}

export function start() {
  const form = byId("search-form");
  const field = byId("query");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const query = field.value.trim();
    if (query) run(`Images that fit “${query}”`, null, { query });
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  byId("similar").addEventListener("click", () => {
    run("Images alike to the open one", session.current.source, { target: "images" });
  });
  byId("fitting").addEventListener("click", () => {
    run("Sentences that fit the open image", session.current.source, { target: "sentences" });
  });
  session.on("opened", onOpened);
}

/** Show or hide search, as there is an index or not. */
export function showAvailable(hasIndex) {
  byId("search-none").hidden = hasIndex;
  byId("search-body").hidden = !hasIndex;
}
