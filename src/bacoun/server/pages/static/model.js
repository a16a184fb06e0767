// A model's page: a row to change, tables to score, and what the model was asked so far.

import { ask, bar, byId, complain, data, debounced, el, percent, rowsLikeThis, shown } from "./common.js";
import { control, fill, nearestKnown, onFile, text, values } from "./form.js";
import { showWatch } from "./watch.js";

const path = location.pathname;
const name = decodeURIComponent(path.split("/").pop());
const api = `/v1/models/${encodeURIComponent(name)}`;
const LONG = 4000;
let described = null;
let example = ""; // a table of one row, in CSV
let latest = 0;

// --- one row ------------------------------------------------------------------------------------

/** The address holds what differs from the typical row, but no photos and no long texts. */
const changed = debounced(() => {
  const query = new URLSearchParams(), row = values();
  for (const { name: column, kind, typical } of described.columns) {
    const value = row[column];
    if (kind !== "photo" && value.length < LONG && value !== text(typical)) query.set(column, value);
  }
  history.replaceState(null, "", query.size ? `?${query}` : path);
  load();
}, 120);

async function load() {
  const mine = ++latest;
  try {
    const body = described && JSON.stringify({ rows: [values()] });
    const headers = { "Content-Type": "application/json" };
    const found = await (body ? data(path, { method: "POST", headers, body }) : data(location.href));
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
  byId("form").replaceChildren(...found.columns.map((each, place) => control(each, place, changed)));
  fill(found.row);
  byId("target").textContent = found.target;
  byId("rule").replaceChildren(...found.rule.split("\n").map((each) => el("li", {}, each)));
  byId("made").textContent = `Fitted ${found.made.fitted}. Not used: ${Object.keys(found.ignored).join(", ") || "no column"}.`;
  const head = found.columns.map((each) => quoted(each.name)).join(",");
  example = `${head}\n${found.columns.map((each) => quoted(text(each.typical))).join(",")}`;
  byId("pasted").placeholder = example.replaceAll(/(;base64,.{8})[^"]*/g, "$1…");
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

function show({ scored, explanation, classes, nearest }) {
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
  byId("nearest").replaceChildren(...nearestKnown(nearest));
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
    for (const { column, expected } of surprises.slice(0, repairs || 3)) {
      const { kind } = described.columns.find((each) => each.name === column);
      notes[column] = ["text", "photo"].includes(kind) ? `unlike the known ${kind}s` : `expected ${expected}`;
    }
    for (const each of unseen) notes[each.column] ??= each.training;
  }
  for (const cell of document.querySelectorAll("#form .cell")) {
    const note = cell.querySelector("small"), said = notes[cell.querySelector("[data-column]").dataset.column];
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

onFile(byId("drop"), byId("file"), async (file) => score(await file.text()));
byId("score").addEventListener("click", () => score(byId("pasted").value || example));
byId("reset").addEventListener("click", () => {
  fill(Object.fromEntries(described.columns.map((each) => [each.name, each.typical])));
  changed();
});

await load();
showWatch(path);
