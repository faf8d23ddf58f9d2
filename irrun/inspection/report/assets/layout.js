// Layout: each open group is laid out on its own, from the innermost to the outermost.

const SIZES = {
  layer: { width: 196, height: 46 },
  pill: { width: 150, height: 22 },
  header: 34,
  bodyHeader: 46,
  padding: 18,
  /** Minimum widths of frames, so that their headers fit. */
  groupWidth: 290,
  bodyWidth: 540,
};
/** Values from and to other groups are drawn one by one up to this number. */
const MAX_PILLS = 8;
/** Edges of a value with more consumers in a group are faint and do not affect the layout. */
const MAX_FAN = 4;

/** The open groups and layers with bodies, by id. */
const openNodes = new Set([root.id]);

/**
 * A laid out group. Positions are relative to its upper left corner.
 * @typedef {object} Layout
 * @property {number} width
 * @property {number} height
 * @property {{node: DrawnNode, x: number, y: number, width: number, height: number, layout: Layout | null}[]} boxes
 * @property {{id: string, label: string, x: number, y: number, target: number, direction: "in" | "out"}[]} pills
 * @property {{points: {x: number, y: number}[], sources: number[], targets: number[]}[]} edges
 */

/** @type {Map<string, {signature: string, layout: Layout}>} */
const layoutCache = new Map();

const isOpen = (node) => node.members.length > 0 && openNodes.has(node.id);

/** Returns the member of a group that is or contains a layer; undefined if the layer is elsewhere. */
function findMember(group, number) {
  let node = layerNodes[number];
  while (node && node.parent !== group) node = node.parent;
  return node ?? undefined;
}

/** @returns {Layout} */
function layOut(group) {
  const boxes = new Map();
  for (const member of group.members) {
    const layout = isOpen(member) ? layOut(member) : null;
    const { width, height } = layout ?? SIZES.layer;
    boxes.set(member, { node: member, width, height, layout, x: 0, y: 0 });
  }
  const signature = [...boxes.values()].map((box) => `${box.width}x${box.height}`).join(" ");
  const cached = layoutCache.get(group.id);
  let layout;
  if (cached?.signature === signature) {
    layout = cached.layout;
    for (const box of layout.boxes) box.layout = boxes.get(box.node).layout;
  } else {
    layout = placeMembers(group, boxes);
    layoutCache.set(group.id, { signature, layout });
  }
  return layout;
}

/** Returns the connections of the members of a group: between members, and from and to layers elsewhere. */
function connect(group) {
  const inner = new Map();
  const incoming = new Map();
  const outgoing = new Map();
  const add = (map, key, source, target) => {
    const edge = map.get(key) ?? { sources: [], targets: [] };
    edge.sources.push(source);
    edge.targets.push(target);
    map.set(key, edge);
  };
  for (const number of group.layers) {
    const member = findMember(group, number);
    for (const input of layers[number].inputs) {
      if (!input || layers[input[0]].constant) continue;
      const producer = findMember(group, input[0]);
      if (!producer) add(incoming, `${input[0]} ${member.id}`, input[0], number);
      else if (producer !== member) add(inner, `${producer.id} ${member.id}`, input[0], number);
    }
    for (const consumer of consumers[number]) {
      if (!findMember(group, consumer)) add(outgoing, `${number}`, number, consumer);
    }
  }
  return { inner, incoming, outgoing };
}

/** @returns {Layout} */
function placeMembers(group, boxes) {
  const graph = new vendor.graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: "TB", nodesep: 26, ranksep: 40, edgesep: 14 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const [member, box] of boxes) graph.setNode(member.id, { width: box.width, height: box.height });
  const { inner, incoming, outgoing } = connect(group);
  const hubs = takeHubs(inner);
  for (const [key, edge] of inner) {
    const [source, target] = key.split(" ");
    graph.setEdge(source, target, edge);
  }
  const pills = group === root ? [] : [
    ...addInputPills(graph, incoming),
    ...addOutputPills(graph, group, outgoing),
    ...addBodyInputs(graph, group),
    ...addBodyOutputs(graph, group),
  ];
  const isPlaced = runLayout(graph);
  if (!isPlaced) graph.setGraph(placeInColumn(graph));
  const { width = 0, height = 0 } = group.members.length ? fold(graph) : {};
  const top = getHeaderHeight(group) + (getBodyGraph(group)?.back_edges.length ? 12 : 0);
  const minWidth = { group: SIZES.groupWidth, body: SIZES.groupWidth, layer: SIZES.bodyWidth }[group.kind];
  const margin = getBodyGraph(group)?.back_edges.length ? 36 : 0; // for edges to the next iteration
  const frameWidth = group === root ? width : Math.max(width + 2 * SIZES.padding + margin, minWidth);
  const shift = { x: (frameWidth - width + margin) / 2, y: top };
  const place = (id) => {
    const { x, y, width: w, height: h } = graph.node(id);
    return { x: x - w / 2 + shift.x, y: y - h / 2 + shift.y, width: w, height: h };
  };
  const edges = graph.edges().map((reference) => {
    const edge = graph.edge(reference);
    const points = (edge.points ?? []).map((point) => ({ x: point.x + shift.x, y: point.y + shift.y }));
    const { sources, targets, isFolded } = edge;
    return { points, sources, targets, isFolded, from: reference.v, to: reference.w };
  });
  return {
    width: frameWidth,
    height: height + top + (group === root ? 0 : SIZES.padding) + margin / 2,
    boxes: [...boxes.values()].map((box) => ({ ...box, ...place(box.node.id) })),
    pills: pills.map((pill) => ({ ...pill, ...place(pill.id) })),
    edges: [...edges, ...routeBackEdges(group, place), ...hubs.map(([source, target, edge]) => connectHub(edge, place(source), place(target)))],
  };
}

/** Takes the edges of values with many consumers, such as masks, which would pull a chain apart. */
function takeHubs(inner) {
  const targets = new Map();
  const sources = new Map();
  for (const key of inner.keys()) {
    const [source, target] = key.split(" ");
    targets.set(source, [...(targets.get(source) ?? []), target]);
    sources.set(target, (sources.get(target) ?? 0) + 1);
  }
  const hubs = [];
  for (const [source, consumers] of targets) {
    if (consumers.length <= MAX_FAN) continue;
    for (const target of consumers.slice(1)) {
      if (sources.get(target) < 2) continue;
      const key = `${source} ${target}`;
      hubs.push([source, target, inner.get(key)]);
      inner.delete(key);
      sources.set(target, sources.get(target) - 1);
    }
  }
  return hubs;
}

/** Returns an edge as a direct line between two boxes. */
function connectHub(edge, from, to) {
  const start = { x: from.x + from.width / 2, y: from.y + from.height };
  const isBelow = to.y > start.y;
  const end = isBelow ? { x: to.x + to.width / 2, y: to.y } : { x: to.x, y: to.y + to.height / 2 };
  return { ...edge, isHub: true, points: [start, end] };
}

function getHeaderHeight(group) {
  if (group === root) return 0;
  return group.kind === "layer" ? SIZES.bodyHeader + 10 : SIZES.header + 10;
}

/** Adds a node for each layer elsewhere that members use, or one for all if they are many. */
function addInputPills(graph, incoming) {
  const sources = [...new Set([...incoming.values()].map((edge) => edge.sources[0]))];
  const isMerged = sources.length > MAX_PILLS;
  const pills = new Map();
  for (const [key, edge] of incoming) {
    const source = edge.sources[0];
    const id = isMerged ? "in" : `in${source}`;
    const label = isMerged ? `${sources.length} inputs` : layerNodes[source].label || layers[source].type;
    if (!pills.has(id)) {
      pills.set(id, { id, label, target: source, direction: "in" });
      graph.setNode(id, { ...SIZES.pill });
    }
    graph.setEdge(id, key.split(" ")[1], edge, isMerged ? String(source) : undefined);
  }
  return [...pills.values()];
}

/** Adds a node for each member whose outputs layers elsewhere use, unless they are many. */
function addOutputPills(graph, group, outgoing) {
  if (outgoing.size > MAX_PILLS) return [];
  return [...outgoing.values()].map((edge) => {
    const source = edge.sources[0];
    const targets = [...new Set(edge.targets)];
    const id = `out${source}`;
    const only = layerNodes[targets[0]];
    const label = targets.length > 1 ? `${targets.length} layers` : only.label || layers[targets[0]].type;
    graph.setNode(id, { ...SIZES.pill });
    graph.setEdge(findMember(group, source).id, id, edge);
    return { id, label, target: targets[0], direction: "out" };
  });
}

/** Runs dagre, and returns whether it succeeded. */
function runLayout(graph) {
  try {
    vendor.layout(graph);
    return graph.nodes().every((id) => Number.isFinite(graph.node(id).x));
  } catch {
    return false;
  }
}

/** Places the nodes in a column, where the layout failed. */
function placeInColumn(graph) {
  let [width, y] = [0, 0];
  for (const id of graph.nodes()) {
    const node = graph.node(id);
    width = Math.max(width, node.width);
    node.x = node.width / 2;
    node.y = y + node.height / 2;
    y += node.height + 40;
  }
  for (const reference of graph.edges()) graph.edge(reference).points = [];
  return { width, height: y };
}

/** Opens the largest groups until the structure of the model is visible: a few dozen nodes, none with most layers. */
function openFirstGroups({ limit = other ? 170 : 64, few = other ? 16 : 8, share = other ? 0.08 : 0.15 } = {}) {
  const isGroup = (node) => node.kind === "group";
  const isSection = (node) => /^layers \d/.test(node.label); // of a large group, the first one of which comes first
  let visible = root.members.length;
  const closed = root.members.filter(isGroup);
  while (closed.length) {
    closed.sort((a, b) => (isSection(a) && isSection(b) ? a.layers[0] - b.layers[0] : b.layers.length - a.layers.length));
    const node = closed.shift();
    const isSmall = node.layers.length < share * root.layers.length && visible >= few;
    if (isSmall || visible + node.members.length > limit) continue;
    openNodes.add(node.id);
    visible += node.members.length - 1;
    closed.push(...node.members.filter(isGroup));
  }
}

/** Opens or closes a node. A layer with one of several bodies opens these too. */
function setOpen(node, open) {
  if (!node.members.length || node === root) return;
  if (open) openNodes.add(node.id);
  else openNodes.delete(node.id);
  for (const member of node.members) if (open && member.kind === "body") openNodes.add(member.id);
}
