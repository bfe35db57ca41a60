// A typed sentence: where the image supports it, and how much.

import { byId, element, plural, score } from "./dom.js";
import * as session from "./session.js";
import { show } from "./tabs.js";

const asked = new Map();

function showResult(sentence, found) {
  byId("locate-result").replaceChildren(
    element(
      "div",
      { className: "result" },
      element("p", { className: "result-number" }, score(found.score)),
      element(
        "div",
        {},
        element("p", { className: "result-sentence" }, sentence),
        element(
          "p",
          { className: "muted" },
          `Similarity from −1 to 1 · ${plural(found.boxes.length, "region")} · best at ` +
            `${Math.round(found.peak[0])}, ${Math.round(found.peak[1])} px`,
        ),
      ),
    ),
  );
}

function showHistory() {
  byId("history-title").hidden = asked.size === 0;
  byId("history").replaceChildren(
    ...[...asked].reverse().map(([sentence, value]) => {
      const button = element(
        "button",
        { type: "button", className: "line" },
        element("span", {}, sentence),
        element("span", { className: "number" }, score(value)),
      );
      button.addEventListener("click", () => session.locate(sentence));
      return element("li", {}, button);
    }),
  );
}

function forget() {
  asked.clear();
  byId("locate-result").replaceChildren();
  showHistory();
}

export function start() {
  const form = byId("locate-form");
  const field = byId("sentence");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!session.current.source) {
      byId("locate-result").replaceChildren(
        element("p", { className: "hint" }, "Open an image first."),
      );
      return;
    }
    if (field.value.trim()) session.locate(field.value.trim());
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  session.on("opened", forget);
  session.on("located", ({ sentence, found }) => {
    if (!found) return;
    field.value = sentence;
    asked.delete(sentence);
    asked.set(sentence, found.score);
    showResult(sentence, found);
    showHistory();
  });
}

/** Show where the open image supports a sentence, and the panel that tells the score. */
export function locateAndShow(sentence) {
  show("locate");
  session.locate(sentence);
}
