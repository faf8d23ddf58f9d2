// Folding: the layout of a long chain is cut into columns side by side, so that it fills a screen and not a strip.

/** A layout higher than this, and more than so many times as high as wide, is folded. */
const FOLDING = { height: 640, ratio: 1.5, wanted: 1.5, gap: 54, maxColumns: 12, lane: 5 };

/** Folds a graph that is laid out from top to bottom. Returns its size. */
function fold(graph) {
  const { width, height } = graph.graph();
  if (height < FOLDING.height || height < FOLDING.ratio * width) return { width, height };
  const count = Math.min(Math.round(Math.sqrt((FOLDING.wanted * height) / (width + FOLDING.gap))), FOLDING.maxColumns);
  const ranks = findRanks(graph);
  const columns = count > 1 ? cutRanks(graph, ranks, Math.min(count, ranks.length), height) : [ranks];
  return columns.length > 1 ? placeColumns(graph, columns) : { width, height };
}

/** Returns the nodes by rank, with the top and bottom of each rank. */
function findRanks(graph) {
  const ranks = new Map();
  for (const id of graph.nodes()) {
    const node = graph.node(id);
    const rank = ranks.get(Math.round(node.y)) ?? { y: node.y, ids: [], top: Infinity, bottom: -Infinity };
    rank.ids.push(id);
    rank.top = Math.min(rank.top, node.y - node.height / 2);
    rank.bottom = Math.max(rank.bottom, node.y + node.height / 2);
    ranks.set(Math.round(node.y), rank);
  }
  return [...ranks.values()].sort((a, b) => a.y - b.y);
}

/** Divides ranks into columns of about the same height, where few edges cross the cut. */
function cutRanks(graph, ranks, count, height) {
  const crossing = new Array(ranks.length + 1).fill(0);
  const indices = new Map(ranks.flatMap((rank, index) => rank.ids.map((id) => [id, index])));
  for (const { v, w } of graph.edges()) {
    for (let cut = indices.get(v) + 1; cut <= indices.get(w); cut += 1) crossing[cut] += 1;
  }
  const part = height / count;
  const cuts = [];
  for (let i = 1; i < count; i += 1) {
    let best = -1;
    let bestCost = Infinity;
    for (let cut = (cuts.at(-1) ?? 0) + 1; cut < ranks.length; cut += 1) {
      const distance = Math.abs(ranks[cut].top - ranks[0].top - i * part) / part;
      const cost = distance > 0.3 ? 100 * distance : distance + 0.15 * crossing[cut];
      if (cost < bestCost) [best, bestCost] = [cut, cost];
    }
    if (best > 0) cuts.push(best);
  }
  return [0, ...cuts].map((start, i) => ranks.slice(start, cuts[i] ?? ranks.length));
}

/** Moves the nodes and the points of edges to their columns, and returns the size. */
function placeColumns(graph, columns) {
  const columnOf = new Map(columns.flatMap((ranks, index) => ranks.flatMap(({ ids }) => ids.map((id) => [id, index]))));
  const frames = columns.map((ranks) => ({ left: Infinity, right: -Infinity, top: ranks[0].top, bottom: ranks.at(-1).bottom }));
  const stretch = (frame, left, right) => {
    frame.left = Math.min(frame.left, left);
    frame.right = Math.max(frame.right, right);
  };
  for (const [id, index] of columnOf) {
    const { x, width } = graph.node(id);
    stretch(frames[index], x - width / 2, x + width / 2);
  }
  const crossing = [];
  for (const reference of graph.edges()) {
    const edge = graph.edge(reference);
    const [from, to] = [columnOf.get(reference.v), columnOf.get(reference.w)];
    if (from !== to) crossing.push([edge, reference, from, to]);
    else for (const { x } of edge.points ?? []) stretch(frames[from], x, x);
  }
  const lanes = columns.map(() => 0);
  for (const [, , from] of crossing) lanes[from] += 1;
  const rail = Math.min(40, 16 + 2 * crossing.length); // the space above and below the columns for edges
  let x = 0;
  for (const [index, frame] of frames.entries()) {
    frame.dx = x - frame.left;
    frame.dy = rail - frame.top;
    frame.gutter = x + frame.right - frame.left + FOLDING.gap / 2;
    x += frame.right - frame.left + FOLDING.gap + Math.min(lanes[index], 8) * FOLDING.lane;
  }
  for (const [id, index] of columnOf) {
    graph.node(id).x += frames[index].dx;
    graph.node(id).y += frames[index].dy;
  }
  for (const { v, w, name } of graph.edges()) {
    const edge = graph.edge({ v, w, name });
    const { dx, dy } = frames[columnOf.get(v)];
    edge.points = (edge.points ?? []).map((point) => ({ x: point.x + dx, y: point.y + dy }));
  }
  const used = columns.map(() => 0);
  for (const [edge, { v, w }, from, to] of crossing) {
    const lane = (used[from] % 8) * FOLDING.lane;
    used[from] += 1;
    edge.points = routeBetween(graph.node(v), graph.node(w), frames[from], frames[to], to - from, lane, rail);
    edge.isFolded = true;
  }
  const height = Math.max(...frames.map(({ top, bottom }) => bottom - top)) + 2 * rail;
  return { width: x - FOLDING.gap, height };
}

/** Returns the points of an edge from one column to another: below its column, up beside it, and down to the target. */
function routeBetween(source, target, from, to, distance, lane, rail) {
  const [bottom, top] = [from.bottom + from.dy, to.top + to.dy];
  const gutter = from.gutter + lane;
  const isLast = source.y + source.height / 2 > bottom - 2;
  const isFirst = target.y - target.height / 2 < top + 2;
  const points = isLast
    ? [{ x: source.x, y: source.y + source.height / 2 }, { x: source.x, y: bottom + rail / 2 }, { x: gutter, y: bottom + rail / 2 }]
    : [{ x: source.x + source.width / 2, y: source.y }, { x: gutter, y: source.y }];
  const above = Math.max(4, rail / 2 - lane / 4);
  if (isFirst) {
    points.push({ x: gutter, y: above }, { x: target.x, y: above }, { x: target.x, y: target.y - target.height / 2 });
    return points;
  }
  const entry = distance > 1 ? to.left + to.dx - FOLDING.gap / 4 - lane / 4 : gutter;
  if (distance > 1) points.push({ x: gutter, y: above }, { x: entry, y: above });
  points.push({ x: entry, y: target.y }, { x: target.x - target.width / 2, y: target.y });
  return points;
}

/** Returns the path of an edge with right angles, whose corners are round. */
function roundCorners(points, radius = 9) {
  let text = `M${points[0].x},${points[0].y}`;
  for (let i = 1; i < points.length - 1; i += 1) {
    const [a, b, c] = points.slice(i - 1, i + 2);
    const before = Math.min(radius, Math.hypot(b.x - a.x, b.y - a.y) / 2);
    const after = Math.min(radius, Math.hypot(c.x - b.x, c.y - b.y) / 2);
    const toward = (p, length) => {
      const distance = Math.hypot(p.x - b.x, p.y - b.y) || 1;
      return `${b.x + ((p.x - b.x) * length) / distance},${b.y + ((p.y - b.y) * length) / distance}`;
    };
    text += ` L${toward(a, before)} Q${b.x},${b.y} ${toward(c, after)}`;
  }
  return `${text} L${points.at(-1).x},${points.at(-1).y}`;
}
