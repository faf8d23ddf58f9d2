(() => {
"use strict";

const table = document.querySelector("table");
const groups = [...table.tBodies];
const search = document.getElementById("search");
const status = document.getElementById("status");

const CHOICES = {
  findings: (data) => Number(data.findings) > 0,
  unknown: (data) => Number(data.unknown) > 0,
  refused: (data) => Number(data.refused) > 0,
  agree: (data) => data.agree === data.cases,
};

function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const choice = CHOICES[status.value];
  let shown = 0;
  for (const group of groups) {
    const text = group.textContent.toLowerCase();
    group.hidden = !(words.every((word) => text.includes(word)) && (!choice || choice(group.dataset)));
    shown += !group.hidden;
  }
  document.getElementById("count").textContent = `${shown} of ${groups.length} operations`;
}

function sort(header) {
  const column = header.cellIndex;
  const isNumber = header.classList.contains("number");
  const isDescending = header.getAttribute("aria-sort") === (isNumber ? null : "ascending");
  for (const other of header.parentElement.cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
  const read = (group) => group.rows[0].cells[column].textContent;
  const compare = isNumber ? (a, b) => read(a) - read(b) : (a, b) => read(a).localeCompare(read(b));
  groups.sort((a, b) => (isDescending ? compare(b, a) : compare(a, b)));
  table.append(...groups);
}

for (const header of document.querySelectorAll("th")) {
  header.querySelector("button").addEventListener("click", () => sort(header));
}
search.addEventListener("input", filter);
status.addEventListener("change", filter);
document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
});
filter();
document.documentElement.dataset.ready = "true";
})();
