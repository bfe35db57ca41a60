// What a reader marks as right, wrong or unclear, and boxes that are drawn on the image.

import * as api from "../lib/api.js";
import { button, byId, element } from "../lib/dom.js";
import { attempt } from "../lib/notices.js";
import * as session from "../lib/session.js";

const VERDICTS = [["right", "✓"], ["wrong", "✕"], ["unclear", "?"]];
const STEP = 4;
const SMALLEST = 8;

let verdicts = new Map();
let viewer = null;
let drawn = null;

const keyOf = ({ image_id, kind, text, box }) => JSON.stringify([image_id, kind, text, box ?? null]);
const round = (box) => box.map((value) => Math.round(10 * value) / 10);
const mayMark = () => session.current.model?.has_index
  && session.current.model.access?.scopes.includes("mark");

function showVerdict(group, verdict) {
  for (const one of group.children) {
    one.setAttribute("aria-pressed", String(one.dataset.verdict === verdict));
  }
}

/** Keep a mark of an indexed image; whether it was kept. */
async function keep(what, verdict) {
  const { image_id: id, kind, text, said = true, box } = what;
  const fields = { kind, text, verdict, said: String(said), box: box?.join(",") };
  const made = await attempt(() => api.mark({ id }, fields));
  if (!made) return false;
  verdicts.set(keyOf(made), verdict);
  byId("mark-note").textContent = `${text}: marked as ${verdict}.`;
  return true;
}

/**
 * Buttons that say right, wrong or unclear of something; null where nothing can be marked.
 *
 * `said`: whether it was said to be there. Without `image_id` it is about the open image.
 */
export function control(kind, text, { said = true, box, image_id: image } = {}) {
  const id = image ?? session.current.detail?.image_id;
  if (!mayMark() || id === undefined) return null;
  const what = { image_id: id, kind, text, said, box: box && round(box) };
  const group = element(
    "span",
    { className: "marks", role: "group", "aria-label": `Mark: ${text}`, data: { key: keyOf(what) } },
    ...VERDICTS.map(([verdict, sign]) => {
      const one = button(sign, async () => {
        if (await keep(what, verdict)) showVerdict(group, verdict);
      }, { className: "toggle small mark", title: `Mark as ${verdict}`, data: { verdict } });
      one.setAttribute("aria-label", `${text}: ${verdict}`);
      return one;
    }),
  );
  showVerdict(group, verdicts.get(group.dataset.key));
  return group;
}

/** Own marks of the open image, and the boxes among them. */
async function load({ image_id: id }) {
  const signal = session.whileOpen();
  const own = session.current.model.access.key_id ?? "-";
  try {
    const mine = (await api.marks(id, signal)).filter(({ who }) => who === own);
    for (const one of mine) verdicts.set(keyOf(one), one.verdict);
    for (const group of document.querySelectorAll(".marks")) {
      showVerdict(group, verdicts.get(group.dataset.key));
    }
    listBoxes(mine.filter(({ kind, verdict }) => kind === "box" && verdict === "right"));
  } catch {
    // The image can be read, and marked, all the same.
  }
}

function listBoxes(boxes) {
  byId("drawn-boxes").replaceChildren(...boxes.map(({ text, box }) => element("li", {},
    button(`${text} · ${box[2]} × ${box[3]} px`, () => draw(text, box), {
      className: "line", "aria-label": `${text}. Show the box`,
    }))));
}

// --- a box by mouse and keyboard ---

/** Where a box in pixels of the original lies on the stage. */
function place() {
  const { width, height } = session.current.detail;
  const [x, y, w, h] = drawn.box;
  const [one, other] = [[x, y], [x + w, y + h]].map(([left, top]) => viewer.toStage([left / width, top / height]));
  Object.assign(drawn.shape.style, {
    left: `${Math.min(one.x, other.x)}px`, top: `${Math.min(one.y, other.y)}px`,
    width: `${Math.abs(one.x - other.x)}px`, height: `${Math.abs(one.y - other.y)}px`,
  });
}

/** Keep a box inside the image. */
function bounded([x, y, w, h]) {
  const { width, height } = session.current.detail;
  const [wide, high] = [Math.min(Math.max(w, SMALLEST), width), Math.min(Math.max(h, SMALLEST), height)];
  return round([Math.min(Math.max(x, 0), width - wide), Math.min(Math.max(y, 0), height - high), wide, high]);
}

function change(box) {
  drawn.box = bounded(box);
  place();
  const [x, y, w, h] = drawn.box.map(Math.round);
  byId("mark-note").textContent = `Box at ${x}, ${y} px, ${w} × ${h} px. Enter keeps it, Escape does not.`;
}

function onPointer(event) {
  const { width, height } = session.current.detail;
  const { left, top } = byId("stage").getBoundingClientRect();
  const [across, down] = viewer.toPicture({ x: event.clientX - left, y: event.clientY - top });
  const at = [across * width, down * height];
  event.stopPropagation();
  event.preventDefault();
  if (event.type === "pointerdown") {
    drawn.layer.setPointerCapture(event.pointerId);
    drawn.layer.focus();
    drawn.from = at;
  } else if (event.type === "pointerup") drawn.from = null;
  if (!drawn.from) return;
  const [x, y] = drawn.from;
  change([Math.min(x, at[0]), Math.min(y, at[1]), Math.abs(at[0] - x), Math.abs(at[1] - y)]);
}

function onKey(event) {
  event.stopPropagation();
  if (event.key === "Escape") end();
  else if (event.key === "Enter") keepBox();
  const [x, y, w, h] = drawn?.box ?? [];
  const step = STEP * Math.max(1, Math.round(session.current.detail.width / 500));
  const to = {
    ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step],
  }[event.key];
  if (!to || !drawn) return;
  event.preventDefault();
  change(event.shiftKey ? [x, y, w + to[0], h + to[1]] : [x + to[0], y + to[1], w, h]);
}

function end() {
  drawn?.layer.remove();
  drawn = null;
  byId("draw-keep").hidden = byId("draw-cancel").hidden = true;
  byId("mark-note").textContent = "";
}

async function keepBox() {
  const { text, box } = drawn;
  const { image_id: id } = session.current.detail;
  end();
  byId("draw-word").focus();
  if (await keep({ image_id: id, kind: "box", text, box }, "right")) load(session.current.detail);
}

/** Draw a box of a word, or show one that is there. */
function draw(text, box = null) {
  end();
  const { width, height } = session.current.detail;
  const shape = element("span", { className: "drawn-box" }, element("span", {}, text));
  const layer = element("div", {
    className: "draw-layer", tabIndex: 0, role: "application",
    "aria-label": `Box: ${text}. Arrows move it, Shift with arrows changes its size, Enter keeps it, Escape leaves.`,
  }, shape);
  for (const kind of ["pointerdown", "pointermove", "pointerup"]) layer.addEventListener(kind, onPointer);
  layer.addEventListener("keydown", onKey);
  drawn = { text, layer, shape, from: null };
  byId("stage").append(layer);
  byId("draw-keep").hidden = byId("draw-cancel").hidden = false;
  change(box ?? [width / 3, height / 3, width / 3, height / 3]);
  layer.focus();
}

function onOpened() {
  end();
  const { detail } = session.current;
  const can = Boolean(mayMark() && detail);
  byId("drawing").hidden = !can;
  byId("drawn-boxes").replaceChildren();
  if (!can) return;
  load(detail);
}

/** `shown` is the viewer whose image boxes are drawn on. */
export function start(shown) {
  viewer = shown;
  new ResizeObserver(() => drawn && place()).observe(byId("stage"));
  byId("draw-form").addEventListener("submit", (event) => {
    event.preventDefault();
    draw(byId("draw-word").value.trim());
  });
  byId("draw-keep").addEventListener("click", keepBox);
  byId("draw-cancel").addEventListener("click", end);
  session.on("opened", onOpened);
  session.on("closed", onOpened);
}
