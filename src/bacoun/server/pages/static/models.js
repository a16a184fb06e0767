// The list of models.

import { byId, complain, data, el, percent } from "./common.js";

async function card({ name, page, report }) {
  const address = page.split("/").map(encodeURIComponent).join("/");
  const links = [el("a", { href: address }, "Try it")];
  if (report) links.push(el("a", { href: `${address}/report` }, "Report"));
  const text = el("p", { class: "quiet" }, "…");
  const node = el("li", {}, el("h2", {}, el("a", { href: address }, name)), text, el("div", { class: "row-of" }, ...links));
  data(`/v1/models/${encodeURIComponent(name)}`).then((found) => {
    text.textContent = `${found.target}: ${found.classes.length} classes from ${found.columns.length} columns, ` +
      `fitted to ${found.facts.rows} rows, accuracy ${percent(found.facts.accuracy)}.`;
  }, (error) => { text.textContent = error.message; });
  return node;
}

try {
  const { models } = await data("/models");
  byId("models").replaceChildren(...await Promise.all(models.map(card)));
  byId("none").hidden = models.length > 0;
} catch (error) {
  complain(error.message);
}
