// The heatmap's colours, the same as in the pictures that the library draws.

// "inferno" of matplotlib (CC0) at nine evenly spaced places.
const STOPS = [
  [0, 0, 4], [31, 12, 72], [85, 15, 109], [136, 34, 106], [186, 54, 85],
  [227, 89, 51], [249, 140, 10], [249, 201, 50], [252, 255, 164],
];

/** Colour of a level in [0, 1]. */
export function colour(level) {
  const place = Math.min(Math.max(level, 0), 1) * (STOPS.length - 1);
  const before = Math.min(Math.floor(place), STOPS.length - 2);
  const share = place - before;
  return STOPS[before].map((low, i) => Math.round(low + (STOPS[before + 1][i] - low) * share));
}

/** Share of colour of a level: cool regions stay readable. */
export const coverage = (level) => Math.min(Math.max(level, 0), 1) ** 1.5;

/** What a grid is coloured between: its mean, below which nothing is drawn, and its greatest. */
export function range(grid) {
  const values = grid.flat();
  return [values.reduce((sum, value) => sum + value, 0) / values.length, Math.max(...values)];
}

/** A value between the centres of the grid's cells; x and y in [0, 1]. */
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

/** The grid as a smooth picture whose transparency falls with heat. */
export function paint(grid, side = 256) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = side;
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(side, side);
  const [low, high] = range(grid);
  const span = high > low ? high - low : Infinity;
  for (let row = 0; row < side; row += 1) {
    for (let column = 0; column < side; column += 1) {
      const level = (sample(grid, (column + 0.5) / side, (row + 0.5) / side) - low) / span;
      const [red, green, blue] = colour(level);
      pixels.data.set([red, green, blue, Math.round(255 * coverage(level))], 4 * (row * side + column));
    }
  }
  context.putImageData(pixels, 0, 0);
  return canvas;
}

/** Fill the legend's bar, hot at the top. */
export function paintLegend(canvas) {
  const context = canvas.getContext("2d");
  for (let row = 0; row < canvas.height; row += 1) {
    context.fillStyle = `rgb(${colour(1 - row / (canvas.height - 1)).join(",")})`;
    context.fillRect(0, row, canvas.width, 1);
  }
}
