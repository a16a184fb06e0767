// What the pages share: requests with a token, elements, colors, numbers.

const KEY = "bacoun-token";

/** Fetch from this server; asks for a token if one is needed. */
export async function ask(url, options = {}) {
  const headers = { Accept: "application/json", ...options.headers };
  const token = sessionStorage.getItem(KEY);
  if (token) headers.Authorization = `Bearer ${token}`;
  const answer = await fetch(url, { ...options, headers });
  if (answer.status === 401) {
    await askForToken();
    return ask(url, options);
  }
  return answer;
}

/** The JSON at an address; an error of the server becomes an Error with its sentence. */
export async function data(url, options) {
  const answer = await ask(url, options);
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.error);
  return content;
}

let asking = null;
function askForToken() {
  asking ??= new Promise((resolve) => {
    const field = el("input", { type: "password", id: "token", autocomplete: "current-password", required: true });
    const dialog = el("dialog", { id: "ask-token" }, el("form", { method: "dialog" },
      el("h2", {}, "Token"),
      el("p", { class: "quiet" }, "This server needs a bearer token. It is kept until the tab is closed."),
      el("label", { for: "token" }, "Token"), field,
      el("button", { class: "main", type: "submit" }, "Use token")));
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(KEY, field.value);
      dialog.remove();
      asking = null;
      resolve();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
  return asking;
}

/** Server-sent events, one object at a time; unlike EventSource it can carry a token. */
export async function* events(url, signal) {
  const answer = await ask(url, { headers: { Accept: "text/event-stream" }, signal });
  if (!answer.ok) throw new Error((await answer.json()).error);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) yield JSON.parse(part.slice("data: ".length));
  }
}

/** An element: el("p", { class: "note" }, "text", child). */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  set(node, attributes);
  node.append(...children);
  return node;
}

/** The same in SVG. */
export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(node, attributes);
  node.append(...children);
  return node;
}

function set(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
}

export const byId = (id) => document.getElementById(id);

/** A number for people: three digits, no exponent where it can be helped. */
export function shown(value) {
  if (value === null || value === undefined) return "not defined";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 0.0005) return "< 0.001";
  return size < 10 ? value.toFixed(3) : size < 1000 ? value.toFixed(1) : value.toFixed(0);
}

export const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0).replace(".0", "")} %`;

/** A text whose `words` in backticks are code. */
export const coded = (text) => text.split("`").map((part, place) => (place % 2 ? el("code", {}, part) : part));

/** The settings in the address, numbers as such; what it lacks is as usual. */
export function readState(usual) {
  const given = Object.fromEntries(new URLSearchParams(location.search));
  return Object.fromEntries(Object.entries(usual).map(([name, value]) => {
    const found = given[name] ?? value;
    return [name, typeof value === "number" ? Number(found) : found];
  }));
}

/** Put the settings that are not as usual into the address. */
export function writeState(state, usual) {
  const changed = Object.entries(state).filter(([name, value]) => String(value) !== String(usual[name]));
  const query = new URLSearchParams(changed.map(([name, value]) => [name, String(value)]));
  history.replaceState(null, "", query.size ? `?${query}` : location.pathname);
}

/** Run a function once things have been quiet for a while. */
export function debounced(run, milliseconds) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...given), milliseconds);
  };
}

// Viridis, which is read alike with any color vision and in gray.
const VIRIDIS = [
  [68, 1, 84], [72, 26, 108], [71, 47, 125], [65, 68, 135], [57, 86, 140], [49, 104, 142],
  [42, 120, 142], [35, 136, 142], [31, 152, 139], [34, 168, 132], [53, 183, 121], [84, 197, 104],
  [122, 209, 81], [165, 219, 54], [210, 226, 27], [253, 231, 37],
];

/** Color [r, g, b] of a share from 0 to 1. */
export function viridis(share) {
  const place = Math.min(Math.max(share, 0), 1) * (VIRIDIS.length - 1);
  const low = Math.floor(place), high = Math.min(low + 1, VIRIDIS.length - 1);
  return VIRIDIS[low].map((each, i) => each + (VIRIDIS[high][i] - each) * (place - low));
}

// Okabe and Ito's colors for classes, told apart with any color vision; shapes differ as well.
export const CLASSES = [[0, 114, 178], [230, 159, 0], [0, 158, 115], [204, 121, 167]];

/** A horizontal bar with its name and value. */
export function bar(name, value, most, kind = "", text = shown(value)) {
  const fill = el("span", { class: `fill ${kind}` });
  fill.style.width = `${(100 * Math.min(Math.max(value / most, 0), 1)).toFixed(2)}%`;
  return el("li", { class: "bar-row" },
    el("span", { class: "name" }, name),
    el("span", { class: "track", "aria-hidden": "true" }, fill),
    el("output", {}, text));
}

/** How many training rows are at least as unusual, below a list of bars. */
export function rowsLikeThis(rows) {
  const text = rows >= 10 ? Math.round(rows).toLocaleString("en") : rows >= 1e-4 ? rows.toPrecision(1) : "< 0.0001";
  return el("li", { class: "bar-row count" },
    el("span", { class: "name" }, "training rows like this"),
    el("output", {}, text));
}

/** Say something that went wrong, or nothing. */
export function complain(message) {
  const note = byId("message");
  note.textContent = message ?? "";
  note.hidden = !message;
}
