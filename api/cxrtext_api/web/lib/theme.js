// Dark as a reading room, or light.

import { byId } from "./dom.js";

const NAME = "cxrtext-theme";

function show(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", `Use the ${theme === "dark" ? "light" : "dark"} theme`);
}

export function start() {
  show(localStorage.getItem(NAME) === "light" ? "light" : "dark");
  byId("theme").addEventListener("click", () => {
    const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    localStorage.setItem(NAME, theme);
    show(theme);
  });
}
