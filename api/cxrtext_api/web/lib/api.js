// All requests to the server.

import { wait } from "./dom.js";

const KEY = "cxrtext-key";
const TRIES = 6;
const LONGEST_WAIT_S = 20;

/** A server error as the page shows it. */
export class Problem extends Error {
  constructor(status, message, requestId = "") {
    super(message);
    this.status = status;
    this.requestId = requestId;
  }
}

let askForKey = null;
let asking = null;
let busyListener = () => {};

/** Set how to ask the user for a key: an async function of whether the last key was wrong. */
export function onKeyWanted(ask) {
  askForKey = ask;
}

/** Set what is called when the server is busy ({ seconds, attempt, tries, detail }) or no longer busy (null). */
export function onBusy(listener) {
  busyListener = listener;
}

export function setKey(key) {
  if (key) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
}

export const hasKey = () => sessionStorage.getItem(KEY) !== null;

function newKey(refused) {
  // Requests refused at the same time share one dialog.
  asking ??= askForKey(refused).finally(() => {
    asking = null;
  });
  return asking;
}

async function problemOf(response) {
  const id = response.headers.get("X-Request-ID") ?? "";
  try {
    const body = await response.json();
    const faults = (body.errors ?? []).map((fault) => `${fault.field}: ${fault.message}`);
    return new Problem(response.status, faults.length ? faults.join("; ") : body.detail, id);
  } catch {
    return new Problem(response.status, `The server answered ${response.status}.`, id);
  }
}

async function send(path, options) {
  try {
    return await fetch(path, { ...options, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The server cannot be reached. Is it still running?");
  }
}

/** Seconds until a busy server wants a retry; null if a retry would not help. */
function pauseOf(response) {
  if (response.status !== 503 && response.status !== 429) return null;
  const seconds = Number.parseInt(response.headers.get("Retry-After") ?? "", 10);
  return Number.isNaN(seconds) ? null : Math.min(Math.max(seconds, 1), LONGEST_WAIT_S);
}

async function request(path, { tries = TRIES, ...options } = {}) {
  for (let attempt = 1; ;) {
    const key = sessionStorage.getItem(KEY);
    const headers = { ...options.headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
    const response = await send(path, { ...options, headers });
    if (response.ok) return response;
    const seconds = pauseOf(response);
    if (seconds !== null && attempt < tries) {
      attempt += 1;
      const { message } = await problemOf(response);
      busyListener({ seconds, attempt, tries, detail: message });
      try {
        await wait(1000 * seconds, options.signal);
      } finally {
        busyListener(null);
      }
      continue;
    }
    if (response.status !== 401) throw await problemOf(response);
    // Another request may have got a new key meanwhile.
    if (sessionStorage.getItem(KEY) === key && !(await newKey(key !== null))) {
      throw await problemOf(response);
    }
  }
}

/** With a file the body is multipart; without one it is JSON, so that a proxy can retry elsewhere. */
function formOf(source, fields = {}) {
  const form = source?.file ? new FormData() : new URLSearchParams();
  if (source?.file) form.append("image", source.file, "image");
  else if (source) form.append("image_id", source.id);
  for (const [name, value] of Object.entries(fields)) {
    for (const one of [value].flat()) {
      if (one !== undefined && one !== null && one !== "") form.append(name, one);
    }
  }
  return form;
}

const get = async (path, signal) => (await request(path, { signal })).json();
const post = async (path, source, fields, signal) =>
  (await request(path, { method: "POST", body: formOf(source, fields), signal })).json();

const idPath = (id) => id.split("/").map(encodeURIComponent).join("/");

export const ready = async () => (await request("/readyz", { tries: 1 })).json();
export const model = () => get("/v1/model");
export const columns = () => get("/v1/columns");
export const image = (id, signal) => get(`/v1/images/${idPath(id)}`, signal);
export const timeline = (id, signal) => get(`/v1/images/${idPath(id)}/timeline`, signal);
export const classify = (source, fields, signal) => post("/v1/classify", source, fields, signal);
export const ground = (source, fields, signal) => post("/v1/ground", source, fields, signal);
export const verify = (source, fields, signal) => post("/v1/verify", source, fields, signal);
export const search = (source, fields, signal) => post("/v1/search", source, fields, signal);

export const held = async () => (await get("/v1/held")).held;
export const decide = (name, verdict, study) =>
  post("/v1/held", null, { name, verdict, study_id: study });

export const mark = (source, fields) => post("/v1/marks", source, fields);

/** All current marks on an image. */
export async function marks(id, signal) {
  const found = [];
  for (let after = 0; after !== null;) {
    const page = await get(`/v1/marks?${new URLSearchParams({ image_id: id, after })}`, signal);
    found.push(...page.marks);
    after = page.next;
  }
  return found;
}

export const images = (offset, limit) => get(`/v1/images?${new URLSearchParams({ offset, limit })}`);

/** All results of a search: their number, and a function that returns the CSV table. */
export async function exported(source, fields, signal) {
  const body = formOf(source, fields);
  const response = await request("/v1/search/export", { method: "POST", body, signal });
  return { total: Number(response.headers.get("X-Total")), table: () => response.blob() };
}

/** The picture of an image, at most `size` pixels a side, as a blob. */
export async function picture(source, size, signal) {
  const response = await (source.file
    ? request(`/v1/render?size=${size}`, { method: "POST", body: formOf(source), signal })
    : request(`/v1/images/${idPath(source.id)}/rendered?size=${size}`, { signal }));
  return response.blob();
}
