// The strip of indexed images below the viewer.

import * as api from "../lib/api.js";
import { byId, element, skeletons, whole } from "../lib/dom.js";
import { problemCard } from "../lib/notices.js";
import * as session from "../lib/session.js";
import { film } from "../lib/thumbnails.js";

const PAGE = 24;
let offset = 0;
let total = 0;

async function showPage(start) {
  const strip = byId("filmstrip");
  if (!strip.firstElementChild) strip.replaceChildren(...skeletons("li", "skeleton-film", 12));
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
  } catch (error) {
    byId("archive-range").textContent = "";
    strip.replaceChildren(element("li", {}, problemCard(error, () => showPage(start))));
  }
}

export async function start() {
  byId("archive").hidden = byId("empty-archive").hidden = false;
  byId("archive-previous").addEventListener("click", () => showPage(Math.max(0, offset - PAGE)));
  byId("archive-next").addEventListener("click", () => showPage(offset + PAGE));
  for (const event of ["opened", "closed"]) {
    session.on(event, () => {
      for (const button of document.querySelectorAll(".film")) {
        button.classList.toggle("open", session.isOpen(button.dataset.id));
      }
    });
  }
  await showPage(0);
}
