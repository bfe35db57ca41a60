// Searches that are kept to be asked again: until the tab is closed, so that who comes next to a
// shared workstation finds none. To keep one longer, its address can be a bookmark.

import { button, byId, element } from "../lib/dom.js";
import * as query from "./query.js";
import { go } from "../lib/router.js";

const KEPT = "cxrtext-searches";

const saved = () => JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");
const askedBy = (search) => query.ofParams(new URLSearchParams(search), null);

function keep(searches) {
  sessionStorage.setItem(KEPT, JSON.stringify(searches));
  show();
}

function row(search) {
  const words = [query.inWords(askedBy(search)), askedBy(search).where].filter(Boolean).join(" · ");
  const forget = () => {
    keep(saved().filter((other) => other !== search));
    byId("save-search").focus();
  };
  return element("li", {}, button(words, () => go("search", search), { className: "line" }),
    button("✕", forget, { className: "quiet square small", "aria-label": `Forget ${words}` }));
}

function show() {
  byId("saved-title").hidden = saved().length === 0;
  byId("saved").replaceChildren(...saved().map(row));
}

/** `asked` gives what the form asks now; an image of this machine is not kept. */
export function start(asked) {
  byId("save-search").addEventListener("click", () => {
    const search = query.toParams(asked()).toString();
    if (!query.isEmpty(askedBy(search))) keep([search, ...saved().filter((other) => other !== search)]);
  });
  show();
}
