// The playground: the address holds all settings; a change of one fits again.

import { byId, complain, data, debounced, el, events, readState, writeState } from "./common.js";
import { Panel, symbol } from "./maps.js";

const METHODS = {
  bacoun: "BaCOUn",
  paper: "BaCOUn as in the paper",
  nlm: "Neural linear model",
  "mc-dropout": "MC-Dropout",
  ensemble: "Deep ensemble",
  gp: "Gaussian process",
};
const ALL = Object.keys(METHODS);
const EDGE = ["bacoun", "paper"];
const SLIDERS = {
  radius: { name: "Shell radius", values: [0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2], of: EDGE },
  edge: { name: "Boundary points", values: [50, 100, 200, 400, 800, 1500, 2000], of: EDGE },
  doubt: { name: "Doubt (OOD prior)", values: [0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.5], of: ["bacoun"] },
  width: { name: "Width of the last layer", values: [4, 8, 16, 32, 64, 128, 256], of: ALL.slice(0, 5) },
  prior: { name: "Prior of the weights", values: [0.1, 0.2, 0.5, 1, 2, 5, 10], of: [...EDGE, "nlm"] },
};
const DEFAULTS = {
  data: "gmm", points: "", seed: 0, a: "bacoun", b: "",
  radius: 1, edge: 400, doubt: 0.01, width: 32, prior: 1, map: "total", shell: "",
};
const STEPS = { boundary: "1. boundary", features: "2. features", posterior: "3. posterior" };
const MAX_POINTS = 400;

const form = byId("controls");
let state = readState(DEFAULTS);
let panels = [];
let label = 0;
let running = new AbortController();

const points = () => state.points.split(";").filter(Boolean).map((each) => each.split(",").map(Number));

// --- controls ---------------------------------------------------------------------------------

function build() {
  for (const [value, name] of Object.entries(METHODS)) {
    form.a.append(el("option", { value }, name));
    form.b.append(el("option", { value }, name));
  }
  form.b.prepend(el("option", { value: "" }, "nothing"));
  for (const [key, { name, values }] of Object.entries(SLIDERS)) {
    const input = el("input", { type: "range", id: `slider-${key}`, name: key, min: 0, max: values.length - 1, step: 1 });
    input.addEventListener("input", () => change({ [key]: values[input.value] }));
    byId("sliders").append(el("label", { class: "slider", for: input.id }, el("span", {}, name, el("output")), input));
  }
  for (let k = 0; k < 4; k++) {
    const pick = () => { label = k; controls(); };
    byId("classes").append(el("button", { type: "button", "aria-label": `class ${k + 1}`, onclick: pick }, symbol(k)));
  }
  for (const name of ["data", "a", "b"]) {
    form[name].addEventListener("change", () => change({ [name]: form[name].value }));
  }
  form.shell.addEventListener("change", () => look({ shell: form.shell.checked ? "1" : "" }));
  byId("again").addEventListener("click", () => change({ seed: (state.seed + 1) % 10000 }));
  byId("reset").addEventListener("click", () => change({ ...DEFAULTS }));
  byId("undo").addEventListener("click", () => change({ points: state.points.split(";").slice(0, -1).join(";") }));
  byId("clear").addEventListener("click", () => change({ points: "" }));
}

function controls() {
  const methods = [state.a, state.b];
  for (const name of ["data", "a", "b"]) form[name].value = state[name];
  form.shell.checked = state.shell === "1";
  for (const [key, { values, of }] of Object.entries(SLIDERS)) {
    const input = form[key], near = values.map((each) => Math.abs(each - state[key]));
    input.value = near.indexOf(Math.min(...near));
    input.disabled = !methods.some((each) => of.includes(each));
    const text = key === "doubt" && state.doubt === 0 ? "off" : String(state[key]);
    input.setAttribute("aria-valuetext", text);
    input.parentElement.querySelector("output").textContent = text;
    input.parentElement.classList.toggle("off", input.disabled);
  }
  byId("own").hidden = state.data !== "points";
  byId("again").hidden = state.data === "points";
  [...byId("classes").children].forEach((each, k) => each.setAttribute("aria-pressed", String(k === label)));
}

function change(some) {
  state = { ...state, ...some };
  writeState(state, DEFAULTS);
  controls();
  fit();
}

/** A change of what is shown, which needs no fit. */
function look(some) {
  state = { ...state, ...some };
  writeState(state, DEFAULTS);
  controls();
  for (const panel of panels) panel.show(shownState());
}

const shownState = () => ({
  map: state.map, shell: state.shell === "1", points: state.data === "points" ? points() : null,
});

// --- panels -----------------------------------------------------------------------------------

function arrange() {
  const methods = [state.a, state.b].filter(Boolean);
  const titles = methods.map((each) => METHODS[each]);
  if (panels.map((each) => each.name).join() !== titles.join()) {
    panels = titles.map((name) => Object.assign(
      new Panel(name, {
        onPick: (map) => look({ map }),
        onMove: (place) => panels.forEach((each) => each.move(place)),
        onClick: add,
      }), { name }));
    byId("panels").replaceChildren(...panels.map((each) => each.node));
  }
  byId("panels").classList.toggle("one", panels.length === 1);
}

function add([x, y]) {
  if (state.data !== "points" || points().length >= MAX_POINTS) return;
  const next = `${label},${x.toFixed(2)},${y.toFixed(2)}`;
  change({ points: state.points ? `${state.points};${next}` : next });
}

function isEnough() {
  if (state.data !== "points") return true;
  const counts = {};
  for (const [k] of points()) counts[k] = (counts[k] ?? 0) + 1;
  const classes = Object.values(counts);
  return classes.length >= 2 && Math.min(...classes) >= 3;
}

// --- fits -------------------------------------------------------------------------------------

function fit() {
  running.abort();
  arrange();
  for (const panel of panels) panel.show(shownState(), state.data === "points" && !isEnough() ? null : undefined);
  complain();
  if (!isEnough()) {
    byId("progress").replaceChildren("Click points of at least two classes onto the map.");
    byId("panels").classList.remove("waiting");
    return;
  }
  byId("panels").classList.add("waiting");
  start();
}

const start = debounced(async () => {
  running = new AbortController();
  const { signal } = running;
  try {
    for await (const event of events(location.href, signal)) progress(event);
    const found = await data(location.href, { signal });
    arrange();
    found.models.forEach((each, k) => panels[k].show(shownState(), each));
    byId("progress").replaceChildren("Done. Point at a map to read its values.");
    byId("panels").classList.remove("waiting");
  } catch (error) {
    if (signal.aborted) return;
    byId("progress").replaceChildren();
    complain(error.message);
  }
}, 250);

function progress(event) {
  if (event.event === "refused") throw new Error(event.message);
  if (event.event === "waiting") byId("progress").replaceChildren("Waiting for the fit to start …");
  if (event.event !== "progress") return;
  const name = METHODS[[state.a, state.b][event.fit]];
  byId("progress").replaceChildren(
    `${name}: ${STEPS[event.step] ?? event.step}, ${event.done} of ${event.planned}`,
    el("progress", { value: event.done, max: event.planned, "aria-label": "Progress of the fit" }));
}

addEventListener("popstate", () => { state = readState(DEFAULTS); controls(); fit(); });
build();
controls();
fit();
