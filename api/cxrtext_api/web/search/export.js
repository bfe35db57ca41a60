// Everything that a search finds, as a table to save.

import * as api from "../lib/api.js";
import { byId, plural, save } from "../lib/dom.js";
import { attempt } from "../lib/notices.js";
import * as query from "./query.js";

const BROKEN = /\n# broken off[^\n]*\n$/;

let exporting = null;

/** Show that there is an export of so many images; null: none. */
function show(total) {
  byId("export-progress").textContent = total === null ? "" : `Exporting ${plural(total, "image")}…`;
  byId("export").textContent = exporting ? "Cancel export" : "Export table";
}

/** The whole table as a blob, which the browser may keep on its disk. An incomplete one throws. */
async function everything(asked, signal) {
  const { total, table } = await api.exported(asked.source, query.fieldsOf(asked, 0, ""), signal);
  show(total);
  const content = await table().catch((error) => (signal.aborted ? Promise.reject(error) : null));
  if (content === null || BROKEN.test(await content.slice(-200).text())) {
    throw new Error(`The export was broken off and nothing was saved: not all of ` +
      `${plural(total, "image")} came. Export again.`);
  }
  return content;
}

/** Save the table of what `asked` gives; pressed again, stop. */
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
