// Thumbnails of indexed images, loaded when they scroll into view, a few at a time.

import { picture } from "./api.js";
import { dayOf, element } from "./dom.js";
import * as session from "./session.js";

const SIDE = 320;
const AT_ONCE = 4;

const waiting = [];
let loading = 0;

const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    seen.unobserve(entry.target);
    waiting.push(entry.target);
  }
  loadNext();
}, { rootMargin: "300px" });

async function load(target) {
  try {
    const url = URL.createObjectURL(await picture({ id: target.dataset.id }, SIDE));
    target.addEventListener("load", () => URL.revokeObjectURL(url), { once: true });
    target.src = url;
  } catch {
    target.closest(".thumb").classList.add("missing");
  }
}

function loadNext() {
  while (loading < AT_ONCE && waiting.length) {
    const target = waiting.shift();
    // Images of an earlier search are not loaded any more.
    if (!target.isConnected) continue;
    loading += 1;
    load(target).finally(() => {
      loading -= 1;
      loadNext();
    });
  }
}

/** A thumbnail of an indexed image; its name is shown elsewhere. */
export function thumbnail(id) {
  const shown = element("img", { alt: "", draggable: false, data: { id } });
  seen.observe(shown);
  return element("span", { className: "thumb" }, shown);
}

/** A name cut at its beginning, because names in one archive mostly begin alike. */
const tailOf = (name) => (name.length > 12 ? `…${name.slice(-11)}` : name);

/**
 * Tells an image from others of its study: day and view; if these are equal or unknown, the last
 * part of its own name; "" if the study has one image.
 */
function besideName(image, all) {
  const saidOf = (one) => [dayOf(one), one.metadata.view].filter(Boolean).join(" · ");
  const beside = all.filter((one) => one !== image && one.study_id === image.study_id);
  const isSame = beside.some((one) => saidOf(one) === saidOf(image));
  return isSame ? tailOf(image.image_id.split("/").at(-1).replace(/\.\w+$/, "")) : saidOf(image);
}

/** An indexed image, among those shown with it, as a button that opens it. */
export function film(image, _, all) {
  const beside = besideName(image, all);
  const open = element(
    "button",
    {
      type: "button",
      className: session.isOpen(image.image_id) ? "film open" : "film",
      title: image.image_id,
      "aria-label": ["Open study", image.study_id, beside, `patient ${image.patient_id}`].filter(Boolean).join(" "),
      data: { id: image.image_id },
    },
    thumbnail(image.image_id),
    element("span", { className: "film-name" }, `${tailOf(image.study_id)} `, element("span", {}, beside)),
  );
  open.addEventListener("click", () => session.open({ id: image.image_id }));
  return element("li", {}, open);
}
