// The pixels of a film, as plain data that another window can be given, too.

import { rendered } from "./api.js";

const SIDE = 1536;
const KINDS = "application/octet-stream, image/png;q=0.9";

function graysOf(bitmap) {
  const { width, height } = bitmap;
  const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  context.drawImage(bitmap, 0, 0);
  const { data } = context.getImageData(0, 0, width, height);
  const grays = new Uint8Array(width * height);
  for (let i = 0; i < grays.length; i += 1) grays[i] = data[4 * i];
  return grays;
}

/** The values of a film, row by row, [width, height] of them; said: what the server says of it. */
export async function read(source, signal) {
  const response = await rendered(source, SIDE, signal, KINDS);
  const said = JSON.parse(response.headers.get("X-Viewing") ?? "{}");
  if (said.values) {
    const [width, height] = said.shown;
    return { width, height, said, values: new Uint16Array(await response.arrayBuffer()) };
  }
  const bitmap = await createImageBitmap(await response.blob());
  return { width: bitmap.width, height: bitmap.height, said, values: graysOf(bitmap) };
}
