// The pixels of a film.

import { picture } from "./api.js";

const SIDE = 1536;

/** The gray values of a film, row by row. */
export async function read(source, signal) {
  const bitmap = await createImageBitmap(await picture(source, SIDE, signal));
  const { width, height } = bitmap;
  const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  context.drawImage(bitmap, 0, 0);
  const { data } = context.getImageData(0, 0, width, height);
  const values = new Uint8Array(width * height);
  for (let i = 0; i < values.length; i += 1) values[i] = data[4 * i];
  return { width, height, values };
}
