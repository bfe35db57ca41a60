// The strip of indexed images below the viewer.

import * as api from "../lib/api.js";
import { byId, element, moveAmong, whole } from "../lib/dom.js";
import { problemCard } from "../lib/notices.js";
import * as session from "../lib/session.js";
import { film } from "../lib/thumbnails.js";

const PAGE = 24;
const COLLAPSED = "cxrtext-strip-collapsed";
let offset = 0;
let total = 0;

async function showPage(start) {
  const strip = byId("filmstrip");
  try {
    const page = await api.images(start, PAGE);
    ({ offset, total } = page);
    const last = offset + page.images.length;
    byId("archive-range").textContent =
      total ? `${whole(offset + 1)}–${whole(last)} of ${whole(total)}` : "empty";
    byId("archive-previous").disabled = offset === 0;
    byId("archive-next").disabled = last >= total;
    strip.replaceChildren(...page.images.map(film));
    strip.scrollLeft = 0;
    mark();
  } catch (error) {
    byId("archive-range").textContent = "";
    strip.replaceChildren(element("li", {}, problemCard(error, () => showPage(start))));
  }
}

const films = () => [...byId("filmstrip").querySelectorAll(".film")];
const place = () => films().findIndex((one) => session.isOpen(one.dataset.id));

/** Open the next or previous image, from another page of the strip if needed. */
export async function openBeside(step) {
  let to = place() + step;
  if (place() < 0 || offset + to < 0 || offset + to >= total) return;
  if (!films()[to]) {
    await showPage(offset + step * PAGE);
    to = step > 0 ? 0 : PAGE - 1;
  }
  const { id } = films()[to]?.dataset ?? {};
  if (id !== undefined) await session.open({ id });
}

/** Mark the open image. The strip is one Tab stop; arrows move within it. */
function mark() {
  const here = place();
  films().forEach((one, at) => {
    one.classList.toggle("open", at === here);
    one.tabIndex = at === Math.max(here, 0) ? 0 : -1;
  });
  if (here >= 0) films()[here].scrollIntoView({ block: "nearest", inline: "nearest" });
}

function onKey(event) {
  const next = moveAmong(event, films());
  if (next) for (const one of films()) one.tabIndex = one === next ? 0 : -1;
}

/** Hide or show the films of the strip; the browser remembers it. */
function collapse(collapsed) {
  byId("filmstrip").hidden = collapsed;
  byId("archive").classList.toggle("collapsed", collapsed);
  byId("toggle-strip").setAttribute("aria-expanded", String(!collapsed));
  if (collapsed) localStorage.setItem(COLLAPSED, "1");
  else localStorage.removeItem(COLLAPSED);
}

export async function start() {
  byId("archive").hidden = byId("empty-archive").hidden = false;
  byId("archive-previous").addEventListener("click", () => showPage(Math.max(0, offset - PAGE)));
  byId("archive-next").addEventListener("click", () => showPage(offset + PAGE));
  byId("toggle-strip").addEventListener("click", () => collapse(!byId("filmstrip").hidden));
  collapse(Boolean(localStorage.getItem(COLLAPSED)));
  byId("filmstrip").addEventListener("keydown", onKey);
  for (const event of ["opened", "closed"]) {
    session.on(event, mark);
  }
  await showPage(0);
}
