// Window and level: the gray values shown from black to white.

/** Windows for radiographs; "auto" is measured from the picture. */
export const PRESETS = [
  { name: "whole", title: "Whole range", width: 256, level: 128 },
  { name: "auto", title: "Automatic" },
  { name: "contrast", title: "High contrast", width: 150, level: 128 },
  { name: "lungs", title: "Lungs", width: 150, level: 85 },
  { name: "mediastinum", title: "Mediastinum", width: 130, level: 180 },
];

const clamp = (value, low, high) => Math.min(Math.max(Math.round(value), low), high);

/** A window limited to the range of gray values. */
export const bounded = ({ width, level }) =>
  ({ width: clamp(width, 2, 256), level: clamp(level, 0, 255) });

/** The window between a picture's first and 99th percentile. */
export function automatic(values) {
  const counts = new Uint32Array(256);
  for (const value of values) counts[value] += 1;
  const share = values.length / 100;
  const from = (first, step) => {
    let value = first;
    for (let passed = counts[value]; passed <= share; passed += counts[value]) value += step;
    return value;
  };
  const [low, high] = [from(0, 1), from(255, -1)];
  return { width: high - low + 1, level: (low + high) / 2 };
}

/** Fill pixels with gray values through a window. */
export function shade(picture, values, { width, level }, invert) {
  const shown = Uint8ClampedArray.from({ length: 256 }, (_, value) => {
    const gray = 255 * ((value - level + 0.5) / (width - 1) + 0.5);
    return invert ? 255 - gray : gray;
  });
  const packed = Uint32Array.from(shown, (v) => (0xff000000 | (v << 16) | (v << 8) | v) >>> 0);
  const pixels = new Uint32Array(picture.data.buffer);
  for (let i = 0; i < values.length; i += 1) pixels[i] = packed[values[i]];
}
