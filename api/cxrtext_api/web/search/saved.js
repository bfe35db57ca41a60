// Searches that are kept to be asked again: until the tab is closed, so that who comes next to a
// shared workstation finds none. To keep one longer, its address can be a bookmark.

import { button, byId, element } from "../lib/dom.js";
import * as query from "./query.js";
import { go } from "../lib/router.js";

const KEPT = "cxrtext-searches";
const MOST = 20;

const saved = () => JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");

function keep(searches) {
  sessionStorage.setItem(KEPT, JSON.stringify(searches.slice(0, MOST)));
  show();
}

function show() {
  byId("saved-title").hidden = saved().length === 0;
  byId("saved").replaceChildren(...saved().map((search) => {
    const asked = query.ofParams(new URLSearchParams(search), null);
    const words = [query.inWords(asked), asked.where].filter(Boolean).join(" · ");
    return element(
      "li",
      {},
      button(words, () => go("search", search), { className: "line" }),
      button("✕", () => {
        keep(saved().filter((other) => other !== search));
        byId("save-search").focus();
      }, { className: "quiet square small", "aria-label": `✕ Forget ${words}` }),
    );
  }));
}

/** `asked` gives what the form asks now. */
export function start(asked) {
  byId("save-search").addEventListener("click", () => {
    const search = query.toParams({ ...asked(), ...(asked().source?.file ? { source: null } : {}) }).toString();
    if (!query.isEmpty(query.ofParams(new URLSearchParams(search), null))) {
      keep([search, ...saved().filter((other) => other !== search)]);
    }
  });
  show();
}
