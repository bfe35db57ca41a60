// Window and level of an 8-bit picture.

export const WHOLE = { width: 256, level: 128 };

/** Presets for radiographs; "auto" is measured from the picture. */
export const PRESETS = [
  { name: "whole", title: "Whole range", ...WHOLE },
  { name: "auto", title: "Automatic" },
  { name: "contrast", title: "High contrast", width: 150, level: 128 },
  { name: "lungs", title: "Lungs", width: 150, level: 85 },
  { name: "mediastinum", title: "Mediastinum", width: 130, level: 180 },
];

const MIN_WIDTH = 2;

/** A window that the sliders can show. */
export const bounded = ({ width, level }) => ({
  width: Math.round(Math.min(Math.max(width, MIN_WIDTH), 256)),
  level: Math.round(Math.min(Math.max(level, 0), 255)),
});

/** The gray that each of the 256 grays is shown as. */
export function table({ width, level }, invert) {
  const shown = new Uint8ClampedArray(256);
  const low = level - width / 2;
  for (let gray = 0; gray < 256; gray += 1) {
    const value = width >= 256 && level === 128 ? gray : (255 * (gray - low)) / width;
    shown[gray] = invert ? 255 - value : value;
  }
  return shown;
}

/** The window between the grays below and above which one per cent of a picture lies. */
export function automatic(grays) {
  const counts = new Uint32Array(256);
  for (const gray of grays) counts[gray] += 1;
  const share = grays.length / 100;
  const from = (order) => {
    let passed = 0;
    return order.find((gray) => (passed += counts[gray]) > share);
  };
  const all = Array.from({ length: 256 }, (_, gray) => gray);
  const [low, high] = [from(all), from(all.toReversed())];
  return bounded({ width: high - low + 1, level: (low + high) / 2 });
}

/** One number a pixel of a gray picture. */
export function graysOf(context, width, height) {
  const { data } = context.getImageData(0, 0, width, height);
  const grays = new Uint8Array(width * height);
  for (let i = 0; i < grays.length; i += 1) grays[i] = data[4 * i];
  return grays;
}

/** Fill a picture with grays as a table shows them. */
export function shade(picture, grays, shown) {
  const pixels = new Uint32Array(picture.data.buffer);
  const packed = Uint32Array.from(shown, (v) => (0xff000000 | (v << 16) | (v << 8) | v) >>> 0);
  for (let i = 0; i < grays.length; i += 1) pixels[i] = packed[grays[i]];
}
