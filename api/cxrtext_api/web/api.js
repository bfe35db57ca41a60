// The only place that talks to the server.

const KEY = "cxrtext-key";

export class Problem extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let askForKey = null;
let asking = null;

/** Say how to get a key from the person: an async function of whether one was wrong. */
export function onKeyWanted(ask) {
  askForKey = ask;
}

export function setKey(key) {
  if (key) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
}

export const hasKey = () => sessionStorage.getItem(KEY) !== null;

function newKey(refused) {
  // Requests that are refused at the same time share one question.
  asking ??= askForKey(refused).finally(() => {
    asking = null;
  });
  return asking;
}

async function problemOf(response) {
  try {
    const body = await response.json();
    const faults = (body.errors ?? []).map((fault) => `${fault.field}: ${fault.message}`);
    return new Problem(response.status, faults.length ? faults.join("; ") : body.detail);
  } catch {
    return new Problem(response.status, `The server answered ${response.status}.`);
  }
}

async function request(path, options = {}) {
  for (;;) {
    const key = sessionStorage.getItem(KEY);
    const headers = { ...options.headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
    let response;
    try {
      response = await fetch(path, { ...options, headers, cache: "no-store" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Problem(0, "The server cannot be reached. Is it still running?");
    }
    if (response.ok) return response;
    if (response.status !== 401) throw await problemOf(response);
    // Another request may have been given a new key in the meantime.
    if (sessionStorage.getItem(KEY) === key && !(await newKey(key !== null))) {
      throw await problemOf(response);
    }
  }
}

function formOf(source, fields = {}) {
  const form = new FormData();
  if (source?.file) form.append("image", source.file, "image");
  else if (source) form.append("image_id", source.id);
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  return form;
}

const post = async (path, source, fields, signal) =>
  (await request(path, { method: "POST", body: formOf(source, fields), signal })).json();

const idPath = (id) => id.split("/").map(encodeURIComponent).join("/");

export const ready = async () => (await request("/readyz")).json();
export const model = async () => (await request("/v1/model")).json();
export const images = async (offset, limit) =>
  (await request(`/v1/images?offset=${offset}&limit=${limit}`)).json();
export const image = async (id, signal) =>
  (await request(`/v1/images/${idPath(id)}`, { signal })).json();
export const classify = (source, signal) => post("/v1/classify", source, {}, signal);
export const ground = (source, sentence, signal) =>
  post("/v1/ground", source, { sentence }, signal);
export const search = (source, fields, signal) => post("/v1/search", source, fields, signal);

/** The picture of an image, at most `size` pixels a side, as a blob. */
export async function picture(source, size, signal) {
  const response = source.file
    ? await request(`/v1/render?size=${size}`, { method: "POST", body: formOf(source), signal })
    : await request(`/v1/images/${idPath(source.id)}/rendered?size=${size}`, { signal });
  return response.blob();
}
