// The probabilities of the model's findings.

import * as api from "./api.js";
import { attempt, byId, element } from "./dom.js";
import * as session from "./session.js";

function row({ finding, probability }) {
  const percent = `${Math.round(100 * probability)} %`;
  const fill = element("span", { className: "bar-fill" });
  fill.style.width = `${100 * probability}%`;
  const button = element(
    "button",
    {
      type: "button",
      className: probability >= 0.5 ? "finding likely" : "finding",
      "aria-label": `${finding}, probability ${percent}. Show where.`,
    },
    element("span", { className: "finding-name" }, finding),
    element("span", { className: "finding-number" }, probability.toFixed(2)),
    element("span", { className: "bar-track" }, fill),
  );
  button.dataset.finding = finding;
  button.addEventListener("click", () => {
    session.locate(session.current.model.prompts[finding].positive[0]);
  });
  return element("li", {}, button);
}

async function classify() {
  const list = byId("findings");
  list.replaceChildren();
  list.setAttribute("aria-busy", "true");
  byId("findings-hint").hidden = false;
  byId("findings-hint").textContent = "Asking the model…";
  const answer = await attempt(() => api.classify(session.current.source, session.whileOpen()));
  if (!answer) return;
  list.setAttribute("aria-busy", "false");
  byId("findings-hint").hidden = true;
  byId("findings-foot").hidden = false;
  list.replaceChildren(...answer.findings.map(row));
}

function mark(sentence) {
  for (const button of document.querySelectorAll("#findings .finding")) {
    const { positive } = session.current.model.prompts[button.dataset.finding];
    button.classList.toggle("shown", positive[0] === sentence);
  }
}

export function start() {
  session.on("opened", classify);
  session.on("located", ({ sentence, found }) => found && mark(sentence));
}
