"use strict";

// The theme follows the system until the reader chooses; the choice is kept where that is allowed.
const root = document.documentElement;
const toggle = document.getElementById("theme");
const system = matchMedia("(prefers-color-scheme: dark)");

function chosen(value) {
  try {
    if (value) localStorage.setItem("bacoun-theme", value);
    return localStorage.getItem("bacoun-theme");
  } catch {
    return value ?? null;
  }
}

function show(theme) {
  if (theme) root.dataset.theme = theme;
  const dark = (theme ?? (system.matches ? "dark" : "light")) === "dark";
  toggle.textContent = dark ? "Light theme" : "Dark theme";
  toggle.dataset.next = dark ? "light" : "dark";
}

toggle.addEventListener("click", () => show(chosen(toggle.dataset.next) ?? toggle.dataset.next));
system.addEventListener("change", () => show(chosen()));
show(chosen());
toggle.hidden = false;

// Paper cannot be unfolded.
addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("details:not([open])")) {
    folded.open = true;
    folded.dataset.folded = "";
  }
});
addEventListener("afterprint", () => {
  for (const opened of document.querySelectorAll("details[data-folded]")) {
    opened.open = false;
    delete opened.dataset.folded;
  }
});
