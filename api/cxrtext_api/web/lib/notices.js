// What went wrong, and what is being waited for.

import { onBusy } from "./api.js";
import { button, byId, element } from "./dom.js";

/** The detail of an error, with the id under which the server's log has it. */
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

/** Run something that talks to the server; show its failure at the top of the page. */
export async function attempt(work) {
  try {
    return await work();
  } catch (error) {
    if (error.name !== "AbortError") showError(error);
    return undefined;
  }
}

/** A failure in place of what was asked for, with a way to ask again. */
export function problemCard(error, again = null) {
  return element(
    "div",
    { className: "problem", role: "alert" },
    ...textOf(error),
    again && error.status !== 403 ? button("Try again", again, { className: "small" }) : null,
  );
}

/** A line in place of what is not there. */
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
