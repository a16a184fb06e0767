// A model's page: a row to change, tables to score, and what the model was asked so far.

import { ask, bar, byId, complain, data, debounced, el, percent, rowsLikeThis, shown } from "./common.js";
import { showWatch } from "./watch.js";

const path = location.pathname;
const name = decodeURIComponent(path.split("/").pop());
const api = `/v1/models/${encodeURIComponent(name)}`;
let described = null;
let latest = 0;

// --- one row ------------------------------------------------------------------------------------

function control(column) {
  const label = el("span", {}, column.name);
  const id = `column-${described.columns.indexOf(column)}`;
  const input = el("input", { id, "data-column": column.name });
  const note = el("small", {});
  const cell = el("label", { class: "cell", for: id }, label, input, note);
  if (column.levels) {
    const list = el("datalist", { id: `${id}-levels` }, ...column.levels.map((each) => el("option", { value: String(each) })));
    input.type = "text";
    input.setAttribute("list", list.id);
    const some = column.levels.slice(0, 4).map(String).join(", ");
    note.textContent = column.levels.length > 4 ? `${some} and ${column.levels.length - 4} more` : some;
    cell.append(list);
  } else if (column.kind === "date") {
    input.type = "text";
    note.textContent = `${column.low} to ${column.high}`;
  } else {
    input.type = "number";
    input.step = "any";
    note.textContent = `${column.low} to ${column.high}`;
    cell.append(slider(column, input));
  }
  note.dataset.usual = note.textContent;
  input.addEventListener("input", changed);
  return cell;
}

/** A slider that reaches beyond what training had. */
function slider(column, input) {
  const width = column.high - column.low;
  const low = column.low >= 0 ? Math.max(0, column.low - width / 2) : column.low - width / 2;
  const range = el("input", {
    type: "range", min: low, max: column.high + width, step: column.whole ? 1 : width / 200, "aria-label": column.name,
  });
  range.addEventListener("input", () => {
    input.value = column.whole ? range.value : Number(Number(range.value).toPrecision(4));
    changed();
  });
  input.addEventListener("input", () => { if (input.value !== "") range.value = input.value; });
  return range;
}

const inputs = () => [...document.querySelectorAll("[data-column]")];
const text = (value) => (value === null ? "" : String(value));

function fill(values) {
  for (const input of inputs()) {
    input.value = text(values[input.dataset.column]);
    const range = input.parentElement.querySelector("[type=range]");
    if (range) range.value = input.value;
  }
}

/** The address holds what differs from the typical row. */
const changed = debounced(() => {
  const query = new URLSearchParams();
  for (const column of described.columns) {
    const { value } = inputs().find((each) => each.dataset.column === column.name);
    if (value !== text(column.typical)) query.set(column.name, value);
  }
  history.replaceState(null, "", query.size ? `?${query}` : path);
  load();
}, 120);

async function load() {
  const mine = ++latest;
  try {
    const found = await data(location.href);
    if (mine !== latest) return;
    complain();
    if (described?.version !== found.version) build(found);
    show(found);
  } catch (error) {
    if (mine === latest) complain(error.message);
  }
}

function build(found) {
  described = found;
  document.title = `${name} · bacoun`;
  byId("name").textContent = name;
  const summary = {
    target: found.target, "training rows": found.facts.training_rows, columns: found.columns.length,
    accuracy: percent(found.facts.accuracy), version: found.version,
  };
  byId("facts").replaceChildren(...Object.entries(summary).map(([key, value]) => el("li", {}, `${key} `, el("strong", {}, String(value)))));
  byId("form").replaceChildren(...found.columns.map(control));
  fill(found.row);
  byId("target").textContent = found.target;
  byId("rule").replaceChildren(...found.rule.split("\n").map((each) => el("li", {}, each)));
  byId("made").textContent = `Fitted ${found.made.fitted}. Not used: ${Object.keys(found.ignored).join(", ") || "no column"}.`;
  const head = found.columns.map((each) => quoted(each.name)).join(",");
  byId("pasted").placeholder = `${head}\n${found.columns.map((each) => quoted(text(each.typical))).join(",")}`;
  for (const id of ["ask", "tables", "about"]) byId(id).hidden = false;
  linkReport();
}

const quoted = (value) => (/[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);

async function linkReport() {
  const { models } = await data("/models");
  const report = models.find((each) => each.name === name)?.report;
  const last = report ? el("a", { href: `${path}/report` }, "Report on test rows")
    : el("span", {}, "No report yet: ", el("code", {}, `bacoun report ${name} test.csv --out ${name}/report.html`));
  byId("facts").append(el("li", {}, last));
}

function show({ scored, explanation, classes }) {
  const deferred = scored.decision === "defer";
  const verdict = byId("verdict");
  verdict.className = `verdict ${scored.decision}`;
  verdict.replaceChildren(
    el("div", { class: "row-of" }, el("span", { class: `tag ${scored.decision}` }, scored.decision),
      ...(deferred ? [el("span", { class: "quiet" }, scored.reason)] : [])),
    el("div", { class: "decision" }, deferred ? "Ask a person" : String(scored.prediction)),
    el("p", {}, deferred ? sentence(explanation, scored.prediction) : "It is like the training rows, and the class is clear."));
  byId("chances").replaceChildren(...classes
    .map((label) => [String(label), scored[`p_${label}`]])
    .sort((one, two) => two[1] - one[1]).slice(0, 8)
    .map(([label, chance]) => bar(label, chance, 1, "", percent(chance))));
  const most = Math.log(classes.length);
  byId("parts").replaceChildren(
    ...["total", "aleatoric", "epistemic"].map((each) => bar(each, scored[each], most, each === "epistemic" ? "strong" : each === "total" ? "calm" : "")),
    bar("P(OOD)", scored.ood_probability ?? 0, 1, "strong", percent(scored.ood_probability ?? 0)),
    ...(scored.rows_like_this == null ? [] : [rowsLikeThis(scored.rows_like_this)]));
  blame(explanation);
}

function sentence(explanation, prediction) {
  const best = `The best guess would be ${prediction}.`;
  const said = explanation.because.replaceAll(" nats", " nats of surprise");
  return explanation.reason === "ambiguous" ? `It may be ${said}.` : `${said}. ${best}`;
}

/** Mark the columns behind a deferral, and say what was expected. */
function blame({ reason, surprises, unseen, pulls, n_repairs: repairs }) {
  const notes = {};
  if (reason === "ambiguous") for (const each of pulls.slice(0, 2)) notes[each.column] = `speaks for ${each.label}`;
  if (reason === "unfamiliar") {
    for (const each of surprises.slice(0, repairs || 3)) notes[each.column] = `expected ${each.expected}`;
    for (const each of unseen) notes[each.column] ??= each.training;
  }
  for (const input of inputs()) {
    const cell = input.parentElement, note = cell.querySelector("small");
    const said = notes[input.dataset.column];
    cell.classList.toggle("blamed", Boolean(said));
    note.textContent = said ?? note.dataset.usual;
  }
}

// --- tables -------------------------------------------------------------------------------------

const SHOWN = 50;
const HEADS = ["prediction", "decision", "reason", "because", "total", "epistemic", "ood_score"];

async function score(content) {
  const out = byId("scored");
  out.replaceChildren(el("p", { class: "quiet" }, "Scoring …"));
  const options = { method: "POST", body: content, headers: { "Content-Type": "text/csv" } };
  try {
    const many = content.split("\n").length > 900;
    const answer = await ask(`${api}/predict?inputs=true&because=${!many}`, { ...options, headers: { ...options.headers, Accept: "text/csv" } });
    if (!answer.ok) throw new Error((await answer.json()).error);
    const table = parse(await answer.text());
    const checked = await data(`${api}/check`, options);
    out.replaceChildren(...result(table, checked.findings));
  } catch (error) {
    out.replaceChildren(el("p", { class: "message", role: "alert" }, error.message));
  }
}

function result({ head, rows, text: csv }, findings) {
  const place = (key) => head.indexOf(key);
  const accepted = rows.filter((row) => row[place("decision")] === "accept").length;
  const file = URL.createObjectURL(new Blob([csv], { type: "text/csv" }));
  const heads = HEADS.filter((key) => place(key) >= 0);
  return [
    el("div", { class: "row-of" }, el("p", {}, `${rows.length} ${rows.length === 1 ? "row" : "rows"}: ${accepted} accepted, ${rows.length - accepted} deferred.`),
      el("a", { href: file, download: `${name}-scored.csv` }, "Download the scored table")),
    ...findings.map((each) => el("p", { class: each.severity === "serious" ? "warning" : "note" }, each.message)),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Scored rows" },
      el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "row"), ...heads.map((key) => el("th", { scope: "col" }, key)))),
        el("tbody", {}, ...rows.slice(0, SHOWN).map((row, number) => el("tr", {},
          el("th", { scope: "row" }, String(number + 1)), ...heads.map((key) => cellOf(key, row[place(key)]))))))),
    ...(rows.length > SHOWN ? [el("p", { class: "quiet" }, `The first ${SHOWN} rows; the file has all.`)] : []),
  ];
}

function cellOf(key, value) {
  if (key === "decision") return el("td", {}, el("span", { class: `tag ${value}` }, value));
  const number = ["total", "epistemic", "ood_score"].includes(key);
  return el("td", { class: number ? "num" : key === "because" ? "long" : null }, number ? shown(Number(value)) : value);
}

/** Cells of a CSV; quotes may hold commas, line breaks and doubled quotes. */
function parse(csv) {
  const rows = [[]];
  const cells = /("(?:[^"]|"")*"|[^",\n]*)(,|\n|$)/gy;
  for (let found = cells.exec(csv); found && found.index < csv.length; found = cells.exec(csv)) {
    const [, cell, end] = found;
    rows.at(-1).push(cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '"') : cell);
    if (end === "\n") rows.push([]);
  }
  const [head, ...rest] = rows.filter((row) => row.length > 0);
  return { head, rows: rest, text: csv };
}

const drop = byId("drop");
for (const kind of ["dragover", "dragleave", "drop"]) {
  drop.addEventListener(kind, (event) => {
    event.preventDefault();
    drop.classList.toggle("over", kind === "dragover");
  });
}
drop.addEventListener("drop", async ({ dataTransfer }) => {
  if (dataTransfer.files.length) score(await dataTransfer.files[0].text());
});
byId("file").addEventListener("change", async ({ target }) => {
  if (target.files.length) score(await target.files[0].text());
});
byId("score").addEventListener("click", () => score(byId("pasted").value || byId("pasted").placeholder));
byId("reset").addEventListener("click", () => {
  fill(Object.fromEntries(described.columns.map((each) => [each.name, each.typical])));
  changed();
});

await load();
showWatch(path);
