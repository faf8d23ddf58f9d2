// Values in the details of a layer: its outputs, its inputs and its constants.

/** Returns an output as a card: declared and actual type and shape, and its value. */
function describeOutputPort(port, output, index, count, key) {
  const declared = `${port.type}${port.shape}`;
  const actual = output ? `${output.type}${formatShape(output.shape)}` : "";
  const names = (port.names ?? []).join(", ");
  const head = create("div.card-head", {}, create("strong", {}, count > 1 ? `Output ${index}` : actual || declared));
  if (count > 1) head.append(create("span.muted", {}, actual));
  return create(
    "div.card",
    {},
    head,
    createFacts([["Names", names], ["Declared", !actual || declared === actual ? "" : declared]]),
    output ? createValue(output, count > 1 ? `${key}.${index}` : key) : null,
  );
}

/** Returns statistics, histogram, pictures and first values of a value. */
function createValue(output, name) {
  const [min, max, mean, std, zeros, nans, infinities] = output.stats ?? [];
  const warnings = [nans ? `${formatCount(nans, "NaN")}` : "", infinities ? `${formatCount(infinities, "infinity").replace("infinitys", "infinities")}` : ""];
  const count = output.shape.reduce((product, length) => product * length, 1);
  const grid = create("div.statistics");
  const items = output.stats ? [["min", min], ["max", max], ["mean", mean], ["std", std]] : [];
  for (const [label, value] of items) grid.append(create("div", {}, create("span", {}, label), create("b", {}, formatNumber(value) || "–")));
  if (zeros) grid.append(create("div", {}, create("span", {}, "zeros"), create("b", {}, `${formatNumber((100 * zeros) / (output.sampled ?? count), 3)} %`)));
  if (output.sampled) grid.append(create("p.muted.sampled", {}, `of a sample of ${output.sampled.toLocaleString("en")} elements`));
  const warning = warnings.filter(Boolean).join(", ");
  return create(
    "div.value-box",
    {},
    warning ? create("p.message.error", {}, warning) : null,
    output.stats ? grid : null,
    createHistogram(output.histogram),
    createExpected(output),
    createPictures(output),
    createTensorButtons(output, name),
    createFirst(output),
  );
}

function createFirst(output) {
  if (!output.first?.length) return output.shape?.includes(0) ? create("p.muted", {}, "no elements") : null;
  const count = output.shape.reduce((product, length) => product * length, 1);
  const texts = output.first.map((element) => (typeof element === "string" && output.type === "string" ? JSON.stringify(element) : formatNumber(element)));
  const more = count > texts.length ? " …" : "";
  return create("pre.first", { "aria-label": "First values", tabindex: "0" }, texts.join("  ") + more);
}

function describeInput(input, index) {
  if (!input) return create("div.card", {}, create("div.card-head", {}, create("strong", {}, `${index}`), create("span.muted", {}, "not connected")));
  const [source, port] = input;
  const layer = layers[source];
  const output = getRecord(source)?.outputs?.[port];
  const declared = layer.outputs[port];
  const actual = output ? `${output.type}${formatShape(output.shape)}` : declared ? `${declared.type}${declared.shape}` : "";
  if (!layer.constant) {
    const suffix = layer.outputs.length > 1 ? `.${port}` : "";
    const link = createLink(source, (layerNodes[source].label || layer.type) + suffix);
    return create("div.card.slim", {}, create("div.card-head", {}, create("strong", {}, `${index}`), link, create("span.muted", {}, actual)));
  }
  const stored = output ? null : findStored(source);
  const details = create(
    "details",
    { "data-key": `constant ${source}`, open: selection.constant === source },
    create("summary.card-head", {}, create("strong", {}, `${index}`), create("span", {}, `constant ${layer.name.split("/").at(-1)}`), create("span.muted", {}, actual)),
    createFacts([["Key", getKey(source)], ["Computed by", describeConstant(source)], ["Stored as", stored && `${stored.type}${formatShape(stored.shape)}`]]),
    output ?? stored ? createValue(output ?? stored, getKey(source)) : create("p.muted", {}, "The report contains no values of this constant."),
  );
  return create("div.card.slim", {}, details);
}

/** Returns the value in the file that a constant without a value of its own is computed from. */
function findStored(number, depth = 0) {
  const output = getRecord(number)?.outputs?.[0];
  if (output || depth > 6) return output;
  return layers[number].inputs.map((input) => input && findStored(input[0], depth + 1)).find(Boolean);
}

/** Returns the operations that compute a constant, from the last to the first. */
function describeConstant(number) {
  const types = [];
  for (let current = number; current !== undefined && types.length < 6; ) {
    types.push(layers[current].type);
    current = layers[current].inputs.find((input) => input)?.[0];
  }
  return types.length > 1 ? types.join(" of ") : "";
}
