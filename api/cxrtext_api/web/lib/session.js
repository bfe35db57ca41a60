// The open image and the questions about it; the panels listen to its events.
//
// Events: "opening" (source), "opened" ({ picture }), "closed" (source that could not be opened),
// "settled", "locating", "located" ({ sentence, found }), "compared" (the picture of an earlier film
// beside the open one, or null), "located-prior" (what was found in it).

import * as api from "./api.js";
import { attempt, clearError } from "./notices.js";
import { read } from "./picture.js";
import { here, note } from "./router.js";

const events = new EventTarget();

/**
 * source: { file, name } or { id }; detail: what the index knows of it, or null; prior: { id,
 * detail } of the film beside it, or null.
 */
export const current = { source: null, detail: null, model: null, prior: null };

let opening = new AbortController();
let asking = new AbortController();
let locating = new AbortController();
let comparing = new AbortController();
let asked = null;

const announce = (name, detail) => events.dispatchEvent(new CustomEvent(name, { detail }));

export const on = (name, listener) =>
  events.addEventListener(name, (event) => listener(event.detail));

/** Whether an image is the one that is open. */
export const isOpen = (id) => id !== undefined && current.source?.id === id;

/** A signal that aborts when another image is opened. */
export const whileOpen = () => asking.signal;

/** Write the open image into the address, but no sentence of a report. */
function noteAddress(replace = true) {
  const { source: { id }, prior } = current;
  const beside = prior ? { prior: prior.id } : {};
  const say = asked && !asked.secret ? { say: asked.sentence } : {};
  note("read", id === undefined ? {} : { image: id, ...beside, ...say }, { replace });
}

/** Ask the open film's last question of the film beside it, too. */
async function locatePrior(signal) {
  if (!asked || !current.prior) return;
  const { sentence, secret } = asked;
  const fields = { sentence, as_written: secret ? "true" : "" };
  const found = await attempt(() => api.ground({ id: current.prior.id }, fields, signal));
  if (found && !signal.aborted) announce("located-prior", found);
}

/** Show an earlier film beside the open one; null for none. */
export async function compare(id) {
  comparing.abort();
  comparing = new AbortController();
  const signal = AbortSignal.any([comparing.signal, asking.signal]);
  const loaded = id === null ? [] : await attempt(() => Promise.all(
    [read({ id }, signal), api.image(id, signal)],
  ));
  if (!loaded || signal.aborted) return;
  const [picture = null, detail = null] = loaded;
  current.prior = picture && { id, detail };
  noteAddress();
  announce("compared", picture);
  await locatePrior(signal);
}

/** Remove the open image and its answers, which do not belong to the latest choice. */
function close(wanted) {
  asking.abort();
  locating.abort();
  asking = new AbortController();
  Object.assign(current, { source: null, detail: null, prior: null });
  note("read", {}, { replace: true });
  announce("closed", wanted);
}

/** Open an image; if it cannot be read, none is open. */
export async function open(source) {
  opening.abort();
  opening = new AbortController();
  const { signal } = opening;
  clearError();
  announce("opening", source);
  const isOpened = await attempt(async () => {
    const [picture, detail] = await Promise.all([
      read(source, signal),
      source.id === undefined ? null : api.image(source.id, signal),
    ]);
    if (signal.aborted) return false;
    asking.abort();
    locating.abort();
    asking = new AbortController();
    asked = null;
    Object.assign(current, { source, detail, prior: null });
    noteAddress(here().params.get("image") === source.id); // following a link adds no history entry
    announce("opened", { picture });
    return true;
  });
  if (signal.aborted) return;
  if (!isOpened) close(source);
  announce("settled");
}

/**
 * Show where the open image supports a sentence.
 *
 * `secret`: the sentence is from a report, so it stays out of the address and is not reworded.
 */
export async function locate(sentence, { secret = false } = {}) {
  if (!current.source || !current.model.says_where) return;
  clearError();
  locating.abort();
  locating = new AbortController();
  const { signal } = locating;
  announce("locating", sentence);
  const fields = { sentence, as_written: secret ? "true" : "" };
  const found = await attempt(() => api.ground(current.source, fields, signal));
  // If two questions overlap, the later answer is kept.
  if (signal.aborted) return;
  asked = found ? { sentence, secret } : null;
  if (found) noteAddress();
  announce("located", { sentence, found: found ?? null, secret });
  await locatePrior(signal);
}

/** Show an answer that is already known for a sentence of a report. */
export function show(sentence, found) {
  locating.abort();
  locating = new AbortController();
  asked = { sentence, secret: true };
  noteAddress();
  announce("located", { sentence, found, secret: true });
  locatePrior(locating.signal);
}

/** Remove the overlay from the image. */
export function hide() {
  locating.abort();
  asked = null;
  noteAddress();
  announce("located", { sentence: "", found: null });
}
