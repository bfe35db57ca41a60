// A reader's marks on a finding, a sentence, its best region or a search result.

import * as api from "../lib/api.js";
import { button, byId, element } from "../lib/dom.js";
import { attempt } from "../lib/notices.js";
import * as session from "../lib/session.js";

/** A reader's choices: for a finding, whether it is present; for anything else, whether it is right. */
const WORDS = { finding: ["present", "absent", "unsure"] };
const OTHER_WORDS = ["right", "wrong", "unsure"];

const answers = new Map();

const keyOf = ({ image_id, kind, text, box }) => JSON.stringify([image_id, kind, text, box ?? null]);
const round = (box) => box.map((value) => Math.round(10 * value) / 10);
const mayMark = () => session.current.model?.has_index
  && session.current.model.access?.scopes.includes("mark");

const wordsOf = ({ kind }) => WORDS[kind] ?? OTHER_WORDS;

/** Convert a reader's choice to a verdict on the model's answer, and back. */
function verdictOf(what, word) {
  const at = wordsOf(what).indexOf(word);
  if (at === 2) return "unclear";
  return (at === 0) === (what.kind !== "finding" || what.said) ? "right" : "wrong";
}

const wordOf = (mark) => wordsOf(mark).find((word) => verdictOf(mark, word) === mark.verdict);

function showAnswer(group) {
  const word = answers.get(group.dataset.key);
  for (const one of group.children) {
    one.setAttribute("aria-pressed", String(one.textContent === word));
  }
}

/** Save a reader's mark on an indexed image; returns whether it was saved. */
async function keep(what, word) {
  const { image_id: id, kind, text, said = true, box } = what;
  const fields = { kind, text, verdict: verdictOf(what, word), said: String(said), box: box?.join(",") };
  const made = await attempt(() => api.mark({ id }, fields));
  if (!made) return false;
  answers.set(keyOf(made), word);
  byId("mark-note").textContent = `${text}: marked as ${word}.`;
  return true;
}

/**
 * The buttons for a mark; null if nothing can be marked.
 *
 * `said`: whether the model calls it present. Without `image_id` the mark is on the open image.
 */
export function control(kind, text, { said = true, box, image_id: image } = {}) {
  const id = image ?? session.current.detail?.image_id;
  if (!mayMark() || id === undefined) return null;
  const what = { image_id: id, kind, text, said, box: box && round(box) };
  const group = element(
    "span",
    { className: "marks", role: "group", "aria-label": `You say: ${text}`, data: { key: keyOf(what) } },
    ...wordsOf(what).map((word) => button(word, async () => {
      if (await keep(what, word)) showAnswer(group);
    }, { className: "toggle mark", "aria-label": `${text}: ${word}` })),
  );
  showAnswer(group);
  return group;
}

/** This reader's marks on the open image, and the boxes among them. */
async function load({ image_id: id }) {
  const signal = session.whileOpen();
  const own = session.current.model.access.key_id ?? "-";
  try {
    const mine = (await api.marks(id, signal)).filter(({ who }) => who === own);
    for (const one of mine) answers.set(keyOf(one), wordOf(one));
    document.querySelectorAll(".marks").forEach(showAnswer);
  } catch {
    // The image can be read and marked anyway.
  }
}

export function start() {
  session.on("opened", () => {
    if (mayMark() && session.current.detail) load(session.current.detail);
  });
}
