// The heatmap's colors; those of "inferno" are also in the pictures that the library draws.

// Perceptually uniform maps of matplotlib (CC0) at nine evenly spaced places.
const MAPS = {
  inferno: [
    [0, 0, 4], [33, 12, 74], [87, 16, 110], [138, 34, 106], [188, 55, 84],
    [228, 90, 49], [249, 142, 9], [249, 203, 53], [252, 255, 164],
  ],
  viridis: [
    [68, 1, 84], [71, 45, 123], [59, 82, 139], [44, 114, 142], [33, 145, 140],
    [40, 174, 128], [94, 201, 98], [173, 220, 48], [253, 231, 37],
  ],
  cividis: [
    [0, 34, 78], [26, 56, 111], [67, 78, 108], [97, 101, 111], [125, 124, 120],
    [155, 148, 118], [188, 174, 108], [222, 201, 88], [254, 232, 56],
  ],
  difference: [
    [20, 90, 255], [40, 120, 255], [90, 155, 255], [150, 195, 255], [240, 240, 240],
    [255, 200, 140], [255, 165, 80], [255, 130, 30], [255, 95, 0],
  ],
};

export const DEFAULT_MAP = "inferno";
/** Blue for less and orange for more, with nothing between. */
export const DIFFERENCE = "difference";

const clip = (level) => Math.min(Math.max(level, 0), 1);

/** Color of a level in [0, 1]. */
export function color(level, map = DEFAULT_MAP) {
  const stops = MAPS[map];
  const place = clip(level) * (stops.length - 1);
  const before = Math.min(Math.floor(place), stops.length - 2);
  const share = place - before;
  return stops[before].map((low, i) => Math.round(low + (stops[before + 1][i] - low) * share));
}

/** Share of color of a level: cool regions, and what hardly differs, stay readable. */
export const coverage = (level, map = DEFAULT_MAP) =>
  (map === DIFFERENCE ? Math.abs(2 * clip(level) - 1) : clip(level)) ** 1.5;

/**
 * What a grid is colored between: the sentence's own limits, which are the same for every image, so
 * that one in which nothing stands out stays without color. A server that has nothing to compare
 * with gives none; then between its mean, below which nothing is drawn, and its greatest.
 */
export function range({ grid, limits = null }) {
  if (limits) return limits;
  const values = grid.flat();
  return [values.reduce((sum, value) => sum + value, 0) / values.length, Math.max(...values)];
}

/** A value between the centers of the grid's cells; x and y in [0, 1]. */
export function sample(grid, x, y) {
  const along = (place, count) => {
    const at = Math.min(Math.max(place * count - 0.5, 0), count - 1);
    const before = Math.floor(at);
    return [before, Math.min(before + 1, count - 1), at - before];
  };
  const [top, bottom, down] = along(y, grid.length);
  const [left, right, across] = along(x, grid[0].length);
  const upper = grid[top][left] * (1 - across) + grid[top][right] * across;
  const lower = grid[bottom][left] * (1 - across) + grid[bottom][right] * across;
  return upper * (1 - down) + lower * down;
}

/** The map of a grounding over its region, a smooth picture whose transparency falls with heat. */
export function paint(found, { side = 256, map = DEFAULT_MAP } = {}) {
  const { grid, shift = 0 } = found; // the grid lies that much further left and up
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = side;
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(side, side);
  const [low, high] = range(found);
  const span = high > low ? high - low : Infinity;
  for (let row = 0; row < side; row += 1) {
    for (let column = 0; column < side; column += 1) {
      const [x, y] = [(column + 0.5) / side + shift, (row + 0.5) / side + shift];
      const level = (sample(grid, x, y) - low) / span;
      const [red, green, blue] = color(level, map);
      const at = 4 * (row * side + column);
      pixels.data.set([red, green, blue, Math.round(255 * coverage(level, map))], at);
    }
  }
  context.putImageData(pixels, 0, 0);
  return canvas;
}

/** Fill the legend's bar, hot at the right. */
export function paintLegend(canvas, map) {
  const context = canvas.getContext("2d");
  for (let x = 0; x < canvas.width; x += 1) {
    context.fillStyle = `rgb(${color(x / (canvas.width - 1), map).join(",")})`;
    context.fillRect(x, 0, 1, canvas.height);
  }
}
