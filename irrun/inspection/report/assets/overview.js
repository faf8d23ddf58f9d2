// The overview of the run: the model, its inputs and outputs, its errors and its times.

/** Kernels of many layers are named by the types of this many. */
const NAMED_TYPES = 3;

function describeRun() {
  const own = layers.filter((_, number) => !isOfOther(number));
  const drawn = layerNodes.filter((node) => node && !isOfOther(node.layer)).map((node) => node.layer);
  const slowest = drawn
    .filter((number) => readSeconds(number))
    .sort((a, b) => readSeconds(b) - readSeconds(a))
    .slice(0, 6);
  return [
    create("h2", {}, "Overview"),
    data.run.error ? create("p.message.error", {}, create("strong", {}, "The run failed. "), data.run.error) : null,
    describeFindings(),
    describePair(),
    ...describeReference(),
    section(
      "Model",
      createFacts([
        ["File", data.model.path],
        ["Name", data.model.names[1]],
        ["IR version", String(data.model.version)],
        ["Layers", `${drawn.length.toLocaleString("en")}, and ${formatCount(own.length - drawn.length, "constant")}`],
        ["Weights", formatBytes(drawn.reduce((sum, number) => sum + (readWeights(number) ?? 0), 0) || null)],
        ["Run time", describeRunTime()],
      ]),
    ),
    section("Inputs", data.inputs.map((number) => describeValue(layers[number].name || "input", number))),
    section("Outputs", data.outputs.map(({ name, layer }) => describeValue(name, layer))),
    section("Slowest layers", describeSlowest(slowest)),
    section("Notes", data.notes.length ? create("ul", {}, ...data.notes.map((note) => create("li", {}, note))) : null),
    data.has_run ? null : create("p.hint", {}, "The model did not run: with --input, irrun report shows its values and times."),
    create("p.hint", {}, "Select a layer in the graph or in the table to see its values. Press ? for keyboard shortcuts."),
    create("p.hint", {}, `Made with irrun ${data.irrun}.`),
  ];
}

/** Returns an input or output of the model as a card. */
function describeValue(name, number) {
  const output = getRecord(number)?.outputs?.[0];
  const head = create("div.card-head", {}, createLink(number, name));
  if (output) head.append(create("span.muted", {}, `${output.type}${formatShape(output.shape)}`));
  return create("div.card", {}, head, output ? createPictures(output) : null, output ? createFirst(output) : null);
}

function describeReference() {
  const { reference } = data;
  if (!reference) return [];
  const rows = reference.outputs.map(({ name, error, agrees }) => [
    name,
    error ? `${formatError(error)}${agrees ? "" : " (differs)"}` : "missing",
  ]);
  const matched = `${reference.matched} of ${formatCount(reference.total, "layer")} matched`;
  return [
    section(`Compared with ${reference.name}`, createFacts([["Precision", reference.precision], ["Layers", matched], ...rows])),
    reference.notes.length ? create("ul.notes", {}, ...reference.notes.map((note) => create("li", {}, note))) : null,
  ];
}

function describeSlowest(numbers) {
  if (!numbers.length) return null;
  const largest = readSeconds(numbers[0]);
  const list = create("ol.bars");
  for (const number of numbers) {
    const seconds = readSeconds(number);
    const item = create("li", {}, createLink(number, getKey(number)));
    const share = ` · ${formatNumber((100 * seconds) / data.times.seconds, 2)} %`;
    item.append(create("span.muted", {}, `${nameTypes(kernels.get(number))} · ${formatSeconds(seconds)}${share}`));
    item.style.setProperty("--share", `${(100 * seconds) / largest}%`);
    list.append(item);
  }
  return list;
}

/** Returns the types of the layers that a kernel computes, the first ones of many. */
function nameTypes({ layers: numbers }) {
  const types = numbers.map((number) => layers[number].type);
  const shown = types.length > NAMED_TYPES + 1 ? [...types.slice(0, NAMED_TYPES), `${types.length - NAMED_TYPES} more`] : types;
  return shown.join(" + ");
}

function describeRunTime() {
  if (!data.times) return null;
  const { seconds, source, runs } = data.times;
  return `${formatSeconds(seconds)} (${runs > 1 ? `median of ${runs}, ` : ""}${source})`;
}
