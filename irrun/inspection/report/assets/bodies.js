// Edges into and out of bodies, and those from one iteration to the next.

/** Returns the graph of a body that a node shows when it is open, or undefined. */
const getBodyGraph = (group) => (group.graph === undefined ? undefined : graphs[group.graph]);

/** Adds a pill for each value that comes into a body, with an edge to its Parameter. */
function addBodyInputs(graph, group) {
  const body = getBodyGraph(group);
  const pills = [];
  for (const [position, inner, axis] of body?.inputs ?? []) {
    const source = layers[body.owner].inputs[position]?.[0];
    const member = findMember(group, inner);
    if (source === undefined || !member) continue;
    const isConstant = Boolean(layers[source].constant);
    const name = isConstant ? "a constant" : layerNodes[source].label || layers[source].type;
    const id = `bin${position}.${inner}`;
    pills.push({ id, label: axis === null ? name : `${name}, sliced`, target: isConstant ? body.owner : source, direction: "in", outer: source });
    graph.setNode(id, { ...SIZES.pill });
    graph.setEdge(id, member.id, { sources: [source], targets: [inner] });
  }
  return pills;
}

/** Adds a pill for each value that a body passes on, with an edge from its Result. */
function addBodyOutputs(graph, group) {
  const body = getBodyGraph(group);
  const pills = [];
  for (const [position, inner, axis] of body?.outputs ?? []) {
    const member = findMember(group, inner);
    if (!member) continue;
    const targets = consumers[body.owner].filter((number) => layers[number].inputs.some((input) => input?.[0] === body.owner && input[1] === position));
    const name = targets.length > 1 ? `${targets.length} layers` : layerNodes[targets[0]]?.label || layers[targets[0]]?.type || `output ${position}`;
    const id = `bout${position}.${inner}`;
    pills.push({ id, label: axis === null ? name : `${name}, concatenated`, target: targets[0] ?? body.owner, direction: "out", outer: targets });
    graph.setNode(id, { ...SIZES.pill });
    graph.setEdge(member.id, id, { sources: [inner], targets });
  }
  return pills;
}

/** Returns the edges from Results of a body to its Parameters in the next iteration, left of the drawing. */
function routeBackEdges(group, place) {
  const edges = (getBodyGraph(group)?.back_edges ?? []).map(([from, to]) => [from, to, findMember(group, from), findMember(group, to)]);
  const drawn = edges.filter(([, , source, target]) => source && target && source !== target);
  return drawn.map(([from, to, source, target], index) => {
    const [start, end] = [place(source.id), place(target.id)];
    const x = 10 + (index % 4) * 5;
    const [above, below] = [end.y - 14 - (index % 4) * 3, start.y + start.height + 10 + (index % 4) * 3];
    const points = [
      { x: start.x + 16, y: start.y + start.height },
      { x: start.x + 16, y: below },
      { x, y: below },
      { x, y: above },
      { x: end.x + 16, y: above },
      { x: end.x + 16, y: end.y },
    ];
    return { points, sources: [from], targets: [to], isFolded: true, isBack: true };
  });
}

/** Connects the pills of an open body with the edges that come to its frame and leave it. */
function connectBody(frame, pills, edges) {
  const connectors = [];
  const connect = (points, sources, targets) => connectors.push({ points, sources, targets, isHub: true });
  for (const pill of pills) {
    if (pill.outer === undefined) continue;
    const x = pill.x + pill.width / 2;
    if (pill.direction === "in") {
      const edge = edges.find(({ to, sources }) => to === frame.node.id && sources.includes(pill.outer));
      if (edge?.points.length) connect([edge.points.at(-1), { x, y: pill.y }], [pill.outer], [frame.node.layer]);
    } else {
      const edge = edges.find(({ from, targets }) => from === frame.node.id && targets.some((target) => pill.outer.includes(target)));
      if (edge?.points.length) connect([{ x, y: pill.y + pill.height }, edge.points[0]], [frame.node.layer], pill.outer);
    }
  }
  return connectors;
}
