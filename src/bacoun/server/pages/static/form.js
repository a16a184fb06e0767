// The form of a row, with a control for each column; and the known texts and photos nearest to it.

import { el } from "./common.js";

export const text = (value) => (value === null ? "" : String(value));

const inputs = () => [...document.querySelectorAll("#form [data-column]")];

/** What the form holds, by column: texts, of photos their data URIs. */
export const values = () => Object.fromEntries(inputs().map((each) => [each.dataset.column, each.value]));

export function fill(row) {
  for (const input of inputs()) {
    input.value = text(row[input.dataset.column]);
    input.dispatchEvent(new Event("filled"));
  }
}

/** The cell of a column, which calls `changed` whenever its value is another. */
export function control(column, place, changed) {
  const parts = { text: sentences, photo, date }[column.kind] ?? (column.levels ? choice : number);
  const cell = el("label", { class: "cell", for: `column-${place}` }, el("span", {}, column.name));
  const note = el("small", {}, parts(column, cell, cell.htmlFor));
  note.dataset.usual = note.textContent;
  cell.append(note);
  cell.querySelector("[data-column]").addEventListener("input", changed);
  return cell;
}

function choice({ name, levels }, cell, id) {
  const list = el("datalist", { id: `${id}-levels` }, ...levels.map((each) => el("option", { value: String(each) })));
  cell.append(el("input", { id, type: "text", "data-column": name, list: list.id }), list);
  const some = levels.slice(0, 4).map(String).join(", ");
  return levels.length > 4 ? `${some} and ${levels.length - 4} more` : some;
}

function date({ name, low, high }, cell, id) {
  cell.append(el("input", { id, type: "text", "data-column": name }));
  return `${low} to ${high}`;
}

/** A number, with a slider that reaches beyond what training had. */
function number(column, cell, id) {
  const { name, low, high, whole } = column, width = high - low;
  const input = el("input", { id, type: "number", step: "any", "data-column": name });
  const range = el("input", {
    type: "range", min: low >= 0 ? Math.max(0, low - width / 2) : low - width / 2, max: high + width,
    step: whole ? 1 : width / 200, "aria-label": name,
  });
  range.addEventListener("input", () => {
    input.value = whole ? range.value : Number(Number(range.value).toPrecision(4));
    input.dispatchEvent(new Event("input"));
  });
  input.addEventListener("input", () => { if (input.value !== "") range.value = input.value; });
  input.addEventListener("filled", () => { range.value = input.value; });
  cell.append(input, range);
  return `${low} to ${high}`;
}

function sentences({ name }, cell, id) {
  cell.classList.add("wide");
  cell.append(el("textarea", { id, rows: 7, "data-column": name }));
  return "";
}

function photo({ name }, cell, id) {
  const input = el("input", { type: "hidden", "data-column": name });
  const file = el("input", { id, type: "file", accept: "image/*" });
  const picture = el("img", { alt: "a known photo" });
  const show = () => { picture.src = input.value; };
  onFile(cell, file, async (chosen) => {
    input.value = await asDataUri(chosen);
    picture.alt = chosen.name;
    input.dispatchEvent(new Event("input"));
  });
  input.addEventListener("input", show);
  input.addEventListener("filled", () => {
    file.value = "";
    picture.alt = "a known photo";
    show();
  });
  cell.classList.add("wide", "drop");
  cell.append(picture, input, file);
  return "choose a photo, or drop one here";
}

const asDataUri = (file) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result);
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(file);
});

/** Call `take` with a file that is dropped on a zone, or chosen. */
export function onFile(zone, input, take) {
  for (const kind of ["dragover", "dragleave", "drop"]) {
    zone.addEventListener(kind, (event) => {
      event.preventDefault();
      zone.classList.toggle("over", kind === "dragover");
    });
  }
  const first = () => { if (input.files.length) take(input.files[0]); };
  input.addEventListener("change", first);
  zone.addEventListener("drop", ({ dataTransfer }) => {
    input.files = dataTransfer.files;
    first();
  });
}

/** The known items that are nearest to those of a row, below the name of their column. */
export function nearestKnown(nearest) {
  return Object.entries(Object.groupBy(nearest, (each) => each.column)).flatMap(([column, items]) => [
    el("h3", {}, `Nearest known: ${column}`),
    el("ul", { class: `known ${items[0].kind}s` }, ...items.map(known)),
  ]);
}

const known = ({ label, similarity, text: said, thumbnail }) => el("li", {},
  thumbnail ? el("img", { src: thumbnail, alt: `${said}, ${label}`, title: said }) : el("q", {}, said),
  el("span", {}, el("strong", {}, label), ` similarity ${similarity.toFixed(2).replace("-", "−")}`));
