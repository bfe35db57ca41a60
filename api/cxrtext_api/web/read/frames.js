// The frames of a film that has several, each asked about for itself.

import { byId } from "../lib/dom.js";
import { bind } from "../lib/keys.js";
import * as session from "../lib/session.js";

export function start(active) {
  const at = () => session.current.source?.frame ?? 0;
  const count = () => active().picture?.said.frames ?? 1;
  const step = async (by) => {
    const frame = at() + by;
    if (frame < 0 || frame >= count()) return;
    const view = { ...active().view(), found: null };
    await session.open({ ...session.current.source, frame });
    if (active().picture && at() === frame) active().showAs(view);
  };
  for (const event of ["opened", "closed"]) {
    session.on(event, () => {
      byId("frames").hidden = count() === 1;
      byId("frame").textContent = `Frame ${at() + 1} of ${count()}`;
      byId("frame-previous").disabled = at() === 0;
      byId("frame-next").disabled = at() === count() - 1;
    });
  }
  byId("frame-previous").addEventListener("click", () => step(-1));
  byId("frame-next").addEventListener("click", () => step(1));
  const when = () => count() > 1;
  bind("Film", "read", [
    { keys: ["PageUp"], does: "The frame before", near: ".viewer", run: () => step(-1), when },
    { keys: ["PageDown"], does: "The frame after", near: ".viewer", run: () => step(1), when },
  ]);
}
