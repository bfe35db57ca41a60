// Saves all results of a search as a table.

import * as api from "../lib/api.js";
import { byId, plural, save } from "../lib/dom.js";
import { attempt } from "../lib/notices.js";
import * as query from "./query.js";

const BROKEN = /\n# broken off[^\n]*\n$/;

let exporting = null;

/** Show that this many images are being exported; null for no export. */
function show(total) {
  byId("export-progress").textContent = total === null ? "" : `Exporting ${plural(total, "image")}…`;
  byId("export").textContent = exporting ? "Cancel export" : "Export table";
}

/** The whole table as a blob, which the browser may keep on disk. Throws if it is incomplete. */
async function everything(asked, signal) {
  const { total, table } = await api.exported(asked.source, query.fieldsOf(asked, 0, ""), signal);
  show(total);
  const content = await table().catch((error) => (signal.aborted ? Promise.reject(error) : null));
  if (content === null || BROKEN.test(await content.slice(-200).text())) {
    throw new Error(`The export stopped and nothing was saved: not all of ` +
      `${plural(total, "image")} came. Export again.`);
  }
  return content;
}

/** Save the table for the query that `asked` returns; a second press stops. */
export function start(asked) {
  byId("export").addEventListener("click", async () => {
    if (exporting) {
      exporting.abort();
      return;
    }
    exporting = new AbortController();
    show(null);
    const table = await attempt(() => everything(asked(), exporting.signal));
    exporting = null;
    show(null);
    if (table) save("cohort.csv", table);
  });
}
