// The view and its query, in the address after the #.
//
// Report text is never written there, because the browser keeps addresses in its history.

import { byId } from "./dom.js";

export const VIEWS = ["read", "search", "held", "about"];

/** The view and its parameters that the address names. */
export function here() {
  const [path, query = ""] = window.location.hash.replace(/^#\/?/, "").split("?", 2);
  const isThere = VIEWS.includes(path) && !byId(`nav-${path}`).hidden;
  return { view: isThere ? path : "read", params: new URLSearchParams(query) };
}

const addressOf = (view, params) => {
  const query = new URLSearchParams(params).toString();
  return query ? `#/${view}?${query}` : `#/${view}`;
};

/** Remember a view's query, so that its link leads back to it. */
export function note(view, params, { replace = false } = {}) {
  const address = addressOf(view, params);
  byId(`nav-${view}`).setAttribute("href", address);
  if (here().view !== view || address === window.location.hash) return;
  if (replace) window.history.replaceState(null, "", address);
  else window.history.pushState(null, "", address);
}

/** Show a view. */
export function go(view, params = {}) {
  window.location.hash = addressOf(view, params);
}

function show({ view, params }) {
  for (const one of VIEWS) {
    byId(`view-${one}`).hidden = one !== view;
    if (one === view) byId(`nav-${one}`).setAttribute("aria-current", "page");
    else byId(`nav-${one}`).removeAttribute("aria-current");
  }
  document.title = `${view[0].toUpperCase()}${view.slice(1)} – cxrtext`;
  document.body.dataset.view = view;
  enter[view]?.(params);
}

let enter = {};

/** Show the view of the address, and follow it from now on. */
export function start() {
  window.addEventListener("hashchange", () => show(here()));
  show(here());
}

/** Run the address's query; `asking` has one function of the parameters for each view. */
export function answer(asking) {
  enter = asking;
  show(here());
}
