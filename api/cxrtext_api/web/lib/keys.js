// Keyboard shortcuts, active outside text fields and menus; "?" lists them.

import { byId, element } from "./dom.js";

const OFF = "cxrtext-keys-off";
const NAMES = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Escape: "Esc", PageUp: "Page up", PageDown: "Page down" };
const bound = [];

/**
 * Bind keys of a view ("" for all views): { keys, does, run(event), near, when } each.
 *
 * `near`: a selector that the focus must be in; `when`: whether the keys are active now.
 */
export function bind(group, view, entries) {
  bound.push(...entries.map((entry) => ({ group, view, ...entry })));
}

function onKey(event) {
  const { key, target } = event;
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (target.closest("input, textarea, select, dialog") || document.querySelector("dialog[open]")) return;
  if (localStorage.getItem(OFF) && !target.closest(".viewer")) return;
  const found = bound.find(({ keys, view, near, when }) => keys.includes(key) &&
    (!view || view === document.body.dataset.view) && (!near || target.closest(near)) && (!when || when()));
  if (!found) return;
  event.preventDefault();
  found.run(event);
}

function showHelp() {
  const groups = [...new Set(bound.map(({ group }) => group))];
  const row = ({ keys, names = keys.map((key) => NAMES[key] ?? key), does }) => element("div", {},
    element("dt", {}, ...names.map((name) => element("kbd", {}, name))), element("dd", {}, does));
  byId("keys-list").replaceChildren(...groups.map((title) => element("section", {}, element("h3", {}, title),
    element("dl", {}, ...bound.filter(({ group, does }) => does && group === title).map(row)))));
  byId("keys-on").checked = !localStorage.getItem(OFF);
  byId("keys-dialog").showModal();
}

export function start() {
  document.addEventListener("keydown", onKey);
  byId("keys").addEventListener("click", showHelp);
  byId("keys-on").addEventListener("change", ({ target }) => {
    if (target.checked) localStorage.removeItem(OFF);
    else localStorage.setItem(OFF, "1");
  });
  bind("Everywhere", "", [{ keys: ["?"], does: "List the keys", run: showHelp }]);
}
