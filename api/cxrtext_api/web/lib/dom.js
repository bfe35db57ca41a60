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

/** A button with its action. */
export function button(text, onClick, properties = {}) {
  const made = element("button", { type: "button", ...properties }, text);
  made.addEventListener("click", onClick);
  return made;
}

export const whole = (count) => count.toLocaleString("en");

export const plural = (count, one, many = `${one}s`) =>
  `${whole(count)} ${count === 1 ? one : many}`;

/** A share in per cent; almost none and almost all are not rounded to 0 and 100. */
export function percent(share) {
  if (share > 0 && share < 0.01) return "< 1 %";
  if (share < 1 && share > 0.99) return "> 99 %";
  return `${Math.round(100 * share)} %`;
}

/** A number with a real minus sign, so that columns of numbers line up. */
export const score = (value, digits = 2) => value.toFixed(digits).replace("-", "−");

/** The date or year of a film from its metadata; else "". */
export const dayOf = ({ metadata = {} }) =>
  (metadata.date ?? metadata.acquired?.slice(0, 10) ?? "").replace(/^(\d{4})(\d\d)(\d\d)$/, "$1-$2-$3");

/** The non-empty lines of a text. */
export const linesOf = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);

/** Sentences by section of the report: [section, sentences] each. */
export function sectionsOf(sentences) {
  const sections = new Map();
  for (const one of sentences) {
    sections.set(one.section, [...(sections.get(one.section) ?? []), one]);
  }
  return [...sections];
}

/** Sections as headed lists, with one row a sentence. */
export const reportOf = (sentences, row) => sectionsOf(sentences).map(([section, some]) =>
  element("section", { className: "report-section" }, section ? element("h2", {}, section) : null,
    element("ol", { className: "lines" }, ...some.map(row))));

/** A sentence as a button, with a number or word to its right. */
export function line(sentence, number, onClick, label = undefined) {
  const made = button("", onClick, { className: "line", ...(label ? { "aria-label": label } : {}) });
  made.append(
    element("span", { className: "line-text" }, sentence),
    element("span", { className: "number muted" }, number),
  );
  return made;
}

/** Move the focus between buttons by arrow keys, Home and End; `columns` is that of a grid. */
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

/** Resolves after some milliseconds; rejects if the signal aborts first. */
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

/** Enter in a text area submits its form; Shift+Enter starts a new line. */
export function sendOnEnter(field) {
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    field.form.requestSubmit();
  });
}

/** Save a blob as a file. */
export function save(name, blob) {
  const url = URL.createObjectURL(blob);
  const link = element("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
