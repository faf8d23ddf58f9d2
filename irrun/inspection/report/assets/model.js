// The model: layers, groups and bodies as a tree of nodes, and the values of the chosen iterations.

/**
 * A node of the drawing: a layer, a group of layers, or one of several bodies of a layer.
 * @typedef {object} DrawnNode
 * @property {string} id A unique identifier.
 * @property {"layer" | "group" | "body"} kind
 * @property {number} layer The number of the layer; -1 for groups.
 * @property {string} label
 * @property {DrawnNode | null} parent The node that contains it; null for the root.
 * @property {DrawnNode[]} members The nodes that it contains, for groups and layers with bodies.
 * @property {number[]} layers The layers in it, without those in bodies of these layers. For a layer with one body,
 *     the layers of the body; for a layer with several, none.
 * @property {number | undefined} graph The graph of the body that it shows.
 */

const data = JSON.parse(document.getElementById("data").textContent);
const { layers, graphs, pictures } = data;

/** The consumers of each layer, as numbers of layers that are drawn. */
const consumers = layers.map(() => []);
for (const [number, layer] of layers.entries()) {
  if (layer.constant) continue;
  for (const input of layer.inputs) {
    if (input && !consumers[input[0]].includes(number)) consumers[input[0]].push(number);
  }
}

/** @type {Map<string, DrawnNode>} */
const nodes = new Map();
/** The nodes of layers by their number; undefined for constants. @type {DrawnNode[]} */
const layerNodes = [];

/** @returns {DrawnNode} */
function createNode(kind, label, parent, layer = -1) {
  const node = { id: `${kind[0]}${nodes.size}`, kind, layer, label, parent, members: [], layers: [] };
  nodes.set(node.id, node);
  return node;
}

/** Adds the members of a group or a graph to a node. */
function addMembers(parent, members) {
  for (const member of members) {
    if (typeof member === "number") {
      addLayer(parent, member);
    } else {
      const group = createNode("group", member.label, parent);
      parent.members.push(group);
      addMembers(group, member.members);
      parent.layers.push(...group.layers);
    }
  }
}

function addLayer(parent, number) {
  const layer = layers[number];
  const short = shortenName(layer);
  const isGroupName = short === parent.label.split(".").at(-1);
  const node = createNode("layer", isGroupName ? layer.name.split("/").at(-1) : short, parent, number);
  layerNodes[number] = node;
  parent.members.push(node);
  parent.layers.push(number);
  const bodies = layer.bodies ?? [];
  if (bodies.length === 1) {
    [node.graph] = bodies;
    addMembers(node, graphs[node.graph].members);
  }
  if (bodies.length > 1) {
    for (const body of bodies) {
      const child = createNode("body", graphs[body].tag, node);
      child.graph = body;
      node.members.push(child);
      addMembers(child, graphs[body].members);
    }
  }
}

/** Returns the most telling part of the name of a layer. */
function shortenName(layer) {
  const type = layer.type.toLowerCase();
  const parts = layer.name.split("/").filter(Boolean);
  while (parts.length > 1) {
    const last = parts.at(-1).toLowerCase().replace(/_\d+$/, "");
    if (last !== "withoutbiases" && !type.startsWith(last) && !/^(aten|prim|prims)::/.test(last)) break;
    parts.pop();
  }
  const name = parts.at(-1) ?? "";
  const pieces = name.replace(/^__module\./, "").split(".");
  if (!name.startsWith("__module.") || pieces.length < 2) return pieces.join(".");
  return /^\d+$/.test(pieces.at(-1)) ? pieces.slice(-2).join(".") : pieces.at(-1);
}

const root = createNode("group", data.model.names[0], null);
if (data.other) {
  for (const [names, graph] of [[data.model.names, 0], [data.other.names, data.other.graph]]) {
    const model = createNode("group", names[0], root);
    root.members.push(model);
    addMembers(model, graphs[graph].members);
    root.layers.push(...model.layers);
  }
} else {
  addMembers(root, graphs[0].members);
}

/** The number of the layer whose body contains a layer, or null. */
const getOwner = (number) => graphs[layers[number].graph].owner;

/** The chosen iteration of each layer that owns bodies. @type {Map<number, number>} */
const chosenIterations = new Map();

/** Returns the iterations of the bodies that contain a layer as the key of a record: "", "3", "3,0". */
function getTag(number) {
  const owner = getOwner(number);
  if (owner === null) return "";
  const outer = getTag(owner);
  const iteration = getIteration(owner);
  return outer ? `${outer},${iteration}` : String(iteration);
}

/** Returns the chosen iteration of a layer's bodies, which may run less often in other iterations of outer bodies. */
function getIteration(owner) {
  return Math.max(0, Math.min(chosenIterations.get(owner) ?? 0, countShownIterations(owner) - 1));
}

/** Chooses the iterations of the bodies that contain a layer: "3,0". Returns whether others were chosen before. */
function chooseTag(number, tag) {
  const before = getTag(number);
  const iterations = tag.split(",");
  for (const [depth, owner] of getOwners(number).reverse().entries()) {
    if (iterations[depth]) chosenIterations.set(owner, Number(iterations[depth]));
  }
  return getTag(number) !== before;
}

/** Returns the iterations in a key as a tag: "3,0" of "loop[3]/inner[0]/layer". */
const readTag = (key) => [...key.matchAll(/\[(\d+)\]\//g)].map((match) => match[1]).join(",");

/** Returns the number of the layer of a key with any iterations, or undefined. */
function findKey(key) {
  const path = key.trim().replace(/\[\d+\]\//g, "[0]/");
  const number = layers.findIndex((layer) => layer.key === path);
  return number < 0 ? undefined : number;
}

/** Returns the layers whose bodies contain a layer, innermost first. */
function getOwners(number) {
  const owners = [];
  for (let owner = getOwner(number); owner !== null; owner = getOwner(owner)) owners.push(owner);
  return owners;
}

/** Returns the number of iterations of a layer's bodies in the run, in the chosen iteration of outer bodies. */
function countIterations(owner) {
  return data.iterations[owner]?.[getTag(owner)] ?? 0;
}

/** Returns the number of iterations that can be chosen: those whose values the report contains. */
const countShownIterations = (owner) => Math.min(countIterations(owner), data.max_iterations);

/** Returns what was recorded of a layer in the chosen iterations, its outputs; undefined if it did not run. */
function getRecord(number) {
  const layer = layers[number];
  const records = data.values[number];
  if (layer.constant) return records?.[""];
  const record = records?.[getTag(number)];
  if (record || layer.type !== "Result" || !layer.inputs[0]) return record;
  const [source, port] = layer.inputs[0]; // a Result passes on the value of its producer
  const output = getRecord(source)?.outputs?.[port];
  return output && { outputs: [output], forwarded: true };
}

/** The kernels of the measured run by the layers that they compute. */
const kernels = new Map((data.times?.kernels ?? []).flatMap((kernel) => kernel.layers.map((number) => [number, kernel])));

/** Returns the seconds of the kernel that a layer names; undefined for layers that are computed with others. */
function readSeconds(number) {
  const kernel = kernels.get(number);
  return kernel?.layers[0] === number ? kernel.seconds : undefined;
}

/** Returns the errors of a layer against the reference in the chosen iterations, or undefined. */
const getErrors = (number) => data.errors[number]?.[getTag(number)];

/** Returns the key of a layer with the chosen iterations. */
function getKey(number) {
  const owner = getOwner(number);
  const { key } = layers[number];
  if (owner === null) return key;
  const prefix = `${layers[owner].key}[0]/`;
  const local = key.startsWith(prefix) ? key.slice(prefix.length) : key;
  return `${getKey(owner)}[${getIteration(owner)}]/${local}`;
}

/** Returns the nodes that contain a node, outermost first, without the root. */
function getAncestors(node) {
  const ancestors = [];
  for (let { parent } = node; parent && parent !== root; parent = parent.parent) ancestors.unshift(parent);
  return ancestors;
}
