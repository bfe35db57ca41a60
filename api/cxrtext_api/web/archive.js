// The strip of indexed images below the viewer.

import * as api from "./api.js";
import { attempt, byId, element } from "./dom.js";
import * as session from "./session.js";
import { thumbnail } from "./thumbnails.js";

const PAGE = 24;
let offset = 0;
let total = 0;

function item(image) {
  const button = element(
    "button",
    {
      type: "button",
      className: session.isOpen(image.image_id) ? "film open" : "film",
      title: image.image_id,
      "aria-label": `Open study ${image.study_id}, patient ${image.patient_id}`,
    },
    thumbnail(image.image_id),
    element("span", { className: "film-name" }, image.study_id),
  );
  button.dataset.id = image.image_id;
  button.addEventListener("click", () => session.open({ id: image.image_id }));
  return element("li", {}, button);
}

async function showPage(start) {
  const page = await attempt(() => api.images(start, PAGE));
  if (!page) return;
  ({ offset, total } = page);
  const last = offset + page.images.length;
  byId("archive-range").textContent = total
    ? `${(offset + 1).toLocaleString("en")}–${last.toLocaleString("en")} of ${total.toLocaleString("en")}`
    : "empty";
  byId("archive-previous").disabled = offset === 0;
  byId("archive-next").disabled = last >= total;
  byId("filmstrip").replaceChildren(...page.images.map(item));
  byId("filmstrip").scrollLeft = 0;
}

export async function start() {
  byId("archive").hidden = byId("empty-archive").hidden = false;
  byId("archive-previous").addEventListener("click", () => showPage(Math.max(0, offset - PAGE)));
  byId("archive-next").addEventListener("click", () => showPage(offset + PAGE));
  session.on("opened", () => {
    for (const button of document.querySelectorAll("#filmstrip .film")) {
      button.classList.toggle("open", session.isOpen(button.dataset.id));
    }
  });
  await showPage(0);
}
