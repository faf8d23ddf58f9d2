// The panel: an overview of the run, or everything about the selected layer or group.

const panel = document.getElementById("panel");

/** Shows the selection, or the overview if nothing is selected. */
function updatePanel({ keepScroll = false } = {}) {
  const { scrollTop } = panel;
  const { node } = selection;
  const opened = new Set([...panel.querySelectorAll("details[open]")].map((element) => element.dataset.key));
  let content;
  if (!node) content = describeRun();
  else content = [describeFindings({ isShort: true }), describePair({ isShort: true }), ...(node.kind === "layer" ? describeLayer(node) : describeGroup(node))];
  panel.replaceChildren(...content.filter(Boolean));
  if (keepScroll) {
    for (const element of panel.querySelectorAll("details")) element.open ||= opened.has(element.dataset.key);
    panel.scrollTop = scrollTop;
  } else {
    panel.scrollTop = 0;
  }
}

const section = (title, ...children) => {
  const content = children.flat().filter(Boolean);
  return content.length ? create("section", {}, create("h3", {}, title), ...content) : null;
};

/** Returns a link to a layer, in certain iterations of the bodies that contain it. */
function createLink(number, text = getKey(number), tag = "") {
  const target = layerNodes[number] ? number : consumers[number][0];
  if (target === undefined) return create("span", {}, text);
  const link = create("button.link", { type: "button", title: getKey(number) }, text);
  link.addEventListener("click", () => revealLayer(target, { constant: layers[number].constant ? number : null, tag }));
  return link;
}

/** Returns facts as a list of terms and descriptions. */
function createFacts(facts) {
  const list = create("dl.facts");
  for (const [term, description] of facts) {
    if (description === "" || description === null || description === undefined) continue;
    list.append(create("dt", {}, term), create("dd", {}, description));
  }
  return list.children.length ? list : null;
}

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
        ["Weights", formatBytes(drawn.reduce((sum, number) => sum + (readWeights(number) ?? 0), 0))],
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
    error ? `${formatDecibels(error.db)}, largest difference ${formatNumber(error.abs)}${agrees ? "" : " (differs)"}` : "missing",
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

function describeGroup(node) {
  const types = new Map();
  for (const number of node.layers) types.set(layers[number].type, (types.get(layers[number].type) ?? 0) + 1);
  const counted = [...types].sort((a, b) => b[1] - a[1]);
  const facts = measures
    .filter((measure) => measure.id !== "type")
    .map((measure) => [measure.label, measure.format(readNode(node, measure) ?? undefined)]);
  const list = create("ul.plain-list");
  for (const number of node.layers.slice(0, 200)) {
    list.append(create("li", {}, createLink(number, layerNodes[number].label || getKey(number)), create("span.muted", {}, ` ${layers[number].type}`)));
  }
  if (node.layers.length > 200) list.append(create("li.muted", {}, `and ${formatCount(node.layers.length - 200, "layer")} more`));
  const button = create("button.action", { type: "button" }, isOpen(node) ? "Close group" : "Open group");
  button.addEventListener("click", () => toggleNode(node));
  return [
    createPath(node),
    create("h2", {}, node.label),
    create("p.muted", {}, `Group of ${formatCount(node.layers.length, "layer")}`),
    button,
    section("Together", createFacts(facts)),
    section("Operations", create("p", {}, counted.map(([type, count]) => `${count} × ${type}`).join(", "))),
    section("Layers", list),
  ];
}

/** Returns the groups and bodies that contain a node, as links. */
function createPath(node) {
  const path = create("nav.path", { "aria-label": "Groups" });
  const overview = create("button.link", { type: "button" }, data.model.names[0]);
  overview.addEventListener("click", () => selectNode(null));
  path.append(overview);
  for (const ancestor of getAncestors(node)) {
    const link = create("button.link", { type: "button" }, ancestor.label || layers[ancestor.layer].type);
    link.addEventListener("click", () => selectNode(ancestor, { center: true }));
    path.append(" › ", link);
  }
  return path;
}

function describeLayer(node) {
  const number = node.layer;
  const layer = layers[number];
  const record = getRecord(number);
  const copy = create("button.link", { type: "button", title: "Copy the key" }, "copy");
  copy.addEventListener("click", () => copyText(getKey(number), copy));
  const opener = create("button.action", { type: "button" }, isOpen(node) ? "Close body" : "Open body");
  opener.addEventListener("click", () => toggleNode(node));
  return [
    createPath(node),
    create("h2", {}, layer.type, " ", create("small", {}, layer.version)),
    create("p.key", {}, create("code", {}, getKey(number)), " ", copy),
    node.members.length ? opener : null,
    node.members.length && hasIterations(number) ? create("div.iteration", {}, createSlider(number)) : null,
    ...getOwners(number)
      .filter(hasIterations)
      .map((outer) => create("div.iteration", { title: getKey(outer) }, createSlider(outer))),
    describePartner(number),
    record || !data.has_run || isOfOther(number) ? null : create("p.message", {}, explainMissing(number)),
    createFacts([
      ["Time", describeTime(number)],
      ["Memory", formatBytes(readBytes(number))],
      ["Weights", formatBytes(readWeights(number))],
    ]),
    ...describeErrors(number),
    section("Outputs", layer.outputs.map((port, i) => describeOutputPort(port, record?.outputs?.[i], i, layer.outputs.length, getKey(number)))),
    layer.type === "Result" && record?.outputs?.[0] ? section("Value", createValue(record.outputs[0], getKey(number))) : null,
    section("Attention", record?.attention && createPictures(record.attention), record?.attention && createTensorButtons(record.attention, `${getKey(number)}.attention`)),
    section("Inputs", layer.inputs.map((input, i) => describeInput(input, i))),
    section("Outside of the body", describeOutside(number)),
    section("Consumers", consumers[number].length ? create("ul.plain-list", {}, ...consumers[number].slice(0, 100).map((consumer) => create("li", {}, createLink(consumer, layerNodes[consumer]?.label || getKey(consumer)), create("span.muted", {}, ` ${layers[consumer].type}`)))) : null),
    section("Attributes", createFacts(Object.entries(layer.attributes ?? {}))),
  ];
}

/** Returns the types of the layers that a kernel computes. */
const nameTypes = (kernel) => kernel.layers.map((number) => layers[number].type).join(" + ");

function describeRunTime() {
  if (!data.times) return null;
  const { seconds, source, runs } = data.times;
  return `${formatSeconds(seconds)} (${runs > 1 ? `median of ${runs}, ` : ""}${source})`;
}

/** Returns the time of a layer, or that of the kernel that computes it with others, and which run it is from. */
function describeTime(number) {
  const kernel = kernels.get(number);
  if (!data.times || layers[number].constant) return "";
  if (!kernel) return /^(Parameter|Result)$/.test(layers[number].type) ? "" : `no kernel of its own in ${data.times.source}`;
  const share = `${formatNumber((100 * kernel.seconds) / data.times.seconds, 3)} % of ${data.times.source}`;
  const calls = kernel.calls > 1 ? `, ${kernel.calls} calls together` : "";
  const facts = create("div", {}, `${formatSeconds(kernel.seconds)}, ${share}${calls}`);
  const others = kernel.layers.filter((other) => other !== number);
  if (others.length) {
    facts.append(create("br"), "one kernel with ");
    others.forEach((other, i) => facts.append(i ? ", " : "", createLink(other, `${layers[other].type} ${layerNodes[other]?.label ?? ""}`)));
  }
  if (kernel.text) facts.append(create("br"), create("span.muted", {}, kernel.text));
  return facts;
}

/** Returns whether the iteration of a layer's bodies can be chosen. */
const hasIterations = (number) => layers[number].type !== "If" && data.has_run && !isOfOther(number);

function explainMissing(number) {
  const owner = getOwner(number);
  if (data.run.error) return "The run failed before this layer.";
  if (owner !== null && layers[owner].type === "If") return "This branch was not executed.";
  if (owner !== null) return "The report contains no values of this layer in this iteration.";
  return "The report contains no values of this layer.";
}

function describeErrors(number) {
  const errors = getErrors(number);
  if (!data.reference) return [];
  if (!errors) return [section("Error", create("p.muted", {}, "The reference has no matching layer."))];
  const format = ({ db, abs }) => (db === null ? "equal" : `${formatDecibels(db)}, largest difference ${formatNumber(abs)}`);
  return [
    section(
      "Error",
      createFacts([
        ["Own", format(errors.own)],
        ["Accumulated", format(errors.accumulated)],
        ["Verdict", errors.verdict],
        ["Reason", errors.reason],
      ]),
    ),
  ];
}

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
  if (zeros) grid.append(create("div", {}, create("span", {}, "zeros"), create("b", {}, `${formatNumber((100 * zeros) / count, 3)} %`)));
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

/** Returns what a Parameter or Result of a body is connected to outside, and in the next iteration. */
function describeOutside(number) {
  const graph = graphs[layers[number].graph];
  if (graph.owner === null) return null;
  const list = create("ul.plain-list");
  const sliced = (axis) => (axis === null ? "" : `, ${layers[number].type === "Parameter" ? "sliced" : "concatenated"} along axis ${axis}`);
  for (const [position, inner, axis] of graph.inputs) {
    const source = layers[graph.owner].inputs[position];
    if (inner === number && source) list.append(create("li", {}, `Input ${position}: `, createLink(source[0]), sliced(axis)));
  }
  for (const [position, inner, axis] of graph.outputs) {
    if (inner === number) list.append(create("li", {}, `Output ${position} of `, createLink(graph.owner), sliced(axis)));
  }
  for (const [from, to] of graph.back_edges) {
    if (to === number) list.append(create("li", {}, "In later iterations: ", createLink(from)));
    if (from === number) list.append(create("li", {}, "In the next iteration: ", createLink(to)));
  }
  return list.children.length ? list : null;
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

async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    setText(button, "copied");
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling ?? button);
    setText(button, "selected");
  }
}
