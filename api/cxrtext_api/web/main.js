// Starts the page: waits for the model, then shows what there is.

import * as api from "./api.js";
import * as archive from "./archive.js";
import { byId, clearError, plural, showError } from "./dom.js";
import * as findings from "./findings.js";
import * as key from "./key.js";
import * as locate from "./locate.js";
import * as report from "./report.js";
import * as search from "./search.js";
import * as session from "./session.js";
import * as stage from "./stage.js";
import * as tabs from "./tabs.js";

const WAIT = 1500;

const pause = () => new Promise((resolve) => { setTimeout(resolve, WAIT); });

async function whenReady() {
  for (;;) {
    try {
      await api.ready();
      return;
    } catch (error) {
      byId("facts").textContent = error.status === 503 ? error.message : "No connection.";
    }
    await pause();
  }
}

function showFacts(model) {
  const parts = [`Model ${model.model.slice(0, 8)}`];
  parts.push(model.has_index ? plural(model.images, "image") : "no index");
  if (model.sentences) parts.push(plural(model.sentences, "sentence"));
  byId("facts").textContent = parts.join(" · ");
}

async function start() {
  tabs.start();
  key.start();
  byId("alert-close").addEventListener("click", clearError);
  for (const part of [stage, findings, locate, search, report]) part.start();
  await whenReady();
  try {
    const model = await api.model();
    session.current.model = model;
    showFacts(model);
    search.showAvailable(model.has_index);
    if (model.has_index) await archive.start();
    document.body.dataset.state = "ready";
  } catch (error) {
    byId("facts").textContent = "";
    showError(error.message);
  }
}

start();
