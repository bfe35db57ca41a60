// Starts the page: waits for the model, then shows the views.

import * as about from "./about/about.js";
import * as api from "./lib/api.js";
import * as archive from "./search/archive.js";
import * as compare from "./read/compare.js";
import { byId, plural, wait } from "./lib/dom.js";
import * as held from "./held/held.js";
import * as findings from "./read/findings.js";
import * as key from "./lib/key.js";
import * as keys from "./lib/keys.js";
import * as locate from "./read/locate.js";
import * as notices from "./lib/notices.js";
import * as router from "./lib/router.js";
import * as search from "./search/search.js";
import * as session from "./lib/session.js";
import * as stage from "./read/stage.js";
import * as study from "./read/study.js";
import * as tabs from "./lib/tabs.js";
import * as theme from "./lib/theme.js";
import * as verify from "./read/verify.js";

const PAUSE = 1500;

async function whenReady() {
  for (;;) {
    try {
      await api.ready();
      return;
    } catch (error) {
      byId("facts").textContent = error.status === 503 ? error.message : "No connection.";
    }
    await wait(PAUSE);
  }
}

function showFacts(model) {
  const parts = [`Model ${model.model.slice(0, 8)}`];
  parts.push(model.has_index ? plural(model.images, "image") : "no index");
  if (model.sentences) parts.push(plural(model.sentences, "sentence"));
  byId("facts").textContent = parts.join(" · ");
}

/** On all views: warn if the model is at chance. */
function showWarning({ how_good: good }) {
  byId("at-chance").hidden = !good?.at_chance;
  byId("at-chance").textContent = good?.at_chance ? good.warning : "";
}

/** In place of the views: why there is nothing to show, and what to do. */
function showGate(error) {
  const wantsKey = error.status === 401;
  document.body.dataset.state = wantsKey ? "locked" : "failed";
  byId("facts").textContent = wantsKey ? "Locked" : "";
  byId("gate").hidden = false;
  byId("gate-title").textContent = wantsKey ? "This server needs a key" : "The server’s answer is not usable";
  byId("gate-text").textContent = wantsKey
    ? "Ask whoever runs this server for one."
    : error.message;
  byId("gate-button").textContent = wantsKey ? "Enter a key" : "Try again";
}

async function openImage(params) {
  const id = params.get("image");
  if (id === null) return;
  const isNew = !session.isOpen(id);
  if (isNew) await session.open({ id });
  if (!session.isOpen(id)) return;
  await compare.open(params.get("prior"));
  const sentence = params.get("say");
  if (isNew && sentence) await session.locate(sentence);
}

async function load() {
  byId("gate").hidden = true;
  document.body.dataset.state = "loading";
  byId("facts").textContent = "Connecting…";
  await whenReady();
  let model;
  try {
    model = await api.model();
  } catch (error) {
    showGate(error);
    return;
  }
  session.current.model = model;
  showFacts(model);
  showWarning(model);
  about.show(model);
  byId("fitting-body").hidden = !model.sentences;
  byId("locate-form").hidden = !(byId("sees-whole").hidden = model.says_where);
  await search.start(model.has_index);
  router.answer({ read: openImage, search: search.enter, ...held.start(model) });
  if (model.has_index) await archive.start();
  document.body.dataset.state = "ready";
}

/** Keys for all views, and those that focus a sentence field. */
function bindKeys() {
  keys.bind("Everywhere", "", ["read", "search", "about"].map((view) => ({
    keys: [view[0].toUpperCase()], names: ["Shift", view[0]], does: byId(`nav-${view}`).textContent,
    run: () => byId(`nav-${view}`).click(),
  })));
  const ask = (id) => () => byId(id).focus();
  keys.bind("Everywhere", "search", [{ keys: ["/"], does: "Ask for a sentence", run: ask("query") }]);
  const locateIt = () => { tabs.show("locate"); ask("sentence")(); };
  keys.bind("Everywhere", "read", [
    { keys: ["/"], run: locateIt },
    { keys: ["o"], does: "Open a file", run: () => byId("open").click() },
  ]);
}

function start() {
  theme.start();
  keys.start();
  bindKeys();
  notices.start();
  key.start();
  tabs.start();
  router.start();
  for (const part of [stage, compare, findings, locate, verify, study]) part.start();
  byId("gate-button").addEventListener("click", load);
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId("views").focus();
  });
  load();
}

start();
