// Digits: what is drawn and changed is in the address; the server reads it.

import { bar, byId, complain, data, debounced, el, events, percent, readState, rowsLikeThis, writeState } from "./common.js";

const SIDE = 28;
const PEN = 1.35; // radius of the pen, in pixels of the drawing
const SLIDERS = {
  rotate: { name: "Rotate", min: -180, max: 180, step: 5, unit: "°" },
  blur: { name: "Blur", min: 0, max: 4, step: 0.1, unit: " px" },
  noise: { name: "Noise", min: 0, max: 1, step: 0.05, unit: "" },
  amount: { name: "Morph", min: 0, max: 1, step: 0.05, unit: "" },
};
const DEFAULTS = { image: "", example: 3, rotate: 0, blur: 0, noise: 0, morph: 8, amount: 0, data: "auto" };

const form = byId("controls");
const pad = byId("pad");
let shades = new Float32Array(SIDE * SIDE);
let state = readState(DEFAULTS);
let isReady = false;
let latest = 0;
let warming = null;

const packed = () => [...shades].map((each) => Math.round(15 * each).toString(16)).join("");

function unpack() {
  shades = new Float32Array(SIDE * SIDE);
  [...state.image].forEach((each, place) => { shades[place] = parseInt(each, 16) / 15; });
}

// --- controls -----------------------------------------------------------------------------------

function build() {
  for (const [key, { name, min, max, step }] of Object.entries(SLIDERS)) {
    const input = el("input", { type: "range", id: `slider-${key}`, name: key, min, max, step });
    input.addEventListener("input", () => change({ [key]: Number(input.value) }));
    byId("sliders").append(el("label", { class: "slider", for: input.id }, el("span", {}, name, el("output")), input));
  }
  for (let digit = 0; digit < 10; digit++) {
    form.morph.append(el("option", { value: digit }, `a ${digit}`));
    const start = () => { shades.fill(0); change({ example: digit, image: "" }); };
    byId("examples").append(el("button", { type: "button", onclick: start }, String(digit)));
  }
  form.morph.addEventListener("change", () => change({ morph: Number(form.morph.value) }));
  form.data.addEventListener("change", () => { isReady = false; change({ data: form.data.value }); });
  byId("clear").addEventListener("click", () => { shades.fill(0); change({ image: packed() }); });
  byId("reset").addEventListener("click", () => change({ rotate: 0, blur: 0, noise: 0, amount: 0 }));
}

function controls() {
  for (const [key, { unit }] of Object.entries(SLIDERS)) {
    form[key].value = state[key];
    form[key].setAttribute("aria-valuetext", `${state[key]}${unit}`);
    form[key].parentElement.querySelector("output").textContent = `${state[key]}${unit}`;
  }
  form.morph.value = state.morph;
  form.data.value = state.data;
  [...byId("examples").children].forEach((each, digit) =>
    each.setAttribute("aria-pressed", String(!state.image && digit === state.example)));
}

function change(some) {
  state = { ...state, ...some };
  writeState(state, DEFAULTS);
  controls();
  paint();
  load();
}

// --- drawing ------------------------------------------------------------------------------------

let last = null;

function place(event) {
  const box = pad.getBoundingClientRect();
  return [((event.clientX - box.left) / box.width) * SIDE, ((event.clientY - box.top) / box.height) * SIDE];
}

function stroke([x1, y1], [x2, y2]) {
  const length = Math.max(1, Math.ceil(3 * Math.hypot(x2 - x1, y2 - y1)));
  for (let step = 0; step <= length; step++) dab(x1 + ((x2 - x1) * step) / length, y1 + ((y2 - y1) * step) / length);
}

function dab(x, y) {
  for (let row = Math.max(0, Math.floor(y - 3)); row < Math.min(SIDE, y + 3); row++) {
    for (let column = Math.max(0, Math.floor(x - 3)); column < Math.min(SIDE, x + 3); column++) {
      const ink = Math.min(1, Math.max(0, PEN + 0.5 - Math.hypot(column + 0.5 - x, row + 0.5 - y)));
      shades[row * SIDE + column] = Math.max(shades[row * SIDE + column], ink);
    }
  }
}

pad.addEventListener("pointerdown", (event) => {
  pad.setPointerCapture(event.pointerId);
  if (!state.image) shades.fill(0);
  last = place(event);
  stroke(last, last);
  change({ image: packed() });
});
pad.addEventListener("pointermove", (event) => {
  if (!last) return;
  const next = place(event);
  stroke(last, next);
  last = next;
  change({ image: packed() });
});
for (const kind of ["pointerup", "pointercancel"]) pad.addEventListener(kind, () => { last = null; });

function paint() {
  const small = new OffscreenCanvas(SIDE, SIDE), image = new ImageData(SIDE, SIDE);
  shades.forEach((each, at) => image.data.set([255 * each, 255 * each, 255 * each, 255], 4 * at));
  small.getContext("2d").putImageData(image, 0, 0);
  const pen = pad.getContext("2d");
  pen.imageSmoothingEnabled = true;
  pen.drawImage(small, 0, 0, pad.width, pad.height);
  if (!state.image) {
    pen.fillStyle = "#9aa5b1";
    pen.font = "500 17px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.fillText("draw here", pad.width / 2, pad.height / 2);
  }
}

// --- answers ------------------------------------------------------------------------------------

const load = debounced(async () => {
  const mine = ++latest;
  try {
    if (!isReady) await (warming ??= warmUp());
    const found = await data(location.href);
    if (mine !== latest) return;
    complain();
    show(found);
  } catch (error) {
    if (mine === latest) complain(error.message);
  }
}, 40);

/** Wait until the classifier has learned; one stream of news is enough for all that is drawn meanwhile. */
async function warmUp() {
  try {
    for await (const event of events(location.href)) progress(event);
    isReady = true;
    byId("progress").hidden = true;
  } finally {
    warming = null;
  }
}

function progress(event) {
  if (event.event === "refused") throw new Error(event.message);
  byId("progress").hidden = false;
  if (event.event === "waiting") byId("progress").replaceChildren("The classifier is about to learn the digits …");
  if (event.event !== "progress") return;
  byId("progress").replaceChildren(`Learning the digits: ${event.step}, ${event.done} of ${event.planned}`,
    el("progress", { value: event.done, max: event.planned, "aria-label": "Progress of the fit" }));
}

function show(found) {
  byId("learned").textContent =
    `It learned from ${found.learned_from} and gets ${percent(found.accuracy)} of held-out digits right.`;
  const { side, image } = found, seen = byId("seen");
  seen.width = seen.height = side;
  const pixels = new ImageData(side, side);
  image.flat().forEach((each, at) => pixels.data.set([255 * each, 255 * each, 255 * each, 255], 4 * at));
  seen.getContext("2d").putImageData(pixels, 0, 0);
  const deferred = found.decision === "defer";
  byId("verdict").className = `verdict ${found.decision}`;
  byId("verdict").replaceChildren(
    el("div", { class: "row-of" }, el("span", { class: `tag ${found.decision}` }, found.decision), el("span", { class: "quiet" }, found.reason)),
    el("div", { class: "decision" }, deferred ? "Ask a person" : `It is a ${found.prediction}`),
    el("p", {}, found.because + (deferred ? ` The best guess would be ${found.prediction}.` : "")));
  byId("chances").replaceChildren(...found.probabilities.map((chance, digit) => bar(String(digit), chance, 1, "", percent(chance))));
  byId("parts").replaceChildren(
    ...["total", "aleatoric", "model", "ood"].map((name) =>
      bar(name === "ood" ? "OOD" : name, found[name], found.max_total, name === "ood" ? "strong" : name === "total" ? "calm" : "")),
    bar("P(OOD)", found.ood_probability, 1, "strong", percent(found.ood_probability)),
    rowsLikeThis(found.rows_like_this));
}

build();
unpack();
controls();
paint();
load();
