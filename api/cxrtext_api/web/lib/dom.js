// Small tools for building the page. Text always becomes text, never markup.

export const byId = (id) => document.getElementById(id);

/** An element with properties and children; a string child becomes text, null is left out. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("aria-") || name === "role") made.setAttribute(name, value);
    else if (name === "data") Object.assign(made.dataset, value);
    else made[name] = value;
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** A button that does something. */
export function button(text, onClick, properties = {}) {
  const made = element("button", { type: "button", ...properties }, text);
  made.addEventListener("click", onClick);
  return made;
}

/** `count` gray shapes in place of what is on its way. */
export const skeletons = (tag, className, count) =>
  Array.from({ length: count }, () =>
    element(tag, { className: `skeleton ${className}`, "aria-hidden": "true" }));

export const whole = (count) => count.toLocaleString("en");

export const plural = (count, one, many = `${one}s`) =>
  `${whole(count)} ${count === 1 ? one : many}`;

/** The day on which a film was taken, as its metadata has it: a date, or a year alone; else "". */
export const dayOf = ({ metadata = {} }) =>
  (metadata.date ?? metadata.acquired?.slice(0, 10) ?? "").replace(/^(\d{4})(\d\d)(\d\d)$/, "$1-$2-$3");

/** The lines of a text that are not empty. */
export const linesOf = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);

/** Sentences by the section of the report that they stand in: [section, sentences] each. */
export function sectionsOf(sentences) {
  const sections = new Map();
  for (const one of sentences) {
    sections.set(one.section, [...(sections.get(one.section) ?? []), one]);
  }
  return [...sections];
}

/** The same as lists under headings, with a row for each sentence. */
export const reportOf = (sentences, row) => sectionsOf(sentences).map(([section, some]) =>
  element("section", { className: "report-section" }, section ? element("h3", {}, section) : null,
    element("ol", { className: "lines" }, ...some.map(row))));

/** Give the arrow keys, Home and End of a list to its buttons, in so many columns; others stay. */
export function moveAmong(event, all, columns = 0) {
  const at = all.indexOf(event.target);
  const to = {
    ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1,
    ...(columns ? { ArrowDown: at + columns, ArrowUp: at - columns } : {}),
  }[event.key];
  if (at < 0 || to === undefined) return null;
  event.preventDefault();
  const next = all[Math.min(Math.max(to, 0), all.length - 1)];
  next.focus();
  return next;
}

/** A score with a real minus sign, so that columns of numbers line up. */
export const score = (value, digits = 2) => value.toFixed(digits).replace("-", "−");

/** Resolves after some milliseconds; rejects when the signal ends first. */
export function wait(milliseconds, signal = undefined) {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(new DOMException("no longer wanted", "AbortError"));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, milliseconds);
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}

/** A function that runs `work` once it has not been called for a while. */
export function settled(work, milliseconds) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), milliseconds);
  };
}

let pressed = false;
let waiting = [];

for (const [event, down] of [["pointerdown", true], ["pointerup", false], ["pointercancel", false]]) {
  window.addEventListener(event, () => {
    pressed = down;
    if (down || waiting.length === 0) return;
    const ready = waiting;
    waiting = [];
    // After the click, which follows when a button is let go.
    setTimeout(() => ready.forEach((work) => work()), 0);
  }, true);
}

/**
 * Run `work` at once, or when the button or finger that is down is let go: what is being pressed
 * must not move away before that, or the press is lost.
 */
export function whenReleased(work) {
  if (pressed) waiting.push(work);
  else work();
}

/** Enter sends a form from a text area; Shift with Enter starts a line. */
export function sendOnEnter(field) {
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    field.form.requestSubmit();
  });
}

/** Offer text, or a blob, as a file to save. */
export function save(name, content, kind) {
  const url = URL.createObjectURL(new Blob([content], { type: kind }));
  const link = element("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
