// The sentences by which findings are asked for: the server's, until they are changed here.

import { button, byId, element, linesOf } from "../lib/dom.js";
import * as session from "../lib/session.js";

let given = {};
let asked = {};
let tellChange = () => {};

export const of = (finding) => asked[finding];
export const count = () => Object.keys(asked).length;
export const asJson = () => JSON.stringify(asked);
export const changed = () => asJson() !== JSON.stringify(given);

function change(made) {
  asked = made;
  byId("reset-prompts").disabled = !changed();
  tellChange();
}

function field(finding, kind, title) {
  const text = element("textarea", {
    rows: Math.max(1, asked[finding][kind].length),
    maxLength: 2000,
    value: asked[finding][kind].join("\n"),
    "aria-label": `${finding}, ${title.toLowerCase()}: a sentence a line`,
  });
  text.addEventListener("change", () => {
    const sentences = linesOf(text.value);
    if (sentences.length === 0) {
      text.value = asked[finding][kind].join("\n");
      return;
    }
    change({ ...asked, [finding]: { ...asked[finding], [kind]: sentences } });
  });
  return element("div", { className: "prompt" }, element("span", {}, title), text);
}

/** Text areas for the prompts of a finding; shown while prompts are edited. */
export function editor(finding) {
  const remove = button("Remove", () => {
    const { [finding]: _, ...others } = asked;
    change(others);
  }, { className: "quiet small", "aria-label": `Remove ${finding}` });
  return element(
    "div",
    { className: "prompts", hidden: byId("edit-prompts").getAttribute("aria-pressed") !== "true" },
    field(finding, "positive", "Present"),
    field(finding, "negative", "Absent"),
    remove,
  );
}

function toggle() {
  const edits = byId("edit-prompts").getAttribute("aria-pressed") !== "true";
  byId("edit-prompts").setAttribute("aria-pressed", String(edits));
  byId("prompt-tools").hidden = !edits;
  for (const one of document.querySelectorAll("#findings .prompts")) one.hidden = !edits;
}

function add(event) {
  event.preventDefault();
  const name = byId("new-finding").value.trim();
  if (!name || asked[name]) return;
  byId("new-finding").value = "";
  const lower = /^[A-Z][a-z]/.test(name) ? name[0].toLowerCase() + name.slice(1) : name;
  change({ ...asked, [name]: { positive: [`${name}.`], negative: [`No ${lower}.`] } });
}

/** Take the server's prompts. */
export function take() {
  given = session.current.model.prompts;
  asked = structuredClone(given);
}

/** `onChange` is called when there is other to ask for. */
export function start(onChange) {
  tellChange = onChange;
  byId("edit-prompts").addEventListener("click", toggle);
  byId("add-finding").addEventListener("submit", add);
  byId("reset-prompts").addEventListener("click", () => change(structuredClone(given)));
  byId("reset-prompts").disabled = true;
}
