// The drawing: nodes as elements, edges as paths.

/** Lays out the open groups and draws what is visible. */
function draw() {
  const layout = layOut(root);
  worldSize = layout;
  visible.clear();
  const scene = { frames: [], boxes: [], pills: [], edges: [] };
  flatten(layout, root, 0, 0, 0, scene);
  world.style.width = `${layout.width}px`;
  world.style.height = `${layout.height}px`;
  const used = new Set();
  for (const frame of scene.frames) {
    place(used, `frame ${frame.node.id}`, frameLayer, frame, () => create("div.frame"), updateFrame);
    const header = { ...frame, height: getHeaderHeight(frame.node) - 10 };
    place(used, `header ${frame.node.id}`, nodeLayer, header, () => createHeader(frame.node), updateHeader);
  }
  for (const box of scene.boxes) {
    place(used, `node ${box.node.id}`, nodeLayer, box, () => createNodeElement(box.node), updateNode);
  }
  for (const pill of scene.pills) {
    place(used, `pill ${pill.group.id} ${pill.id}`, nodeLayer, pill, () => createPill(pill), () => {});
  }
  for (const [key, element] of elements) {
    if (used.has(key)) continue;
    element.remove();
    elements.delete(key);
  }
  drawEdges(scene.edges, layout);
  updateSelection();
}

/** Collects what a layout contains, with positions in the world. */
function flatten(layout, group, left, top, depth, scene) {
  for (const box of layout.boxes) {
    const absolute = { ...box, x: box.x + left, y: box.y + top, depth };
    visible.set(box.node.id, absolute);
    if (box.layout) {
      scene.frames.push(absolute);
      flatten(box.layout, box.node, absolute.x, absolute.y, depth + 1, scene);
    } else {
      scene.boxes.push(absolute);
    }
  }
  const pills = layout.pills.map((pill) => ({ ...pill, group, x: pill.x + left, y: pill.y + top }));
  scene.pills.push(...pills);
  const edges = layout.edges.map((edge) => ({ ...edge, points: edge.points.map(({ x, y }) => ({ x: x + left, y: y + top })) }));
  scene.edges.push(...edges);
  for (const box of layout.boxes) {
    const inner = box.layout ? scene.pills.filter((pill) => pill.group === box.node || pill.group.parent === box.node) : [];
    scene.edges.push(...connectBody(visible.get(box.node.id), inner, edges));
  }
}

/** Places the element of a key, which is created when it is first visible. */
function place(used, key, layer, box, build, update) {
  used.add(key);
  let element = elements.get(key);
  if (!element) {
    element = build();
    elements.set(key, element);
    layer.append(element);
  }
  element.style.left = `${box.x}px`;
  element.style.top = `${box.y}px`;
  element.style.width = `${box.width}px`;
  element.style.height = `${box.height}px`;
  update(element, box.node, box);
}

function createNodeElement(node) {
  const element = create(
    "div.node",
    { role: "button", tabindex: "-1", "data-node": node.id },
    create("span.line.first", {}, create("span.name"), create("span.value")),
    create("span.line.second", {}, create("span.name"), create("span.shape")),
  );
  if (node.members.length) {
    element.classList.add(node.kind === "group" ? "group" : "owner");
    element.prepend(create("button.chevron", { type: "button", tabindex: "-1", "aria-hidden": "true" }, "▸"));
    element.setAttribute("aria-expanded", "false");
  }
  element.addEventListener("click", (event) => {
    const isToggle = node.kind !== "layer" || event.target.closest(".chevron") || event.detail > 1;
    if (isToggle && node.members.length) toggleNode(node);
    else selectNode(node);
  });
  return element;
}

/** Sets the texts and the color of a closed node. */
function updateNode(element, node) {
  const { measure } = coloring;
  const [first, second] = element.querySelectorAll(".line");
  const value = measure.id === "type" ? undefined : readNode(node);
  const isFused = value === undefined && measure.id === "time" && node.kind === "layer" && kernels.has(node.layer);
  const text = value === undefined ? (isFused ? "fused" : "") : measure.format(value);
  setText(first.children[1], node.kind === "layer" ? text : "");
  if (node.kind === "layer") {
    const layer = layers[node.layer];
    const output = getRecord(node.layer)?.outputs?.find(Boolean);
    setText(first.children[0], layer.type);
    setText(second.children[0], node.label || layer.name || `layer ${node.layer}`);
    setText(second.children[1], output ? formatShape(output.shape) : layer.outputs[0]?.shape ?? "");
    element.style.setProperty("--category", getCategory(layer.type)[1]);
    element.classList.toggle("idle", isIdle(node.layer));
  } else {
    // The numbers of unnamed layers are legible from afar without the word.
    setText(first.children[0], node.label.replace(/^layers (?=\d)/, ""));
    setText(second.children[0], formatCount(node.layers.length, "layer"));
    setText(second.children[1], text);
  }
  element.setAttribute("aria-label", describeNode(node, text));
  element.title = node.kind === "layer" ? getKey(node.layer) : node.label;
  markCause(element, node);
  paint(element, node, value);
}

/** Returns whether a layer of a body was not executed in the chosen iterations. */
function isIdle(number) {
  const { type, inputs } = layers[number];
  if (!data.has_run || isOfOther(number)) return false;
  const forwardsConstant = type === "Result" && inputs[0] && layers[inputs[0][0]].constant;
  return getOwner(number) !== null && !getRecord(number) && !forwardsConstant;
}

function describeNode(node, value) {
  if (node.kind !== "layer") return `Group ${node.label}, ${formatCount(node.layers.length, "layer")}, ${value}`;
  return `${layers[node.layer].type} ${node.label}, ${value}`;
}

/** Sets the color of a node. */
function paint(element, node, value) {
  const hasColor = value !== undefined && coloring.hasValues;
  element.classList.toggle("colored", hasColor);
  element.classList.toggle("plain", coloring.measure.id === "type" && node.kind === "layer");
  if (!hasColor) {
    element.style.removeProperty("--fill");
    element.style.removeProperty("--ink");
    return;
  }
  const color = interpolateColor(getPosition(value));
  element.style.setProperty("--fill", `rgb(${color.join(" ")})`);
  element.style.setProperty("--ink", isBright(color) ? "#17191d" : "#ffffff");
}

/** Creates the header of an open group or body, with a slider if the body has iterations. */
function createHeader(node) {
  const element = create(
    "div.header",
    { role: "button", tabindex: "-1", "data-node": node.id, "aria-expanded": "true" },
    create("button.chevron", { type: "button", tabindex: "-1", "aria-hidden": "true" }, "▾"),
    create("span.name"),
    create("span.value"),
  );
  if (node.kind === "layer") element.append(createSlider(node.layer));
  element.addEventListener("click", (event) => {
    if (event.target.closest(".slider")) return;
    if (event.target.closest(".chevron") || event.detail > 1) toggleNode(node);
    else selectNode(node);
  });
  return element;
}

function updateHeader(element, node) {
  const text = node.kind === "layer" ? `${layers[node.layer].type}  ${node.label}` : node.label;
  setText(element.children[1], text);
  const value = coloring.measure.id === "type" ? undefined : readNode(node);
  const count = formatCount(node.layers.length, "layer");
  setText(element.children[2], [node.kind === "layer" ? "" : count, value === undefined ? "" : coloring.measure.format(value)].filter(Boolean).join(" · "));
  element.setAttribute("aria-label", `${text}, open`);
  element.title = node.kind === "layer" ? getKey(node.layer) : node.label;
  if (node.kind === "layer") updateSlider(element.querySelector(".slider"));
}

function updateFrame(element, node, box) {
  element.classList.toggle("body", node.kind === "layer");
  element.dataset.depth = String(box.depth % 2);
}

/** Creates the slider that chooses the iteration of a layer's bodies. */
function createSlider(owner) {
  const input = create("input", { type: "range", min: 0, step: 1, "aria-label": `Iteration of ${layers[owner].name}` });
  const element = create("span.slider", { "data-owner": owner }, input, create("output"));
  input.addEventListener("input", () => chooseIteration(owner, Number(input.value)));
  for (const name of ["pointerdown", "mousedown", "dblclick", "click"]) {
    element.addEventListener(name, (event) => event.stopPropagation());
  }
  updateSlider(element);
  return element;
}

function updateSlider(element) {
  const owner = Number(element.dataset.owner);
  const shown = countShownIterations(owner);
  const total = countIterations(owner);
  const [input, output] = element.children;
  const iteration = getIteration(owner);
  input.max = String(Math.max(0, shown - 1));
  input.value = String(iteration);
  input.disabled = shown < 2;
  const more = total > shown ? ` of ${total}` : "";
  const text = total ? `iteration ${iteration} (0 to ${shown - 1})${more}` : "no values";
  setText(output, text);
  input.setAttribute("aria-valuetext", text);
  element.hidden = layers[owner].type === "If" || !data.has_run || isOfOther(owner);
}

function createPill(pill) {
  const arrow = pill.direction === "in" ? "from" : "to";
  const element = create(
    "button.pill",
    { type: "button", tabindex: "-1", title: `${arrow} ${layers[pill.target].name}`, "data-target": pill.target },
    `${arrow} ${pill.label}`,
  );
  element.addEventListener("click", () => revealLayer(pill.target));
  return element;
}

/** Draws all edges, as smooth curves. */
function drawEdges(edges, { width, height }) {
  edgeLayer.replaceChildren();
  edgeLayer.setAttribute("width", width);
  edgeLayer.setAttribute("height", height);
  const marker = (id) => {
    const shape = createSvg("path", { d: "M0,0 L8,4 L0,8 Z" });
    const place = { refX: 7, refY: 4, orient: "auto" };
    const size = { viewBox: "0 0 8 8", markerWidth: 10, markerHeight: 10, markerUnits: "userSpaceOnUse" };
    return createSvg("marker", { id, ...place, ...size }, shape);
  };
  edgeLayer.append(createSvg("defs", {}, marker("arrow"), marker("arrow-active")));
  for (const edge of edges) {
    if (edge.points.length < 2) continue;
    const path = createSvg("path", { d: edge.isFolded ? roundCorners(edge.points) : curve(edge.points), "marker-end": "url(#arrow)" });
    path.edge = edge;
    path.classList.toggle("hub", Boolean(edge.isHub));
    path.classList.toggle("back", Boolean(edge.isBack));
    edgeLayer.append(path);
  }
}

function curve(points) {
  const [first, ...rest] = points;
  let text = `M${first.x},${first.y}`;
  for (let i = 0; i < rest.length - 1; i += 1) {
    const [a, b] = [rest[i], rest[i + 1]];
    const isLast = i === rest.length - 2;
    const end = isLast ? b : { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
    text += ` Q${a.x},${a.y} ${end.x},${end.y}`;
  }
  if (rest.length === 1) text += ` L${rest[0].x},${rest[0].y}`;
  return text;
}

/** Marks the selected node and its edges, and makes it the one that Tab reaches. */
function updateSelection() {
  const { node } = selection;
  const partner = findPartner(node);
  const target = node && visible.has(node.id) ? node.id : [...visible.keys()][0];
  for (const element of nodeLayer.children) {
    const id = element.dataset.node;
    if (!id) continue;
    element.classList.toggle("selected", id === node?.id);
    element.classList.toggle("partner", Boolean(partner) && id === partner.id);
    if (id === node?.id) element.setAttribute("aria-current", "true");
    else element.removeAttribute("aria-current");
    element.tabIndex = id === target ? 0 : -1;
  }
  const number = node?.kind === "layer" ? node.layer : -1;
  for (const path of edgeLayer.children) {
    if (!path.edge) continue;
    const isActive = number >= 0 && (path.edge.sources.includes(number) || path.edge.targets.includes(number));
    path.classList.toggle("active", isActive);
    path.setAttribute("marker-end", isActive ? "url(#arrow-active)" : "url(#arrow)");
  }
}

/** Updates texts and colors after a change of the measure, of iterations or of the scheme. */
function updateDrawing() {
  for (const box of visible.values()) {
    if (box.layout) updateHeader(elements.get(`header ${box.node.id}`), box.node);
    else updateNode(elements.get(`node ${box.node.id}`), box.node);
  }
}

/** Opens or closes a node, which keeps its place on the screen. */
function toggleNode(node) {
  const before = visible.get(node.id);
  setOpen(node, !openNodes.has(node.id));
  const partner = findPartner(node);
  if (partner?.members.length && isOpen(partner) !== isOpen(node)) setOpen(partner, isOpen(node));
  draw();
  const after = visible.get(node.id);
  if (before && after) {
    const x = transform.x + (before.x - after.x) * transform.k + ((before.width - after.width) / 2) * transform.k;
    const y = transform.y + (before.y - after.y) * transform.k;
    moveTo(vendor.zoomIdentity.translate(x, y).scale(transform.k), false);
  }
  selectNode(node, { center: false });
  if (isOpen(node)) showOpened(node);
}

/** Returns the element of a visible node. */
const getElement = (node) => elements.get(`node ${node.id}`) ?? elements.get(`header ${node.id}`);

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
