// A patient's films in time order, and two of them side by side.

import * as api from "../lib/api.js";
import { byId, element, plural } from "../lib/dom.js";
import { bind } from "../lib/keys.js";
import { isUnlike } from "../lib/quality.js";
import * as session from "../lib/session.js";
import { film } from "../lib/thumbnails.js";
import * as overlay from "./overlay.js";
import * as stage from "./stage.js";

let timeline = null;
let loading = null;
let found = {};

const filmOf = (id) => timeline.films.find((one) => one.image_id === id);
const present = () => filmOf(session.current.source.id);
const prior = () => session.current.prior && filmOf(session.current.prior.id);

/** Whether a film is of another study and of the same projection. */
const isLike = (film, one) => film.projection === one.projection && film.study_id !== one.study_id;

const canBePrior = (one) => timeline?.ordered && one && isLike(one, present()) &&
  timeline.films.indexOf(one) < timeline.films.indexOf(present());

/** Show the film that the address names beside the open one, if it is an earlier film of the same view. */
export async function open(id) {
  await loading;
  const one = id === null ? null : timeline && filmOf(id);
  if (one === prior()) return;
  if (one === null || canBePrior(one)) await read(id);
}

async function read(id) {
  byId("compare-note").textContent = id === null ? "" : "Reading the earlier film…";
  await session.compare(id);
  showBar();
}

const toggle = () => read(prior() ? null : timeline.prior);

const apart = (days) => (days === 0 ? "the same day" : `${plural(Math.abs(days), "day")} earlier`);

const dateOf = ({ acquired }) => acquired
  ? `${acquired.replace("T", " ").slice(0, 16)}${timeline.shifted ? " (shifted)" : ""}`
  : "date not known";

function caption(one, ...more) {
  const days = one.days !== null && one !== present() ? apart(one.days) : "";
  return [dateOf(one), one.view || "view not known", days, ...more].filter(Boolean).join(" · ");
}

/** Show the row of priors only if the patient has other studies. */
function showBar() {
  const studies = [...new Set(timeline?.films.map((one) => one.study_id))];
  byId("compare").hidden = studies.length < 2;
  byId("beside-prior").disabled = !timeline?.prior && !session.current.prior;
  byId("beside-prior").setAttribute("aria-pressed", String(Boolean(session.current.prior)));
  if (!timeline) return;
  const place = `Study ${studies.indexOf(present().study_id) + 1} of ${studies.length}`;
  byId("compare-note").textContent = !timeline.ordered
    ? `No order in time: ${timeline.reason}`
    : `${place}${timeline.prior ? "" : ", no earlier film of this view"}`;
  byId("compare-note").title = byId("compare-note").textContent;
}

function showFilms() {
  const films = timeline.films.map((one) =>
    ({ ...one, patient_id: timeline.patient_id, metadata: { acquired: one.acquired ?? "", view: one.view } }));
  const rows = films.map(film);
  byId("study-others").replaceChildren(...(rows.length < 2 ? [] : [
    element("h2", {}, "Films of this patient"),
    timeline.reason ? element("p", { className: "muted" }, `In no order: ${timeline.reason}.`) : "",
    element("ul", { className: "films" }, ...rows),
  ]));
}

async function onOpened() {
  [timeline, found] = [null, {}];
  byId("study-others").replaceChildren();
  stage.showPrior(null);
  showBar();
  const { source } = session.current;
  if (source?.id === undefined) return;
  const signal = session.whileOpen();
  try {
    const answer = await api.timeline(source.id, signal);
    if (signal.aborted) return;
    timeline = answer;
    onCompared();
    showFilms();
  } catch {
    // The film can be read without it.
  }
}

function onCompared(picture = undefined) {
  if (picture !== undefined) {
    found.prior = null;
    stage.showPrior(picture, session.current.prior?.detail);
    if (!picture) showFound();
  }
  showBar();
  if (!timeline || !prior()) return;
  const odd = isUnlike(found.prior?.unlike) ? "unlike those of the training" : "";
  byId("prior-caption").textContent = caption(prior(), odd);
  byId("present-caption").textContent = caption(present());
}

/** The scores of both films, each colored on the sentence's scale. */
function showFound() {
  const { sentence, present: one, prior: other } = found;
  stage.viewers.prior.setFound(one && other ? other : null);
  if (one) overlay.showFound(stage.viewers.present, sentence, one, other);
}

export function start() {
  byId("beside-prior").addEventListener("click", toggle);
  bind("Film", "read", [{
    keys: ["c"], does: "Show or hide the earlier film", run: toggle,
    when: () => byId("beside-prior").checkVisibility() && !byId("beside-prior").disabled,
  }]);
  for (const event of ["opened", "closed"]) session.on(event, () => { loading = onOpened(); });
  session.on("compared", onCompared);
  session.on("located", ({ sentence, found: one }) => {
    found = { sentence, present: one, prior: null };
    showFound();
  });
  session.on("located-prior", (other) => {
    found.prior = other;
    onCompared();
    showFound();
  });
}
