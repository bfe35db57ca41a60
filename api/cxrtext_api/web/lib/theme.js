// Light or dark theme: the system's, until the user chooses one.

import { byId } from "./dom.js";

const NAME = "cxrtext-theme";
const OTHER = { dark: "light", light: "dark" };
const system = matchMedia("(prefers-color-scheme: dark)");

const shown = () => localStorage.getItem(NAME) ?? (system.matches ? "dark" : "light");

function show() {
  const other = OTHER[shown()];
  document.documentElement.dataset.theme = shown();
  byId("theme").textContent = other === "light" ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", `Use the ${other} theme`);
}

export function start() {
  show();
  system.addEventListener("change", show);
  byId("theme").addEventListener("click", () => {
    localStorage.setItem(NAME, OTHER[shown()]);
    show();
  });
}
