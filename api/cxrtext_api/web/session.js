// Which image is open and what has been asked of it; the panels listen.
//
// Events: "opening", "opened" ({ bitmap }), "settled", "locating", "located" ({ sentence, found }).

import * as api from "./api.js";
import { attempt, clearError } from "./dom.js";

const PICTURE_SIDE = 1536;

export const events = new EventTarget();

/** source: { file, name } or { id }; detail: what the index knows of it, or null. */
export const current = { source: null, detail: null, model: null };

let opening = new AbortController();
let asking = new AbortController();

const tell = (name, detail) => events.dispatchEvent(new CustomEvent(name, { detail }));

export const on = (name, listener) =>
  events.addEventListener(name, (event) => listener(event.detail));

/** Whether an image is the one that is open. */
export const isOpen = (id) => id !== undefined && current.source?.id === id;

/** A signal that ends when another image is opened. */
export const whileOpen = () => asking.signal;

/** Open an image; the former one stays when this one cannot be read. */
export async function open(source) {
  opening.abort();
  opening = new AbortController();
  const { signal } = opening;
  clearError();
  tell("opening", source);
  await attempt(async () => {
    const [picture, detail] = await Promise.all([
      api.picture(source, PICTURE_SIDE, signal),
      source.id === undefined ? null : api.image(source.id, signal),
    ]);
    const bitmap = await createImageBitmap(picture);
    if (signal.aborted) return;
    asking.abort();
    asking = new AbortController();
    Object.assign(current, { source, detail });
    tell("opened", { bitmap });
  });
  if (!signal.aborted) tell("settled");
}

let located = 0;

/** Show where the open image supports a sentence. */
export async function locate(sentence) {
  if (!current.source) return;
  clearError();
  located += 1;
  const turn = located;
  tell("locating", sentence);
  const found = await attempt(() => api.ground(current.source, sentence, whileOpen()));
  // Of two questions in a row, the answer to the later one stays.
  if (turn === located) tell("located", { sentence, found: found ?? null });
}
