// What a model was asked: deferral rate, familiarity, class shares, and drift.

import { ask, bar, byId, el, percent, svg } from "./common.js";

const WIDTH = 480, HEIGHT = 150, LEFT = 58, BOTTOM = 24, TOP = 8;

/** Show the log of a model, if there is one. */
export async function showWatch(path) {
  const answer = await ask(`${path}/watch`);
  if (!answer.ok) return;
  const log = await answer.json();
  if (log.rows === 0) return;
  byId("watched").hidden = false;
  byId("watch").replaceChildren(verdict(log), ...charts(log));
}

function verdict({ rows, drift, unfamiliar, ambiguous }) {
  const promise = `A false alarm has a probability of at most ${percent(drift.false_alarm)}, however long it runs.`;
  const [strongest] = Object.keys(drift.evidence);
  const said = drift.alarm
    ? `The rows have changed: noticed at row ${drift.at}, by ${drift.by}.`
    : `No drift noticed; the strongest evidence is in ${strongest}.`;
  return el("div", { class: `verdict ${drift.alarm ? "defer" : "accept"}` },
    el("div", { class: "decision" }, drift.alarm ? "Drift" : "No drift"), el("p", {}, `${said} ${promise}`),
    el("p", { class: "quiet" }, `${rows} rows, ${percent(unfamiliar + ambiguous)} deferred: ${percent(unfamiliar)} unfamiliar, ${percent(ambiguous)} ambiguous.`));
}

function charts({ minutes, classes, drift }) {
  const deferred = minutes.map((each) => [each.time, (each.unfamiliar + each.ambiguous) / each.rows]);
  const shares = Object.entries(classes).flatMap(([label, { predicted, training }]) => [
    bar(label, predicted, 1, "", percent(predicted)), bar("in training", training, 1, "calm", percent(training)),
  ]);
  return [el("div", { class: "pair" },
    chart("Deferred rows", deferred, 1, percent),
    chart("Familiarity: 50 % is usual, less is stranger", minutes.map((each) => [each.time, each.familiarity]), 1, percent, 0.5),
    chart("Evidence of drift, in nats", minutes.map((each) => [each.time, Math.max(each.evidence, 0)]),
      Math.max(drift.threshold * 1.2, ...minutes.map((each) => each.evidence)), (value) => value.toFixed(1), drift.threshold),
    el("figure", {}, el("strong", {}, "Predicted classes"), el("ul", { class: "bars" }, ...shares)))];
}

function chart(title, values, most, format, limit) {
  const first = values[0][0], last = Math.max(values.at(-1)[0], first + 60);
  const x = (time) => LEFT + ((time - first) / (last - first)) * (WIDTH - LEFT - 8);
  const y = (value) => HEIGHT - BOTTOM - (Math.min(value, most) / most) * (HEIGHT - BOTTOM - TOP);
  const clock = (time) => new Date(1000 * time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const steps = values.length > 1 ? values : [values[0], [last, values[0][1]]];
  const line = steps.map(([time, value], i) => `${i ? "L" : "M"}${x(time).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const parts = [0, most / 2, most].flatMap((value) => [
    svg("path", { class: "grid", d: `M${LEFT} ${y(value)}H${WIDTH - 8}` }),
    svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, format(value)),
  ]);
  if (limit) parts.push(svg("path", { class: "line limit", d: `M${LEFT} ${y(limit)}H${WIDTH - 8}` }));
  parts.push(svg("path", { class: "line main", d: line }),
    svg("text", { x: LEFT, y: HEIGHT - 6 }, clock(first)),
    svg("text", { x: WIDTH - 8, y: HEIGHT - 6, "text-anchor": "end" }, clock(last)));
  return el("figure", {}, el("strong", {}, title),
    svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title }, ...parts));
}
