// Maps of the plane: colors for every place, points on top, and what is under the mouse.

import { CLASSES, bar, el, shown, svg, viridis } from "./common.js";

export const MAPS = {
  regions: "Decision",
  total: "Total",
  aleatoric: "Aleatoric",
  model: "Model",
  ood: "OOD",
};
const LONG = {
  regions: "Decision regions",
  total: "Total uncertainty",
  aleatoric: "Aleatoric: classes overlap",
  model: "Model: few points decide",
  ood: "OOD: nothing like it was seen",
};
export const EMPTY_EXTENT = [-10, 10, -10, 10];

/** One method: a large map, small ones to choose from, a scale, and values at a place. */
export class Panel {
  constructor(title, { onPick, onMove, onClick }) {
    this.place = null;
    this.canvas = el("canvas", { class: "map", tabindex: "0", role: "img" });
    this.title = el("h2", {}, title, el("small"));
    this.thumbs = el("div", { class: "thumbs", role: "group", "aria-label": "Map to show" });
    for (const [name, label] of Object.entries(MAPS)) {
      this.thumbs.append(el("button", {
        type: "button", "data-map": name, title: LONG[name], onclick: () => onPick(name),
      }, el("canvas", { width: 81, height: 81, "aria-hidden": "true" }), label));
    }
    this.scale = el("div");
    this.readout = el("div", { class: "readout", "aria-live": "off" });
    this.side = el("div", { class: "side" }, this.readout);
    this.node = el("div", { class: "panel" }, this.title,
      el("div", {}, this.canvas, this.scale), this.side, this.thumbs);
    this.canvas.addEventListener("pointermove", (event) => onMove(this.at(event)));
    this.canvas.addEventListener("click", (event) => onClick(this.at(event)));
    this.canvas.addEventListener("keydown", (event) => this.press(event, onMove, onClick));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  /** Place in the plane of a mouse event. */
  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const [left, right, low, high] = this.extent;
    return [
      left + ((event.clientX - box.left) / box.width) * (right - left),
      high - ((event.clientY - box.top) / box.height) * (high - low),
    ];
  }

  press(event, onMove, onClick) {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const [left, right, low, high] = this.extent;
    const [x, y] = this.place ?? [(left + right) / 2, (low + high) / 2];
    if (event.key in steps) {
      const [across, up] = steps[event.key], step = (right - left) / (event.shiftKey ? 10 : 40);
      onMove([x + across * step, y + up * step]);
    } else if (event.key === "Enter" || event.key === " ") {
      onClick([x, y]);
    } else return;
    event.preventDefault();
  }

  get extent() {
    return this.found?.extent ?? EMPTY_EXTENT;
  }

  show(state, found) {
    this.state = state;
    if (found !== undefined) this.found = found;
    this.title.querySelector("small").textContent = this.found
      ? `accuracy ${(100 * this.found.accuracy).toFixed(1)} %, fitted in ${this.found.seconds.toFixed(1)} s` : "";
    for (const button of this.thumbs.children) {
      button.setAttribute("aria-pressed", String(button.dataset.map === state.map));
      const image = this.found && colors(this.found, button.dataset.map);
      if (image) button.firstChild.getContext("2d").putImageData(image, 0, 0);
    }
    this.thumbs.hidden = !this.found;
    this.scale.replaceChildren(this.found ? scale(this.found, state.map) : "");
    this.canvas.setAttribute("aria-label",
      `${LONG[state.map]}. Arrow keys move the place whose values are shown.`);
    this.draw();
    this.read();
  }

  move(place) {
    this.place = place;
    this.draw();
    this.read();
  }

  draw() {
    const size = Math.round(this.canvas.clientWidth * devicePixelRatio);
    if (!this.state || size === 0) return;
    if (this.canvas.width !== size) this.canvas.width = this.canvas.height = size;
    const pen = this.canvas.getContext("2d");
    pen.clearRect(0, 0, size, size);
    const image = this.found && colors(this.found, this.state.map);
    if (image) {
      const small = new OffscreenCanvas(image.width, image.height);
      small.getContext("2d").putImageData(image, 0, 0);
      pen.drawImage(small, 0, 0, size, size);
    }
    const [left, right, low, high] = this.extent;
    const put = ([x, y]) => [((x - left) / (right - left)) * size, ((high - y) / (high - low)) * size];
    const unit = size / 110;
    if (this.state.shell && this.found) for (const each of this.found.edge) cross(pen, put(each), unit);
    for (const [label, x, y] of this.state.points ?? this.#own()) mark(pen, put([x, y]), label, unit);
    if (this.place) crosshair(pen, put(this.place), size);
  }

  #own() {
    return this.found ? this.found.points.map(([x, y], i) => [this.found.labels[i], x, y]) : [];
  }

  /** Values at the chosen place. */
  read() {
    if (!this.found || !this.place) {
      this.readout.replaceChildren(this.found
        ? el("p", {}, "Point at the map, or focus it and use the arrow keys, to read its values.") : "");
      return;
    }
    const value = (name) => at(this.found, name, this.place);
    const most = Math.log(this.found.classes);
    const [x, y] = this.place;
    const chances = [...Array(this.found.classes).keys()].map((k) =>
      bar(`class ${k + 1}`, value(`p${k}`), 1, `class${k}`, `${(100 * value(`p${k}`)).toFixed(1)} %`));
    this.readout.replaceChildren(
      el("p", {}, `At (${x.toFixed(1)}, ${y.toFixed(1)}): probabilities`),
      el("ul", { class: "bars" }, ...chances),
      el("p", {}, `uncertainty in nats, at most ${most.toFixed(2)}`),
      el("ul", { class: "bars" }, ...["total", "aleatoric", "model", "ood"].map((name) =>
        bar(name === "ood" ? "OOD" : name, value(name), most, name === "total" ? "calm" : name === "ood" ? "strong" : ""))));
  }
}

/** Value of a map at a place; the nearest one. */
function at(found, name, [x, y]) {
  const [left, right, low, high] = found.extent, last = found.size - 1;
  const column = Math.round(((x - left) / (right - left)) * last);
  const row = Math.round(((y - low) / (high - low)) * last);
  const clamp = (place) => Math.min(Math.max(place, 0), last);
  return found.maps[name][clamp(row) * found.size + clamp(column)];
}

/** A map as an image, its highest row first. */
function colors(found, map) {
  found.images ??= {};
  if (found.images[map]) return found.images[map];
  const n = found.size, image = new ImageData(n, n), most = Math.log(found.classes);
  for (let row = 0; row < n; row++) {
    for (let column = 0; column < n; column++) {
      const from = (n - 1 - row) * n + column, to = 4 * (row * n + column);
      const color = map === "regions" ? region(found, from) : viridis(found.maps[map][from] / most);
      image.data.set([...color, 255], to);
    }
  }
  found.images[map] = image;
  return image;
}

/** Color of the likeliest class, paler where it is less likely. */
function region(found, place) {
  let best = 0;
  for (let k = 1; k < found.classes; k++) {
    if (found.maps[`p${k}`][place] > found.maps[`p${best}`][place]) best = k;
  }
  const chance = found.maps[`p${best}`][place], none = 1 / found.classes;
  const strength = 0.2 + 0.6 * Math.max(0, (chance - none) / (1 - none));
  return CLASSES[best].map((each) => 255 + (each - 255) * strength);
}

/** What the colors of a map mean. */
function scale(found, map) {
  const labels = [...Array(found.classes).keys()];
  if (map === "regions") {
    return el("ul", { class: "keys" }, ...labels.map((k) => el("li", {}, symbol(k), `class ${k + 1}`)),
      el("li", {}, "paler: less certain"));
  }
  const strip = el("canvas", { width: 128, height: 1, "aria-hidden": "true" });
  const pen = strip.getContext("2d");
  for (let x = 0; x < 128; x++) {
    pen.fillStyle = `rgb(${viridis(x / 127).map(Math.round).join(",")})`;
    pen.fillRect(x, 0, 1, 1);
  }
  const most = Math.log(found.classes);
  return el("div", { class: "scale" }, "0", strip, `log ${found.classes} = ${shown(most)} nats`);
}

const SHAPES = ["M7 2a5 5 0 1 0 .01 0z", "M2.5 2.5h9v9h-9z", "M7 1.5l6 10.5h-12z", "M7 1l6 6-6 6-6-6z"];

export function symbol(label) {
  const color = CLASSES[label % CLASSES.length].join(",");
  return svg("svg", { viewBox: "0 0 14 14", "aria-hidden": "true" },
    svg("path", { d: SHAPES[label % SHAPES.length], fill: `rgb(${color})`, stroke: "#fff", "stroke-width": 1 }));
}

function mark(pen, [x, y], label, unit) {
  pen.save();
  pen.translate(x - unit, y - unit);
  pen.scale(unit / 7, unit / 7);
  const path = new Path2D(SHAPES[label % SHAPES.length]);
  pen.fillStyle = `rgb(${CLASSES[label % CLASSES.length].join(",")})`;
  pen.strokeStyle = "#fff";
  pen.lineWidth = 1.6;
  pen.fill(path);
  pen.stroke(path);
  pen.restore();
}

function cross(pen, [x, y], unit) {
  const arm = 0.55 * unit;
  for (const [color, width] of [["#000", 3], ["#fff", 1.5]]) {
    pen.strokeStyle = color;
    pen.lineWidth = (width * unit) / 7;
    pen.beginPath();
    pen.moveTo(x - arm, y - arm);
    pen.lineTo(x + arm, y + arm);
    pen.moveTo(x - arm, y + arm);
    pen.lineTo(x + arm, y - arm);
    pen.stroke();
  }
}

function crosshair(pen, [x, y], size) {
  for (const [color, width] of [["rgba(0,0,0,0.7)", 3], ["#fff", 1]]) {
    pen.strokeStyle = color;
    pen.lineWidth = width * devicePixelRatio;
    pen.beginPath();
    pen.moveTo(x, 0);
    pen.lineTo(x, size);
    pen.moveTo(0, y);
    pen.lineTo(size, y);
    pen.stroke();
  }
}
