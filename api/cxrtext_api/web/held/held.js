// What the gateway holds, and what an administrator decides of it.

import * as api from "../lib/api.js";
import { button, byId, element, plural, whole } from "../lib/dom.js";
import * as keys from "../lib/keys.js";
import { attempt, clearError, emptyLine, problemCard } from "../lib/notices.js";
import { facts } from "../read/study.js";

const MOST = 200; // items shown together
const DONE = { accept: "accepted", drop: "dropped" };

let held = [];

function title() {
  const rest = held.length > MOST ? `; the first ${MOST} are shown` : "";
  byId("held-title").textContent = `${whole(held.length)} waiting for a decision${rest}`;
}

/** Send a decision, remove its card and focus the next one. */
async function decide(item, card, verdict, study = undefined) {
  clearError();
  for (const one of card.querySelectorAll("button")) one.disabled = true;
  const done = await attempt(() => api.decide(item.name, verdict, study));
  for (const one of card.querySelectorAll("button")) one.disabled = false;
  if (!done) return;
  const next = card.nextElementSibling ?? card.previousElementSibling;
  card.remove();
  held = held.filter((one) => one !== item);
  byId("held-said").textContent =
    `${item.what} ${item.name}: ${study ? `joined to ${study}` : DONE[verdict]}.`;
  if (next) next.querySelector("button, input").focus();
  else show();
  title();
}

/** Dropping deletes a file, so it needs two presses. */
function dropButton(item, card) {
  const made = button("Drop", () => {
    if (made.textContent !== "Drop") decide(item, card, "drop");
    else made.textContent = "Delete it for good?";
  }, { className: "small", "aria-describedby": `held-${item.name}` });
  made.addEventListener("blur", () => { made.textContent = "Drop"; });
  return made;
}

/** Choose the study to join a report to: one that matches, or another. */
function joinForm(item, card) {
  const options = `held-studies-${item.name}`;
  const study = element("input", {
    value: item.studies[0] ?? "", required: true, maxLength: 255, spellcheck: false,
    autocomplete: "off", "aria-label": `Study of report ${item.name}`,
  });
  study.setAttribute("list", options);
  const form = element("form", { className: "held-join" }, study,
    element("datalist", { id: options }, ...item.studies.map((value) => element("option", { value }))),
    element("button", { className: "small", type: "submit" }, "Join"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    decide(item, card, "join", study.value.trim());
  });
  return form;
}

function cardOf(item) {
  const { name, what, state, why, hides, source, received, studies, accession, patient } = item;
  const card = element("li", { className: "about-card" });
  const isReport = what === "report";
  const accept = button(state === "failed" ? "Try again" : "Accept", () => decide(item, card, "accept"),
    { className: "small", "aria-describedby": `held-${name}` });
  card.append(
    element("h2", { id: `held-${name}` }, `${what} ${name} `, element("span", { className: "tag" }, state)),
    element("p", { className: "held-why" }, why),
    element("p", { className: "muted" }, hides),
    element("dl", { className: "facts-list" }, ...facts([
      ["From", source], ["Received", new Date(received).toLocaleString()], ["Patient", patient],
      ["Accession number", accession], [studies.length > 1 ? "Studies" : "Study", studies.join(", ")],
    ])),
    element("div", { className: "row" }, ...(isReport ? [joinForm(item, card)] : []),
      ...(isReport && studies.length !== 1 ? [] : [accept]), dropButton(item, card)),
  );
  return card;
}

function show() {
  title();
  byId("held-list").replaceChildren(...(held.length
    ? held.slice(0, MOST).map(cardOf) : [emptyLine("Nothing is held.")]));
  if (!held.length) byId("held-again").focus();
}

async function enter() {
  byId("held-title").textContent = "Looking…";
  byId("held-said").textContent = "";
  try {
    held = await api.held();
  } catch (error) {
    byId("held-title").textContent = "";
    byId("held-list").replaceChildren(problemCard(error, enter));
    return;
  }
  show();
}

/** Offer the view if there is a gateway and the key may decide; returns the function that opens it. */
export function start({ has_held: hasHeld, access }) {
  const nav = byId("nav-held");
  if (!hasHeld || !["admin", "read"].every((scope) => access.scopes.includes(scope))) return {};
  if (nav.hidden) {
    keys.bind("Everywhere", "", [
      { keys: ["H"], names: ["Shift", "h"], does: "Held", run: () => nav.click() },
    ]);
    byId("held-again").addEventListener("click", enter);
  }
  nav.hidden = false;
  return { held: enter };
}
