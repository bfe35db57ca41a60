// Errors and waiting notices.

import { onBusy } from "./api.js";
import { button, byId, element } from "./dom.js";

/** An error's detail, with its id in the server's log. */
function textOf(error) {
  return [
    element("span", { className: "problem-text" }, error.message),
    error.requestId
      ? element("span", { className: "request-id" }, `Request ${error.requestId}`)
      : null,
  ];
}

export function showError(error) {
  byId("alert-text").replaceChildren(...textOf(error).filter(Boolean));
  byId("alert").hidden = false;
}

export function clearError() {
  byId("alert").hidden = true;
  byId("alert-text").replaceChildren();
}

/** Run a request and show its failure at the top of the page. */
export async function attempt(work) {
  try {
    return await work();
  } catch (error) {
    if (error.name !== "AbortError") showError(error);
    return undefined;
  }
}

/** A failure in place of the answer, with a retry button. */
export function problemCard(error, again = null) {
  return element(
    "div",
    { className: "problem", role: "alert" },
    ...textOf(error),
    again && error.status !== 403 ? button("Try again", again, { className: "small" }) : null,
  );
}

/** A line in place of an empty answer. */
export const emptyLine = (text) => element("p", { className: "muted" }, text);

export function start() {
  byId("alert-close").addEventListener("click", clearError);
  window.addEventListener("keydown", (event) => event.key === "Escape" && clearError());
  onBusy((state) => {
    byId("waiting").hidden = state === null;
    if (!state) return;
    const { seconds, attempt: turn, tries, detail } = state;
    byId("waiting-text").textContent =
      `${detail} Trying again in ${seconds} s (${turn} of ${tries}).`;
  });
}
