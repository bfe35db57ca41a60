// The tabs beside the image: arrow keys move, as assistive technology expects.

import { byId } from "./dom.js";

const NAMES = ["findings", "locate", "report", "study"];

export function show(name, focus = false) {
  for (const one of NAMES) {
    const tab = byId(`tab-${one}`);
    tab.setAttribute("aria-selected", String(one === name));
    tab.tabIndex = one === name ? 0 : -1;
    byId(`panel-${one}`).hidden = one !== name;
  }
  if (focus) byId(`tab-${name}`).focus();
}

export function start() {
  NAMES.forEach((name, place) => {
    const tab = byId(`tab-${name}`);
    tab.addEventListener("click", () => show(name));
    tab.addEventListener("keydown", (event) => {
      const to = {
        ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: NAMES.length - 1,
      }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      show(NAMES[(to + NAMES.length) % NAMES.length], true);
    });
  });
  show("findings");
}
