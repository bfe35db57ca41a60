// Keys that work wherever the focus is, except in what is typed or chosen; "?" lists them.

import { byId, element } from "./dom.js";

const OFF = "cxrtext-keys";
const NAMES = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Escape: "Esc", PageUp: "Page up", PageDown: "Page down" };
const bound = [];

/**
 * Bind keys of a view ("" for all): each { keys, does, run(event), near, when }.
 *
 * `near`: what must have the focus, of keys that other parts use too; `when`: whether they count now.
 */
export function bind(group, view, entries) {
  bound.push(...entries.map((entry) => ({ group, view, ...entry })));
}

const isOff = () => localStorage.getItem(OFF) === "off";

function onKey(event) {
  const { key, target } = event;
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (target.closest("input, textarea, select, [contenteditable], dialog")) return;
  if (document.querySelector("dialog[open]") || (isOff() && !target.closest(".viewer"))) return;
  const { view: shown } = document.body.dataset;
  const found = bound.find(({ keys, view, near, when }) => keys.includes(key) &&
    (!view || view === shown) && (!near || target.closest(near)) && (!when || when()));
  if (!found) return;
  event.preventDefault();
  found.run(event);
}

function showHelp() {
  const groups = new Map();
  for (const one of bound.filter(({ does }) => does)) {
    groups.set(one.group, [...(groups.get(one.group) ?? []), one]);
  }
  byId("keys-list").replaceChildren(...[...groups].map(([title, entries]) => element(
    "section",
    {},
    element("h3", {}, title),
    element("dl", {}, ...entries.map(({ keys, does }) => element(
      "div",
      {},
      element("dt", {}, ...keys.map((key) => element("kbd", {}, NAMES[key] ?? key))),
      element("dd", {}, does),
    ))),
  )));
  byId("keys-on").checked = !isOff();
  byId("keys-dialog").showModal();
}

export function start() {
  document.addEventListener("keydown", onKey);
  byId("keys").addEventListener("click", showHelp);
  byId("keys-on").addEventListener("change", ({ target }) => {
    if (target.checked) localStorage.removeItem(OFF);
    else localStorage.setItem(OFF, "off");
  });
  bind("Everywhere", "", [{ keys: ["?"], does: "List the keys", run: showHelp }]);
}
