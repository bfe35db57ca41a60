// The strip of indexed images below the viewer.

import * as api from "./api.js";
import { byId, element, skeletons, whole } from "./dom.js";
import { problemCard } from "./notices.js";
import * as session from "./session.js";
import { film } from "./thumbnails.js";

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
