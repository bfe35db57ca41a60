// The image on its canvas, with the heatmap, the boxes and the peak over it.

import { paint } from "./colormap.js";

const BOX = "rgb(64, 224, 255)";
const SHADOW = "rgba(0, 0, 0, 0.75)";
const MAX_ZOOM = 12;

export class Viewer {
  /** `onZoom` is called with the magnification, 1 being the whole image. */
  constructor(stage, canvas, onZoom) {
    this.stage = stage;
    this.canvas = canvas;
    this.onZoom = onZoom;
    this.options = { heat: true, boxes: true, opacity: 0.6, invert: false };
    this.clear();
    new ResizeObserver(() => this.draw()).observe(stage);
    this.listen();
  }

  clear() {
    this.bitmap = null;
    this.found = null;
    this.fit();
  }

  /** Show a picture; `found` of the former image goes. */
  setImage(bitmap) {
    this.bitmap = bitmap;
    this.found = null;
    this.fit();
  }

  /** Show a grounding (null for none). */
  setFound(found) {
    this.found = found;
    this.heat = found && paint(found.grid);
    this.draw();
  }

  set(options) {
    Object.assign(this.options, options);
    this.draw();
  }

  fit() {
    this.zoom = 1;
    this.move = { x: 0, y: 0 };
    this.draw();
  }

  /** Where the picture lies on the stage, in CSS pixels. */
  frame() {
    const { clientWidth: width, clientHeight: height } = this.stage;
    const fitting = Math.min(width / this.bitmap.width, height / this.bitmap.height);
    const w = this.bitmap.width * fitting * this.zoom;
    const h = this.bitmap.height * fitting * this.zoom;
    return { x: (width - w) / 2 + this.move.x, y: (height - h) / 2 + this.move.y, w, h };
  }

  /** Magnify about a place of the stage. */
  zoomBy(factor, at) {
    if (!this.bitmap) return;
    const place = at ?? { x: this.stage.clientWidth / 2, y: this.stage.clientHeight / 2 };
    const before = this.frame();
    const zoom = Math.min(Math.max(this.zoom * factor, 1), MAX_ZOOM);
    const ratio = zoom / this.zoom;
    this.zoom = zoom;
    const centre = { x: before.x + before.w / 2, y: before.y + before.h / 2 };
    this.moveBy((centre.x - place.x) * (ratio - 1), (centre.y - place.y) * (ratio - 1));
  }

  /** Move the picture, but not off the stage. */
  moveBy(x, y) {
    if (!this.bitmap) return;
    const { w, h } = this.frame();
    const bound = (value, extent, whole) => {
      const room = Math.max(0, (extent - whole) / 2);
      return Math.min(Math.max(value, -room), room);
    };
    this.move.x = bound(this.move.x + x, w, this.stage.clientWidth);
    this.move.y = bound(this.move.y + y, h, this.stage.clientHeight);
    this.draw();
  }

  draw() {
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = this.stage;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.onZoom(this.bitmap ? this.zoom : null);
    if (!this.bitmap) return;
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.imageSmoothingQuality = "high";
    const frame = this.frame();
    context.drawImage(this.bitmap, frame.x, frame.y, frame.w, frame.h);
    if (this.options.invert) {
      context.globalCompositeOperation = "difference";
      context.fillStyle = "white";
      context.fillRect(frame.x, frame.y, frame.w, frame.h);
      context.globalCompositeOperation = "source-over";
    }
    if (this.found) this.drawFound(context, frame);
  }

  drawFound(context, frame) {
    const { found, options } = this;
    const scale = frame.w / found.width;
    const place = ([x, y, w, h]) => [frame.x + x * scale, frame.y + y * scale, w * scale, h * scale];
    if (options.heat) {
      context.globalAlpha = options.opacity;
      context.drawImage(this.heat, ...place(found.region));
      context.globalAlpha = 1;
    }
    if (!options.boxes) return;
    const [x, y] = place([...found.peak, 0, 0]);
    for (const [style, width] of [[SHADOW, 4], [BOX, 1.75]]) {
      context.strokeStyle = style;
      context.lineWidth = width;
      for (const box of found.boxes) context.strokeRect(...place(box.bbox));
      context.beginPath();
      context.arc(x, y, 7, 0, 2 * Math.PI);
      context.stroke();
    }
  }

  listen() {
    const { stage } = this;
    let held = null;
    stage.addEventListener("wheel", (event) => {
      if (!this.bitmap || (event.deltaY > 0 && this.zoom === 1)) return;
      event.preventDefault();
      const box = stage.getBoundingClientRect();
      this.zoomBy(Math.exp(-event.deltaY / 400), {
        x: event.clientX - box.left, y: event.clientY - box.top,
      });
    }, { passive: false });
    stage.addEventListener("pointerdown", (event) => {
      if (!this.bitmap || this.zoom === 1 || event.button !== 0) return;
      held = { x: event.clientX, y: event.clientY };
      stage.setPointerCapture(event.pointerId);
    });
    stage.addEventListener("pointermove", (event) => {
      if (!held) return;
      this.moveBy(event.clientX - held.x, event.clientY - held.y);
      held = { x: event.clientX, y: event.clientY };
    });
    for (const end of ["pointerup", "pointercancel"]) {
      stage.addEventListener(end, () => { held = null; });
    }
    stage.addEventListener("dblclick", () => this.fit());
    stage.addEventListener("keydown", (event) => this.onKey(event));
  }

  onKey(event) {
    if (!this.bitmap || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = 48;
    const actions = {
      "+": () => this.zoomBy(1.25), "=": () => this.zoomBy(1.25), "-": () => this.zoomBy(0.8),
      0: () => this.fit(),
      ArrowLeft: () => this.moveBy(step, 0), ArrowRight: () => this.moveBy(-step, 0),
      ArrowUp: () => this.moveBy(0, step), ArrowDown: () => this.moveBy(0, -step),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }
}
