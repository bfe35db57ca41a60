// Small pictures of indexed images: loaded when they come into view, a few at a time.

import { picture } from "./api.js";

const SIDE = 192;
const AT_ONCE = 3;
const REMEMBERED = 300;

const urls = new Map();
const waiting = [];
let loading = 0;

const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    seen.unobserve(entry.target);
    waiting.push(entry.target);
  }
  loadNext();
}, { rootMargin: "200px" });

function remember(id, url) {
  urls.set(id, url);
  if (urls.size > REMEMBERED) {
    const [oldest, old] = urls.entries().next().value;
    urls.delete(oldest);
    URL.revokeObjectURL(old);
  }
}

async function load(target) {
  const { id } = target.dataset;
  try {
    if (!urls.has(id)) remember(id, URL.createObjectURL(await picture({ id }, SIDE)));
    target.src = urls.get(id);
  } catch {
    target.closest(".thumb").classList.add("missing");
  }
}

function loadNext() {
  while (loading < AT_ONCE && waiting.length) {
    const target = waiting.shift();
    if (!target.isConnected) continue;
    loading += 1;
    load(target).finally(() => {
      loading -= 1;
      loadNext();
    });
  }
}

/** A picture of an indexed image; its name is told elsewhere. */
export function thumbnail(id) {
  const frame = document.createElement("span");
  frame.className = "thumb";
  const picture = document.createElement("img");
  picture.alt = "";
  picture.dataset.id = id;
  frame.append(picture);
  seen.observe(picture);
  return frame;
}
