// The image on its canvas, with the heatmap, the boxes and the peak over it.

import { paint } from "../lib/colormap.js";
import { automatic, bounded, PRESETS, shade } from "./levels.js";

const BOX = "rgb(64, 224, 255)";
const OPACITY = 0.6;
const SHADOW = "rgba(0, 0, 0, 0.75)";
export const MAX_ZOOM = 12;

export class Viewer {
  /** `onChange` is called with the viewer after each drawing. */
  constructor(stage, onChange) {
    const [canvas, peak] = [stage.querySelector("canvas"), stage.querySelector(".peak")];
    Object.assign(this, { stage, canvas, peak, onChange });
    this.overlay = { heat: true, boxes: true };
    this.pending = false;
    this.setImage(null);
    new ResizeObserver(() => (stage.clientWidth && this.moveBy(0, 0), this.draw())).observe(stage);
  }

  /** Show a picture (null for none) and remove the old grounding. */
  setImage(film) {
    this.picture = film;
    this.found = null;
    if (film) {
      const { width, height } = film;
      const canvas = Object.assign(document.createElement("canvas"), { width, height });
      const context = canvas.getContext("2d");
      this.picture = { ...film, canvas, context, pixels: context.createImageData(width, height) };
    }
    this.reset();
  }

  /** Show a grounding (null for none). */
  setFound(found) {
    this.found = found;
    this.heat = found && paint(found);
    this.draw();
  }

  setOverlay(options) {
    Object.assign(this.overlay, options);
    this.draw();
  }

  setWindow(window) {
    this.window = bounded({ ...this.window, ...window });
    this.shade();
  }

  setPreset(name) {
    const preset = PRESETS.find((one) => one.name === name);
    if (preset.width) this.setWindow(preset);
    else if (this.picture) this.setWindow(automatic(this.picture.values));
  }

  setInvert(invert) {
    this.invert = invert;
    this.shade();
  }

  /** Reset zoom, place, window and inversion. */
  reset() {
    this.invert = false;
    this.setPreset(PRESETS[0].name);
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
    shade(pixels, values, this.window, this.invert);
    context.putImageData(pixels, 0, 0);
    this.draw();
  }

  /** Where the picture lies on the stage, in CSS pixels. */
  frame() {
    const { clientWidth: width, clientHeight: height } = this.stage;
    const fitting = Math.min(width / this.picture.width, height / this.picture.height);
    const [w, h] = [this.picture.width, this.picture.height].map((side) => side * fitting * this.zoom);
    return { x: (width - w) / 2 + this.move.x, y: (height - h) / 2 + this.move.y, w, h };
  }

  /** Take over another viewer's place, zoom, window and overlay. */
  follow(leader) {
    const isShaded = JSON.stringify([leader.window, leader.invert]) ===
      JSON.stringify([this.window, this.invert]);
    const from = leader.frame();
    const { zoom, invert } = leader;
    Object.assign(this, { zoom, invert, window: { ...leader.window }, overlay: { ...leader.overlay } });
    const { w, h } = this.frame();
    this.move = { x: (leader.move.x / from.w) * w, y: (leader.move.y / from.h) * h };
    this.moveBy(0, 0);
    if (!isShaded) this.shade();
  }

  /** Zoom about a point of the stage. */
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
    const { x, y, w, h } = this.frame();
    context.setTransform(ratio, 0, 0, ratio, x * ratio, y * ratio);
    context.imageSmoothingQuality = "high";
    context.drawImage(this.picture.canvas, 0, 0, w, h);
    if (this.found) this.drawFound(context, w, { x, y });
  }

  drawFound(context, shownWidth, at) {
    const { found, overlay } = this;
    const scale = shownWidth / found.width;
    const place = (box) => box.map((side) => side * scale);
    if (overlay.heat) {
      context.globalAlpha = OPACITY;
      context.drawImage(this.heat, ...place(found.region));
      context.globalAlpha = 1;
    }
    if (!overlay.boxes) return;
    // The model sees only this part of the image, so there is no heat outside it.
    context.setLineDash([3, 5]);
    context.lineWidth = 1;
    context.strokeStyle = "rgba(255, 255, 255, 0.4)";
    context.strokeRect(...place(found.region));
    context.setLineDash([]);
    // There is always a best region; if nothing stands out, it means nothing.
    if (found.stands_out === false) return;
    for (const [style, width] of [[SHADOW, 4], [BOX, 1.75]]) {
      context.strokeStyle = style;
      context.lineWidth = width;
      for (const box of found.boxes) context.strokeRect(...place(box.bbox));
    }
    const [across, down] = place(found.peak);
    this.peak.hidden = false;
    this.peak.style.left = `${at.x + across}px`;
    this.peak.style.top = `${at.y + down}px`;
  }
}
