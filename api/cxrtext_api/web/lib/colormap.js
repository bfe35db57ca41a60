// The heatmap's colors, the same as in the library's pictures.

// "inferno" of matplotlib (CC0) at nine evenly spaced places.
const STOPS = [
  [0, 0, 4], [33, 12, 74], [87, 16, 110], [138, 34, 106], [188, 55, 84],
  [228, 90, 49], [249, 142, 9], [249, 203, 53], [252, 255, 164],
];

/** Color of a level in [0, 1]. */
function color(level) {
  const place = level * (STOPS.length - 1);
  const before = Math.min(Math.floor(place), STOPS.length - 2);
  const share = place - before;
  return STOPS[before].map((low, i) => Math.round(low + (STOPS[before + 1][i] - low) * share));
}

/**
 * The two scores between which a grid is colored: the sentence's own limits, the same for
 * every image. Without comparison images these are the mean and the maximum of the grid.
 */
export function range({ grid, limits = null }) {
  if (limits) return limits;
  const values = grid.flat();
  return [values.reduce((sum, value) => sum + value, 0) / values.length, Math.max(...values)];
}

/** A value between the centers of the grid's cells; x and y in [0, 1]. */
function sample(grid, x, y) {
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

/** A grounding's map as a smooth picture; low scores are transparent. */
export function paint(found, side = 256) {
  const { grid, shift = 0 } = found; // how far the grid lies to the left and up
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = side;
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(side, side);
  const [low, high] = range(found);
  const span = high > low ? high - low : Infinity;
  for (let row = 0; row < side; row += 1) {
    for (let column = 0; column < side; column += 1) {
      const [x, y] = [(column + 0.5) / side + shift, (row + 0.5) / side + shift];
      const level = Math.min(Math.max((sample(grid, x, y) - low) / span, 0), 1);
      const at = 4 * (row * side + column);
      pixels.data.set([...color(level), Math.round(255 * level ** 1.5)], at);
    }
  }
  context.putImageData(pixels, 0, 0);
  return canvas;
}
