// Small tools for building the page. Text always becomes text, never markup.

export const byId = (id) => document.getElementById(id);

/** An element with properties and children; a string child becomes text. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("aria-") || name === "role") made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export const plural = (count, one, many = `${one}s`) =>
  `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

/** A score with a real minus sign, so that columns of numbers line up. */
export const score = (value, digits = 2) => value.toFixed(digits).replace("-", "−");

export function showError(text) {
  byId("alert-text").textContent = text;
  byId("alert").hidden = false;
}

export function clearError() {
  byId("alert").hidden = true;
  byId("alert-text").textContent = "";
}

/** Run something that talks to the server; tell its failure in one line. */
export async function attempt(work) {
  try {
    return await work();
  } catch (error) {
    if (error.name !== "AbortError") showError(error.message);
    return undefined;
  }
}
