// Which image is open and what has been asked of it; the panels listen.
//
// Events: "opening" (source), "opened" ({ picture }), "closed" (source that could not be opened),
// "settled", "locating", "located" ({ sentence, found }).

import * as api from "./api.js";
import { attempt, clearError } from "./notices.js";
import { read } from "./picture.js";
import { note } from "./router.js";

const events = new EventTarget();

/** source: { file, name, frame } or { id }; detail: what the index knows of it, or null. */
export const current = { source: null, detail: null, model: null };

let opening = new AbortController();
let asking = new AbortController();
let locating = new AbortController();

const announce = (name, detail) => events.dispatchEvent(new CustomEvent(name, { detail }));

export const on = (name, listener) =>
  events.addEventListener(name, (event) => listener(event.detail));

/** Whether an image is the one that is open. */
export const isOpen = (id) => id !== undefined && current.source?.id === id;

/** A signal that ends when another image is opened. */
export const whileOpen = () => asking.signal;

/** Write into the address what is open; a sentence of a report is not written. */
function noteAddress(sentence = "", replace = false) {
  const { id } = current.source;
  const params = id === undefined ? {} : { image: id, ...(sentence ? { say: sentence } : {}) };
  note("read", params, { replace });
}

/** Take away the open image and all that was asked of it: they are not of what was wanted last. */
function close(wanted) {
  asking.abort();
  locating.abort();
  asking = new AbortController();
  Object.assign(current, { source: null, detail: null });
  note("read", {}, { replace: true });
  announce("closed", wanted);
}

/** Open an image; when it cannot be read, none is open. */
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
    Object.assign(current, { source, detail });
    noteAddress();
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
 * `threshold`: from which score on a region counts for the boxes; the server's choice by default.
 * `secret`: whether the sentence is of a report: it stays out of the address, and is not reworded.
 */
export async function locate(sentence, { threshold, secret = false } = {}) {
  if (!current.source) return;
  clearError();
  locating.abort();
  locating = new AbortController();
  const { signal } = locating;
  announce("locating", sentence);
  const fields = { sentence, threshold, as_written: secret ? "true" : "" };
  const found = await attempt(() => api.ground(current.source, fields, signal));
  // Of two questions in a row, the answer to the later one stays.
  if (signal.aborted) return;
  if (found) noteAddress(secret ? "" : sentence, true);
  announce("located", { sentence, found: found ?? null, secret });
}

/** Show an answer that is already there, of a sentence of a report. */
export function show(sentence, found) {
  locating.abort();
  noteAddress("", true);
  announce("located", { sentence, found, secret: true });
}

/** Take away what is shown over the image. */
export function hide() {
  locating.abort();
  noteAddress("", true);
  announce("located", { sentence: "", found: null });
}
