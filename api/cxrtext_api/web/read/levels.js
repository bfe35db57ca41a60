// Window and level of a picture, on its own values: those of an 8-bit picture, or of a deeper film.

const EIGHT_BITS = {
  slope: 1, intercept: 0, inverted: false,
  windows: [{ name: "Whole range", level: 128, width: 256, function: "LINEAR" }],
};

/** Presets for radiographs, in 256ths of the first window; "auto" is measured from the picture. */
const RADIOGRAPHS = [
  { name: "auto", title: "Automatic" },
  { name: "contrast", title: "High contrast", width: 150, level: 128 },
  { name: "lungs", title: "Lungs", width: 150, level: 85 },
  { name: "mediastinum", title: "Mediastinum", width: 130, level: 180 },
];

/** What the values of a picture mean, the bounds of its windows, and its presets, the first one shown. */
export function scaleOf({ values = [], said = {} }) {
  const deep = Boolean(said.values);
  const { slope, intercept, inverted, windows } = said.values ?? EIGHT_BITS;
  const range = (of, first) => values.reduce((found, value) => of(found, value), first);
  const [least, top] = deep ? [range(Math.min, Infinity), range(Math.max, 0)] : [0, 255];
  const [low, high] = [least, top].map((value) => slope * value + intercept).sort((one, other) => one - other);
  const [first, ...others] = windows.map((one, at) => ({
    ...one, name: `own-${at}`, title: one.name || (windows.length > 1 ? `Window ${at + 1}` : "As read"),
  }));
  const unit = first.width / 256;
  const step = unit >= 1 ? 1 : 10 ** Math.floor(Math.log10(unit));
  const whole = { name: "whole", title: "Whole range", width: high - low + step, level: (low + high + step) / 2, function: "LINEAR" };
  const scale = {
    deep, slope, intercept, inverted, top, step,
    width: [2 * step, Math.max(first.width, whole.width)],
    level: [Math.min(low, first.level - first.width / 2), Math.max(high, first.level + first.width / 2 - unit)],
  };
  const asFirst = ({ width, level, ...one }) => (width ? {
    ...first, ...one, width: width * unit, level: first.level + (inverted ? 128 - level : level - 128) * unit,
  } : one);
  scale.presets = [first, ...RADIOGRAPHS.map(asFirst), ...(deep ? [whole] : []), ...others]
    .map((one) => (one.width ? { ...one, ...bounded(scale, one) } : one));
  return scale;
}

const rounded = (value, step) => Number((Math.round(value / step) * step).toPrecision(12));

/** A window that the sliders can show. */
export function bounded({ width: [narrow, wide], level: [low, high], step }, { width, level }) {
  return {
    width: rounded(Math.min(Math.max(width, narrow), wide), step),
    level: rounded(Math.min(Math.max(level, low), high), step),
  };
}

/** Share of white of a value, by the functions of DICOM PS3.3 C.11.2.1 or by a look-up table. */
function shareOf(value, { width, level, function: kind, curve }) {
  const place = (value - level) / width;
  if (curve) {
    const at = Math.min(Math.max((place + 0.5) * (curve.length - 1), 0), curve.length - 1);
    const before = Math.floor(at);
    return (curve[before] + (at - before) * ((curve[before + 1] ?? curve[before]) - curve[before])) / 255;
  }
  if (kind === "SIGMOID") return 1 / (1 + Math.exp(-4 * place));
  if (kind === "LINEAR" && width > 1) return (value - level + 0.5) / (width - 1) + 0.5;
  return place + 0.5;
}

/** The gray that each value is shown as. */
export function table({ slope, intercept, inverted, top }, window, invert) {
  const shown = new Uint8ClampedArray(top + 1);
  for (let value = 0; value <= top; value += 1) {
    const gray = 255 * shareOf(slope * value + intercept, window);
    shown[value] = invert !== inverted ? 255 - gray : gray;
  }
  return shown;
}

/** The window between the values below and above which one per cent of a picture lies. */
export function automatic({ slope, intercept, top }, values) {
  const counts = new Uint32Array(top + 1);
  for (const value of values) counts[value] += 1;
  const share = values.length / 100;
  const from = (first, step) => {
    let value = first;
    for (let passed = counts[value]; passed <= share; passed += counts[value]) value += step;
    return value;
  };
  const [low, high] = [from(0, 1), from(top, -1)];
  const level = (slope * (low + high)) / 2 + intercept;
  return { width: Math.abs(slope) * (high - low + 1), level, function: "LINEAR", curve: undefined };
}

/** Fill a picture with values as a table shows them. */
export function shade(picture, values, shown) {
  const pixels = new Uint32Array(picture.data.buffer);
  const packed = Uint32Array.from(shown, (v) => (0xff000000 | (v << 16) | (v << 8) | v) >>> 0);
  for (let i = 0; i < values.length; i += 1) pixels[i] = packed[values[i]];
}
