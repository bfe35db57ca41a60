// The image on its canvas, with the heatmap, the boxes and the peak over it.

import { DEFAULT_MAP, paint } from "../lib/colormap.js";
import { automatic, bounded, graysOf, PRESETS, shade, table, WHOLE } from "./levels.js";

const BOX = "rgb(64, 224, 255)";
const SHADOW = "rgba(0, 0, 0, 0.75)";
export const MAX_ZOOM = 12;

const isSame = (one, other) => Object.keys(one).every((name) => one[name] === other[name]);

export class Viewer {
  /** `onChange` is called with the viewer after each drawing. */
  constructor(stage, onChange) {
    const [canvas, peak] = [stage.querySelector("canvas"), stage.querySelector(".peak")];
    Object.assign(this, { stage, canvas, peak, onChange });
    this.overlay = { heat: true, boxes: true, opacity: 0.6, map: DEFAULT_MAP };
    this.picture = null;
    this.pending = false;
    this.reset();
    new ResizeObserver(() => this.draw()).observe(stage);
  }

  /** Show a picture; what was found in the former image goes. */
  setImage(bitmap) {
    const { width, height } = bitmap;
    const canvas = Object.assign(document.createElement("canvas"), { width, height });
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.drawImage(bitmap, 0, 0);
    const grays = graysOf(context, width, height);
    this.picture = { canvas, context, grays, pixels: context.createImageData(width, height) };
    this.found = null;
    this.reset();
  }

  /** Show no picture. */
  clear() {
    this.picture = null;
    this.found = null;
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
    this.window = bounded({ ...this.window, ...window });
    this.shade();
  }

  setPreset(name) {
    const { width, level } = PRESETS.find((preset) => preset.name === name);
    if (width) this.setWindow({ width, level });
    else if (this.picture) this.setWindow(automatic(this.picture.grays));
  }

  setInvert(invert) {
    this.invert = invert;
    this.shade();
  }

  /** Everything about how the image is looked at as it was at first. */
  reset() {
    this.window = { ...WHOLE };
    this.invert = false;
    this.shade();
    this.fit();
  }

  /** Look at the picture as at another viewer's: as near, at the same place, as light, as hot. */
  follow(other) {
    if (!this.picture || !other.picture) return;
    const { w: width, h: height } = other.frame();
    this.zoom = other.zoom;
    const { w, h } = this.frame();
    this.move = { x: (other.move.x * w) / width, y: (other.move.y * h) / height };
    if (other.invert !== this.invert || !isSame(other.window, this.window)) {
      this.invert = other.invert;
      this.setWindow(other.window);
    }
    if (!isSame(other.overlay, this.overlay)) this.setOverlay(other.overlay);
    this.moveBy(0, 0);
  }

  fit() {
    this.zoom = 1;
    this.move = { x: 0, y: 0 };
    this.draw();
  }

  shade() {
    if (!this.picture) return;
    const { context, grays, pixels } = this.picture;
    shade(pixels, grays, table(this.window, this.invert));
    context.putImageData(pixels, 0, 0);
    this.draw();
  }

  /** Where the picture lies on the stage, in CSS pixels. */
  frame() {
    const { clientWidth: width, clientHeight: height } = this.stage;
    const { canvas } = this.picture;
    const fitting = Math.min(width / canvas.width, height / canvas.height);
    const w = canvas.width * fitting * this.zoom;
    const h = canvas.height * fitting * this.zoom;
    return { x: (width - w) / 2 + this.move.x, y: (height - h) / 2 + this.move.y, w, h };
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
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.imageSmoothingQuality = "high";
    const frame = this.frame();
    context.drawImage(this.picture.canvas, frame.x, frame.y, frame.w, frame.h);
    if (this.found) this.drawFound(context, frame);
  }

  /** What the model saw: outside it there is no heat because nothing was looked at. */
  drawFrame(context, box) {
    context.setLineDash([3, 5]);
    context.lineWidth = 1;
    context.strokeStyle = "rgba(255, 255, 255, 0.4)";
    context.strokeRect(...box);
    context.setLineDash([]);
  }

  drawFound(context, frame) {
    const { found, overlay } = this;
    const scale = frame.w / found.width;
    const place = ([x, y, w, h]) => [frame.x + x * scale, frame.y + y * scale, w * scale, h * scale];
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
    const [x, y] = place([...found.peak, 0, 0]);
    this.peak.hidden = false;
    this.peak.style.left = `${x}px`;
    this.peak.style.top = `${y}px`;
  }
}
