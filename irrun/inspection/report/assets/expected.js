// Values of the reference beside those of the model: statistics, maps on one scale, and a scatter plot.

/** Returns what the reference has instead of a value, or null if it is equal or unknown. */
function createExpected(output) {
  const { reference } = output;
  if (!reference) return null;
  const content = [createStatisticsTable(output, reference), createComparedMaps(reference), createScatter(reference.points)];
  return create("section.expected", { "aria-label": "Reference" }, create("h4", {}, "Beside the reference"), ...content.filter(Boolean));
}

/** Returns the statistics of a value and of the reference as rows. */
function createStatisticsTable(output, reference) {
  const names = ["min", "max", "mean", "std"];
  const row = (title, { stats }) => [title, ...names.map((_, i) => formatNumber(stats?.[i]) || "–")];
  const rows = [row("model", output), row("reference", reference)];
  const types = [output, reference].map(({ type, shape }) => `${type}${formatShape(shape)}`);
  const table = create(
    "table.compared-statistics",
    {},
    create("tr", {}, ...["", ...names].map((title) => create("th", {}, title))),
    ...rows.map(([title, ...cells]) => create("tr", {}, create("th", {}, title), ...cells.map((cell) => create("td", {}, cell)))),
  );
  return types[0] === types[1] ? table : create("div", {}, table, create("p.muted", {}, `model ${types[0]}, reference ${types[1]}`));
}

/** Returns the maps that differ most: the model's, the reference's, and the magnitude of the difference. */
function createComparedMaps(reference) {
  const picture = data.compared[reference.picture];
  if (!picture) return null;
  const isWide = picture.size[1] > 2 * picture.size[0];
  const grid = create("div.maps", { "data-count": isWide ? "wide" : 3 });
  const titles = ["model", "reference", "|difference|"];
  for (let i = 0; i < picture.count; i += 1) {
    const [low, high] = picture.bounds[i];
    const canvas = drawMap(picture, i);
    const number = picture.total > 1 ? ` ${picture.numbers[Math.floor(i / 3)]}` : "";
    const label = `${titles[i % 3]}${number}: ${formatNumber(low, 3)} to ${formatNumber(high, 3)}`;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", label);
    grid.append(create("div.map", { title: label }, canvas, create("span", {}, label)));
  }
  const shown = picture.total > 1 ? `the ${picture.count / 3} of ${picture.total} maps that differ most, ` : "";
  return create("figure.pictures", { "data-kind": "compared" }, grid, create("figcaption", {}, `${shown}model and reference on one scale`));
}

/** Returns a scatter plot of elements: the reference along x, the model along y. */
function createScatter(points) {
  if (!points) return null;
  const bytes = Uint8Array.from(atob(points.data), (character) => character.charCodeAt(0));
  const [low, high] = points.bounds;
  const svg = createSvg("svg", { viewBox: "-4 -4 263 263", class: "scatter", role: "img" });
  svg.setAttribute("aria-label", `Scatter plot of ${bytes.length / 2} elements, reference along x, model along y`);
  svg.append(createSvg("rect", { x: -4, y: -4, width: 263, height: 263 }), createSvg("line", { x1: 0, y1: 255, x2: 255, y2: 0 }));
  for (let i = 0; i < bytes.length; i += 2) svg.append(createSvg("circle", { cx: bytes[i], cy: 255 - bytes[i + 1], r: 2.6 }));
  const caption = `reference → and model ↑, both ${formatNumber(low)} to ${formatNumber(high)}; some elements, with those that differ most`;
  return create("figure.scatter-box", {}, svg, create("figcaption", {}, caption));
}
