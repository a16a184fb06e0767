// The interface of the server, from its OpenAPI document.

import { byId, coded, complain, data, el } from "./common.js";

const TITLES = {
  score: "Score rows", "open inference protocol": "Open Inference Protocol v2", health: "How the server is",
  pages: "Pages", playground: "Playground",
};

function operation(path, method, { summary, description, parameters = [], requestBody, responses }) {
  const content = requestBody?.content ?? {};
  const example = content["application/json"]?.example;
  const lines = parameters.map((each) => el("tr", {}, el("th", { scope: "row" }, el("code", {}, each.name)),
    el("td", {}, each.in), el("td", {}, each.description ?? each.schema?.description ?? "")));
  const statuses = Object.entries(responses).map(([status, each]) => el("tr", {},
    el("th", { scope: "row" }, status), el("td", {}, each.description)));
  const [first, ...rest] = (description ?? summary ?? "").split("\n\n");
  return el("details", { class: "operation" },
    el("summary", {}, el("code", { class: "method" }, method.toUpperCase()), " ", el("code", {}, path), ` ${first}`),
    ...rest.map((each) => el("p", {}, ...coded(each))),
    ...(lines.length ? [el("table", {}, el("caption", {}, "Parameters"), el("tbody", {}, ...lines))] : []),
    ...(requestBody ? [el("p", { class: "quiet" }, `Body: ${Object.keys(content).join(", ")}`)] : []),
    el("pre", {}, el("code", {}, curl(path, method, example, Object.keys(content)[0]))),
    el("table", {}, el("caption", {}, "Answers"), el("tbody", {}, ...statuses)));
}

function curl(path, method, example, type) {
  const address = location.origin + path.replace("{name}", "NAME");
  if (method === "get") return `curl -H 'Accept: application/json' ${address}`;
  if (type.startsWith("image/")) return `curl -H 'Content-Type: ${type}' --data-binary @photo.jpg \\\n  ${address}`;
  return `curl -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(example ?? {})}' \\\n  ${address}`;
}

try {
  const { paths } = await data("/openapi.json");
  const groups = {};
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, each] of Object.entries(methods)) {
      (groups[each.tags?.[0] ?? "other"] ??= []).push(operation(path, method, each));
    }
  }
  byId("operations").replaceChildren(...Object.entries(groups).map(([tag, found]) =>
    el("section", {}, el("h2", {}, TITLES[tag] ?? tag), ...found)));
} catch (error) {
  complain(error.message);
}
