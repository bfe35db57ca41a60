// The image on its canvas, with the heatmap, the boxes and the peak over it.

import { DEFAULT_MAP, paint } from "../lib/colormap.js";
import { automatic, bounded, scaleOf, shade, table } from "./levels.js";

const BOX = "rgb(64, 224, 255)";
const SHADOW = "rgba(0, 0, 0, 0.75)";
export const MAX_ZOOM = 12;

const isSame = (one, other) => JSON.stringify(one) === JSON.stringify(other);

export class Viewer {
  /** `onChange` is called with the viewer after each drawing. */
  constructor(stage, onChange) {
    const [canvas, peak] = [stage.querySelector("canvas"), stage.querySelector(".peak")];
    Object.assign(this, { stage, canvas, peak, onChange });
    this.overlay = { heat: true, boxes: true, opacity: 0.6, map: DEFAULT_MAP };
    this.layers = []; // functions of the canvas' context and this viewer, drawn over all else
    this.pending = false;
    this.clear();
    new ResizeObserver(() => (stage.clientWidth && this.moveBy(0, 0), this.draw())).observe(stage);
  }

  /** Show a picture; what was found in the former image goes. */
  setImage(film) {
    const { width, height } = film;
    const canvas = Object.assign(document.createElement("canvas"), { width, height });
    const context = canvas.getContext("2d");
    this.take({ ...film, canvas, context, pixels: context.createImageData(width, height) });
  }

  /** Show no picture. */
  clear() {
    this.take(null);
  }

  take(picture) {
    this.picture = picture;
    this.scale = scaleOf(picture ?? {});
    this.found = this.line = null; // line: the ends of the ruler
    this.reset();
  }

  /** Show a grounding (null for none). */
  setFound(found) {
    this.found = found;
    this.heat = found && paint(found, { map: found.map ?? this.overlay.map });
    this.draw();
  }

  setOverlay(options) {
    const { map } = this.overlay;
    Object.assign(this.overlay, options);
    if (this.overlay.map !== map && this.found) this.setFound(this.found);
    this.draw();
  }

  setWindow(window) {
    const given = { ...this.window, ...window };
    this.window = { ...given, ...bounded(this.scale, given) };
    this.shade();
  }

  /** What a key or a drag counts in: values of an 8-bit picture, shares of the window of a deeper one. */
  get unit() {
    return this.scale.deep ? Math.max(this.scale.step, this.window.width / 256) : 1;
  }

  setPreset(name) {
    const preset = this.scale.presets.find((one) => one.name === name);
    if (preset?.width) this.setWindow({ curve: undefined, ...preset });
    else if (preset && this.picture) this.setWindow(automatic(this.scale, this.picture.values));
  }

  setInvert(invert) {
    this.invert = invert;
    this.shade();
  }

  /** Everything about how the image is looked at as it was at first. */
  reset() {
    this.invert = false;
    this.turn = { flip: false, quarter: 0 }; // turned clockwise, then flipped from left to right
    this.setPreset(this.scale.presets[0].name);
    this.fit();
  }

  fit() {
    this.zoom = 1;
    this.move = { x: 0, y: 0 };
    this.draw();
  }

  shade() {
    if (!this.picture) return;
    const { context, values, pixels } = this.picture;
    shade(pixels, values, table(this.scale, this.window, this.invert));
    context.putImageData(pixels, 0, 0);
    this.draw();
  }

  /** Where the picture lies on the stage, in CSS pixels. */
  frame() {
    const { clientWidth: width, clientHeight: height } = this.stage;
    const { picture, turn } = this;
    const size = [picture.width, picture.height];
    const [across, down] = turn.quarter % 2 ? size.toReversed() : size;
    const fitting = Math.min(width / across, height / down);
    const w = across * fitting * this.zoom;
    const h = down * fitting * this.zoom;
    return { x: (width - w) / 2 + this.move.x, y: (height - h) / 2 + this.move.y, w, h };
  }

  /** How the picture, as large as on the stage but upright at its corner, comes to its place. */
  placing() {
    const { x, y, w, h } = this.frame();
    const { flip, quarter } = this.turn;
    const [width, height] = quarter % 2 ? [h, w] : [w, h];
    const matrix = new DOMMatrix().translate(x + w / 2, y + h / 2).scale(flip ? -1 : 1, 1)
      .rotate(90 * quarter).translate(-width / 2, -height / 2);
    return { matrix, width, height };
  }

  /** Where a place of the picture, in shares of its sides, is seen on the stage, and back. */
  toStage([across, down]) {
    const { matrix, width, height } = this.placing();
    return matrix.transformPoint({ x: across * width, y: down * height });
  }

  toPicture(point) {
    const { matrix, width, height } = this.placing();
    const { x, y } = matrix.inverse().transformPoint(point);
    return [x / width, y / height].map((share) => Math.min(Math.max(share, 0), 1));
  }

  /** Turn or flip what is seen; scores and coordinates stay those of the film as it is stored. */
  turnBy({ quarter = 0, flip = false }) {
    const before = this.turn;
    const turned = before.quarter + (before.flip ? -quarter : quarter);
    this.turn = { flip: before.flip !== flip, quarter: (turned + 4) % 4 };
    this.fit();
  }

  /** How the picture is looked at, as another viewer of any size can show it. */
  view() {
    const { window, invert, turn, zoom, overlay, found, line } = this;
    const { w, h } = this.picture ? this.frame() : { w: 1, h: 1 };
    const move = { x: this.move.x / w, y: this.move.y / h };
    return { window, invert, turn, zoom, overlay, found, line, move };
  }

  showAs({ move, found = this.found, ...view }) {
    const isAlike = isSame([found, view.overlay], [this.found, this.overlay]);
    const isShaded = isSame([view.window, view.invert], [this.window, this.invert]);
    Object.assign(this, view);
    if (!isAlike) this.setFound(found);
    const { w, h } = this.frame();
    this.move = { x: move.x * w, y: move.y * h };
    this.moveBy(0, 0);
    if (!isShaded) this.shade();
  }

  /** Magnify about a place of the stage. */
  zoomBy(factor, at) {
    if (!this.picture) return;
    const place = at ?? { x: this.stage.clientWidth / 2, y: this.stage.clientHeight / 2 };
    const before = this.frame();
    const zoom = Math.min(Math.max(this.zoom * factor, 1), MAX_ZOOM);
    const ratio = zoom / this.zoom;
    this.zoom = zoom;
    const center = { x: before.x + before.w / 2, y: before.y + before.h / 2 };
    this.moveBy((center.x - place.x) * (ratio - 1), (center.y - place.y) * (ratio - 1));
  }

  /** Move the picture, but not off the stage. */
  moveBy(x, y) {
    if (!this.picture) return;
    const { w, h } = this.frame();
    const bound = (value, extent, all) => {
      const room = Math.max(0, (extent - all) / 2);
      return Math.min(Math.max(value, -room), room);
    };
    this.move.x = bound(this.move.x + x, w, this.stage.clientWidth);
    this.move.y = bound(this.move.y + y, h, this.stage.clientHeight);
    this.draw();
  }

  /** Draw before the next frame, once for any number of changes. */
  draw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.drawNow();
      this.onChange(this);
    });
  }

  drawNow() {
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = this.stage;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.peak.hidden = true;
    if (!this.picture || !width) return;
    const context = this.canvas.getContext("2d");
    const { matrix, width: w, height: h } = this.placing();
    context.setTransform(new DOMMatrix().scale(ratio).multiply(matrix));
    context.imageSmoothingQuality = "high";
    context.drawImage(this.picture.canvas, 0, 0, w, h);
    if (this.found) this.drawFound(context, w, matrix);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    for (const draw of this.layers) draw(context, this);
  }

  /** What the model saw: outside it there is no heat because nothing was looked at. */
  drawFrame(context, box) {
    context.setLineDash([3, 5]);
    context.lineWidth = 1;
    context.strokeStyle = "rgba(255, 255, 255, 0.4)";
    context.strokeRect(...box);
    context.setLineDash([]);
  }

  drawFound(context, shownWidth, matrix) {
    const { found, overlay } = this;
    const scale = shownWidth / found.width;
    const place = (box) => box.map((side) => side * scale);
    if (overlay.heat) {
      context.globalAlpha = overlay.opacity;
      context.drawImage(this.heat, ...place(found.region));
      context.globalAlpha = 1;
    }
    if (!overlay.boxes) return;
    this.drawFrame(context, place(found.region));
    // A best region there always is; where nothing stands out it says nothing.
    if (found.stands_out === false) return;
    for (const [style, width] of [[SHADOW, 4], [BOX, 1.75]]) {
      context.strokeStyle = style;
      context.lineWidth = width;
      for (const box of found.boxes) context.strokeRect(...place(box.bbox));
    }
    const [across, down] = place(found.peak);
    const { x, y } = matrix.transformPoint({ x: across, y: down });
    this.peak.hidden = false;
    this.peak.style.left = `${x}px`;
    this.peak.style.top = `${y}px`;
  }
}
