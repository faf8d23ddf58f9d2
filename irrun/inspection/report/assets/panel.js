// The panel: an overview of the run, or everything about the selected layer or group; see overview.js and values.js.

const panel = document.getElementById("panel");

/** Shows the selection, or the overview if nothing is selected. */
function updatePanel({ keepScroll = false } = {}) {
  const { scrollTop } = panel;
  const { node } = selection;
  const opened = new Set([...panel.querySelectorAll("details[open]")].map((element) => element.dataset.key));
  let content;
  if (!node) content = describeRun();
  else content = [describeFindings({ isShort: true }), causes.length ? null : describePair({ isShort: true }), ...(node.kind === "layer" ? describeLayer(node) : describeGroup(node))];
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

/** Returns layers as a list of links with their types, or null if there are none. */
function listLayers(numbers) {
  if (!numbers.length) return null;
  const describe = (number) => [createLink(number, layerNodes[number]?.label || getKey(number)), create("span.muted", {}, ` ${layers[number].type}`)];
  return create("ul.plain-list", {}, ...numbers.map((number) => create("li", {}, ...describe(number))));
}

function describeGroup(node) {
  const types = new Map();
  for (const number of node.layers) types.set(layers[number].type, (types.get(layers[number].type) ?? 0) + 1);
  const counted = [...types].sort((a, b) => b[1] - a[1]);
  const facts = measures
    .filter((measure) => measure.id !== "type")
    .map((measure) => [measure.label, measure.format(readNode(node, measure) ?? undefined)]);
  const list = listLayers(node.layers.slice(0, 200));
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
  const overview = create("button.link", { type: "button" }, other ? "both models" : data.model.names[0]);
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
    record?.attention ? section("Attention", createPictures(record.attention), createTensorButtons(record.attention, `${getKey(number)}.attention`)) : null,
    section("Inputs", layer.inputs.map((input, i) => describeInput(input, i))),
    section("Outside of the body", describeOutside(number)),
    section("Consumers", listLayers(consumers[number].slice(0, 100))),
    section("Attributes", createFacts(Object.entries(layer.attributes ?? {}))),
  ];
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
  return [
    section(
      "Error",
      createFacts([
        ["Own", formatError(errors.own)],
        ["Accumulated", formatError(errors.accumulated)],
        ["Verdict", errors.verdict],
        ["Reason", errors.reason],
      ]),
    ),
  ];
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

async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    setText(button, "copied");
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling ?? button);
    setText(button, "selected");
  }
}
