// A patient's films in the order of time: the one before and after, and two beside each other.

import * as api from "../lib/api.js";
import { DIFFERENCE, range } from "../lib/colormap.js";
import { byId, element, plural } from "../lib/dom.js";
import { bind } from "../lib/keys.js";
import { isUnlike } from "../lib/quality.js";
import * as session from "../lib/session.js";
import { film } from "../lib/thumbnails.js";
import * as overlay from "./overlay.js";
import * as stage from "./stage.js";

const TOGETHER = "A scale of these two films alone: there are no reference images.";
const UNREGISTERED = "This film minus the earlier one, place by place in the square that the model sees. " +
  "The films are not aligned: another position or breath looks like a change, too.";

let timeline = null;
let loading = null;
let found = {};
let differs = false;
let isOpening = false;

const filmOf = (id) => timeline.films.find((one) => one.image_id === id);
const present = () => filmOf(session.current.source.id);
const prior = () => session.current.prior && filmOf(session.current.prior.id);

/** Whether a film is of another study than one, and as frontal or lateral. */
const isLike = (film, one) => film.projection === one.projection && film.study_id !== one.study_id;

const canBePrior = (one) => timeline?.ordered && one && isLike(one, present()) &&
  timeline.films.indexOf(one) < timeline.films.indexOf(present());

/** What Earlier and Later lead to: another study, or beside the open one another earlier study. */
function next(step) {
  if (isOpening || !timeline?.ordered) return undefined;
  const from = prior() ?? present();
  const at = timeline.films.indexOf(from);
  const some = step < 0 ? timeline.films.slice(0, at) : timeline.films.slice(at + 1);
  const to = some.filter((one) => isLike(one, from)).at(Math.min(step, 0));
  return prior() && !canBePrior(to) ? undefined : to;
}

/** Show a film that the address names beside the open one, if it is an earlier one like it. */
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

function go(step) {
  const { image_id: id } = next(step);
  if (prior()) read(id);
  else session.open({ id });
}

const apart = (days) => (days === 0 ? "the same day" : `${plural(Math.abs(days), "day")} ${days < 0 ? "earlier" : "later"}`);

const dateOf = ({ acquired }) => acquired
  ? `${acquired.replace("T", " ").slice(0, 16)}${timeline.shifted ? " (shifted)" : ""}`
  : "date not known";

function caption(one, ...more) {
  const days = one.days !== null && one !== present() ? apart(one.days) : "";
  return [dateOf(one), one.view || "view not known", days, ...more].filter(Boolean).join(" · ");
}

/** Two films of which one view is known can be subtracted. */
const canDiffer = () => Boolean(prior()?.view) && prior().view === present().view;

function showBar() {
  const studies = [...new Set(timeline?.films.map((one) => one.study_id))];
  byId("compare").hidden = studies.length < 2;
  byId("study-earlier").disabled = !next(-1);
  byId("study-later").disabled = !next(1);
  byId("beside-prior").disabled = !timeline?.prior && !session.current.prior;
  byId("beside-prior").setAttribute("aria-pressed", String(Boolean(session.current.prior)));
  byId("link").hidden = byId("difference").hidden = !session.current.prior;
  byId("link").setAttribute("aria-pressed", String(stage.linked()));
  byId("difference").setAttribute("aria-pressed", String(differs && canDiffer()));
  if (!timeline) return;
  byId("difference").disabled = !canDiffer();
  byId("difference").title = canDiffer() ? UNREGISTERED : "Only films of one known view are subtracted.";
  const place = `Study ${studies.indexOf(present().study_id) + 1} of ${studies.length}`;
  byId("compare-note").textContent = !timeline.ordered
    ? `No order in time: ${timeline.reason}`
    : place + (timeline.prior ? "" : ", no earlier film of this view");
}

function showFilms() {
  const films = timeline.films.map((one) =>
    ({ ...one, patient_id: timeline.patient_id, metadata: { acquired: one.acquired ?? "", view: one.view } }));
  const rows = films.map(film);
  byId("study-others").replaceChildren(...(rows.length < 2 ? [] : [
    element("h3", {}, "Films of this patient"),
    timeline.reason ? element("p", { className: "hint" }, `In no order: ${timeline.reason}.`) : "",
    element("ul", { className: "films" }, ...rows),
  ]));
}

async function onOpened() {
  [timeline, found, isOpening] = [null, {}, false];
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
    // Without it the film can still be read.
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

/** The answers of both films on one scale, or what they differ by. */
function showFound() {
  const { sentence, present: one, prior: other } = found;
  if (!one || !other) {
    stage.viewers.prior.setFound(null);
    if (one) overlay.showFound(stage.viewers.present, sentence, one);
    return;
  }
  const [a, b] = [range(one), range(other)];
  const limits = one.limits ?? [Math.min(a[0], b[0]), Math.max(a[1], b[1])];
  const legend = one.limits ? undefined : TOGETHER;
  const most = limits[1] - limits[0];
  // What is too little to have a color in either film is no change.
  const shown = (value) => Math.min(Math.max(value, limits[0]), limits[1]);
  const grid = () => one.grid.map((row, y) =>
    row.map((value, x) => shown(value) - shown(other.grid[y][x])));
  stage.viewers.prior.setFound({ ...other, limits });
  overlay.showFound(stage.viewers.present, sentence, differs && canDiffer()
    ? { ...one, grid: grid(), limits: [-most, most], map: DIFFERENCE, boxes: [], stands_out: false, legend: UNREGISTERED }
    : { ...one, limits, legend }, [other.score, one.score]);
}

function toggleLink() {
  stage.link(!stage.linked());
  showBar();
}

function toggleDifference() {
  differs = !differs;
  showBar();
  showFound();
}

const CONTROLS = {
  "study-earlier": ["e", "The study before", () => go(-1)],
  "study-later": ["l", "The study after", () => go(1)],
  "beside-prior": ["c", "The earlier film beside, or away", toggle],
  link: ["u", "Both films move and change together, or not", toggleLink],
  difference: ["d", "What the sentence’s maps differ by", toggleDifference],
};

export function start() {
  const entries = Object.entries(CONTROLS).map(([id, [key, does, run]]) => {
    byId(id).addEventListener("click", run);
    return { keys: [key], does, run, when: () => byId(id).checkVisibility() && !byId(id).disabled };
  });
  bind("Two films", "read", entries);
  session.on("opening", () => {
    isOpening = true;
    showBar();
  });
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
