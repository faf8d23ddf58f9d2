// The table of layers: sortable, filtered by the search, and drawn only where it is visible.

const tableSection = document.getElementById("table");
const ROW_HEIGHT = 27;
const MAX_PRINTED_ROWS = 400;

const readStatistic = (index) => (number) => getRecord(number)?.outputs?.find(Boolean)?.stats?.[index];

/** The columns: title, value for sorting, text, and whether it is a number. */
const columns = [
  { title: "#", read: (n) => n, isNumber: true },
  { title: "Layer", read: (n) => getKey(n) },
  { title: "Type", read: (n) => layers[n].type },
  { title: "Output", read: (n) => readBytes(n), text: (n) => describeOutput(n) },
  { title: "Time", read: readSeconds, text: (n) => formatSeconds(readSeconds(n)) || (kernels.has(n) ? "fused" : ""), isNumber: true },
  { title: "Memory", read: readBytes, text: (n) => formatBytes(readBytes(n)), isNumber: true },
  { title: "Min", read: readStatistic(0), isNumber: true },
  { title: "Max", read: readStatistic(1), isNumber: true },
  { title: "Mean", read: readStatistic(2), isNumber: true },
];
if (!data.has_run) columns.splice(4);
columns.push({ title: "Weights", read: readWeights, text: (n) => formatBytes(readWeights(n)), isNumber: true });
if (data.other) {
  const text = (n) => (isOfOther(n) ? "only in the other" : listDifferences(n).join("; ") || DIFFERENCE_TEXTS[readDifference(n)]);
  columns.splice(3, 0, { title: "Difference", read: readDifference, text });
}
if (data.reference) {
  const errorColumns = [["own", "Own error"], ["accumulated", "Accumulated"]].map(([kind, title]) => ({
    title,
    // Equal values are the smallest error.
    read: (n) => ((db) => (db === null ? Infinity : db))(getErrors(n)?.[kind].db),
    text: (n) => ((error) => (error ? formatDecibels(error.db) : ""))(getErrors(n)?.[kind]),
    isNumber: true,
  }));
  columns.splice(4, 0, ...errorColumns, { title: "Verdict", read: (n) => getErrors(n)?.verdict });
}

function describeOutput(number) {
  const output = getRecord(number)?.outputs?.find(Boolean);
  const declared = layers[number].outputs[0];
  if (output) return `${output.type}${formatShape(output.shape)}`;
  return declared ? `${declared.type}${declared.shape}` : "";
}

const tableState = { column: 0, descending: false, rows: [], filter: () => true };
const tableBody = create("div.rows", { role: "rowgroup" });
const tableScroller = create("div.scroller", { tabindex: "0", role: "table", "aria-label": "Layers" });
const tableCount = create("p.count");

function buildTable() {
  const header = create("div.row.head", { role: "row" });
  columns.forEach((column, index) => {
    const button = create("button", { type: "button" }, column.title);
    button.addEventListener("click", () => sortTable(index));
    header.append(create(column.isNumber ? "div.cell.number" : "div.cell", { role: "columnheader" }, button));
  });
  tableScroller.style.setProperty("--columns", columns.map(getColumnWidth).join(" "));
  tableScroller.style.setProperty("--table-width", `${470 + 96 * columns.length - 96 * 4}px`);
  tableScroller.append(create("div", { role: "rowgroup", class: "head-group" }, header), tableBody);
  tableSection.append(tableCount, tableScroller);
  tableScroller.addEventListener("scroll", renderRows, { passive: true });
  tableScroller.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (!step || event.target.closest("button")) return;
    event.preventDefault();
    event.stopPropagation();
    const current = tableState.rows.indexOf(selection.node?.layer ?? -1);
    const next = Math.min(tableState.rows.length - 1, Math.max(0, current + step));
    if (tableState.rows.length) revealLayer(tableState.rows[next], { focus: false });
  });
  new ResizeObserver(renderRows).observe(tableScroller);
  updateTable();
}

const COLUMN_WIDTHS = {
  "#": "52px",
  Layer: "minmax(180px, 3fr)",
  Type: "minmax(110px, 1fr)",
  Output: "minmax(150px, 1.2fr)",
  Verdict: "104px",
  Difference: "minmax(140px, 1.5fr)",
};
const getColumnWidth = ({ title }) => COLUMN_WIDTHS[title] ?? "96px";

function sortTable(index) {
  const isSame = tableState.column === index;
  tableState.descending = isSame ? !tableState.descending : Boolean(columns[index].isNumber && index > 0 && !isError(index));
  tableState.column = index;
  updateTable();
  tableScroller.scrollTop = 0;
}

/** Errors in dB are the larger the smaller the number is. */
const isError = (index) => ["Own error", "Accumulated"].includes(columns[index].title);

/** Sorts and filters the rows. Layers without a value come last. */
function updateTable() {
  const { column, descending, filter } = tableState;
  const { read } = columns[column];
  const keyed = layerNodes.flatMap((node) => (node && isListed(node.layer) && filter(node.layer) ? [[read(node.layer), node.layer]] : []));
  const isMissing = (value) => value === undefined || value === null;
  keyed.sort(([a, i], [b, j]) => {
    if (isMissing(a) || isMissing(b)) return isMissing(a) - isMissing(b) || i - j;
    const order = typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a < b ? -1 : Number(a > b);
    return (descending ? -order : order) || i - j;
  });
  tableState.rows = keyed.map(([, number]) => number);
  tableScroller.querySelectorAll("[role=columnheader]").forEach((cell, index) => {
    if (index === column) cell.setAttribute("aria-sort", descending ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  });
  const total = layerNodes.filter((node) => node && isListed(node.layer)).length;
  const { length } = tableState.rows;
  setText(tableCount, length === total ? formatCount(total, "layer") : `${length} of ${formatCount(total, "layer")}`);
  renderRows();
}

/** Draws the rows that are visible. */
function renderRows() {
  const { rows } = tableState;
  tableBody.style.height = `${rows.length * ROW_HEIGHT}px`;
  const first = Math.max(0, Math.floor(tableScroller.scrollTop / ROW_HEIGHT) - 5);
  const last = Math.min(rows.length, first + Math.ceil(tableScroller.clientHeight / ROW_HEIGHT) + 10);
  const shown = rows.slice(first, last).map((number, i) => createRow(number, first + i));
  if (!rows.length) shown.push(create("p.empty", {}, "No layer matches the search."));
  tableBody.replaceChildren(...shown);
  tableScroller.setAttribute("aria-rowcount", String(rows.length + 1));
}

function createRow(number, index) {
  const row = create("div.row", { role: "row", "aria-rowindex": index + 2, "data-layer": number });
  row.style.top = `${index * ROW_HEIGHT}px`;
  row.classList.toggle("odd", index % 2 === 1);
  row.classList.toggle("selected", selection.node?.layer === number && selection.node.kind === "layer");
  for (const column of columns) {
    const value = column.text ? column.text(number) : column.read(number);
    const text = typeof value === "number" ? formatNumber(value) : value ?? "";
    const cell = create(column.isNumber ? "div.cell.number" : "div.cell", { role: "cell", title: text });
    // The end of a long key is the most telling part of it.
    if (column.title === "Layer") cell.classList.add("end");
    cell.append(column.title === "Layer" ? create("bdi", {}, text) : text);
    if (column.title === coloring.measure.label || (column.title === "Accumulated" && coloring.measure.id === "accumulated")) {
      paintCell(cell, number);
    }
    row.append(cell);
  }
  row.addEventListener("click", () => {
    revealLayer(number, { focus: false });
    chooseView("panel"); // on narrow screens, which show one part
  });
  return row;
}

/** Shows the color of the chosen measure as a bar in its column. */
function paintCell(cell, number) {
  const value = coloring.measure.read(number);
  if (value === undefined || !coloring.hasValues || getPosition(value) < 0.01) return;
  cell.classList.add("measured");
  cell.style.setProperty("--fill", `rgb(${interpolateColor(getPosition(value)).join(" ")})`);
  cell.style.setProperty("--share", `${100 * getPosition(value)}%`);
}

/** Scrolls the table to the selected layer. */
function scrollToSelection() {
  const index = tableState.rows.indexOf(selection.node?.kind === "layer" ? selection.node.layer : -1);
  if (index >= 0) {
    const top = index * ROW_HEIGHT;
    const height = tableScroller.clientHeight - ROW_HEIGHT;
    if (top < tableScroller.scrollTop || top > tableScroller.scrollTop + height - ROW_HEIGHT) {
      tableScroller.scrollTop = Math.max(0, top - height / 2);
    }
  }
  renderRows();
}

/** Draws the first rows without scrolling, for printing. */
function printRows() {
  const shown = tableState.rows.slice(0, MAX_PRINTED_ROWS);
  tableBody.replaceChildren(...shown.map(createRow));
  tableBody.style.height = `${shown.length * ROW_HEIGHT}px`;
}
