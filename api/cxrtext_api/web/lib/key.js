// The dialog for a server's key.

import { hasKey, onKeyWanted, setKey } from "./api.js";
import { byId } from "./dom.js";

function ask(refused) {
  const dialog = byId("key-dialog");
  byId("key-error").textContent = refused ? "The server does not know this key." : "";
  byId("key").value = "";
  byId("key-button").hidden = false;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const given = dialog.returnValue === "given" && byId("key").value.trim();
      if (given) setKey(given);
      byId("key").value = "";
      resolve(Boolean(given));
    }, { once: true });
  });
}

export function start() {
  onKeyWanted(ask);
  byId("key-button").hidden = !hasKey();
  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    byId("key-dialog").close("given");
  });
  byId("key-cancel").addEventListener("click", () => byId("key-dialog").close(""));
  byId("key-button").addEventListener("click", () => {
    sessionStorage.clear(); // the key, and the searches made with it
    window.location.reload();
  });
}
