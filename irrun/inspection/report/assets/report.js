// What happens on the page: selection, iterations, measures, the scheme, keys, printing.

/**
 * Selects a node and shows it in the panel and in the table.
 * @param {DrawnNode | null} node
 * @param {{center?: boolean, focus?: boolean, constant?: number | null}} [options]
 */
function selectNode(node, { center = false, focus = false, constant = null } = {}) {
  selection.node = node;
  selection.constant = constant;
  updateSelection();
  updatePanel();
  scrollToSelection();
  if (node && center) centerNode(node);
  if (node && focus) getElement(node)?.focus({ preventScroll: true });
}

/** Opens what contains a layer, then selects it. */
function revealLayer(number, { focus = true, constant = null, tag = "" } = {}) {
  const node = layerNodes[number];
  if (!node) return;
  if (tag && chooseTag(number, tag)) updateValues();
  const ancestors = getAncestors(node);
  const closed = [...ancestors, ...ancestors.map(findPartner)].filter((ancestor) => ancestor && !isOpen(ancestor));
  if (closed.length) {
    closed.forEach((ancestor) => setOpen(ancestor, true));
    draw();
  }
  selectNode(node, { center: true, focus, constant });
}

/** Chooses an iteration of a layer's bodies. */
function chooseIteration(owner, iteration) {
  chosenIterations.set(owner, iteration);
  updateValues();
}

/** Updates everything that shows values. */
function updateValues() {
  updateScale();
  updateDrawing();
  updateLegend();
  updateTable();
  const focused = document.activeElement?.closest(".slider") && panel.contains(document.activeElement);
  if (focused) {
    // The slider in the panel must not be replaced while it is moved.
    const owner = document.activeElement.closest(".slider").dataset.owner;
    updatePanel({ keepScroll: true });
    panel.querySelector(`.slider[data-owner="${owner}"] input`)?.focus();
  } else {
    updatePanel({ keepScroll: true });
  }
}

function chooseMeasure(id) {
  coloring.measure = findMeasure(id) ?? measures[0];
  document.documentElement.dataset.measure = coloring.measure.id;
  updateValues();
}

function updateLegend() {
  const legend = document.getElementById("legend");
  const { measure, low, high, hasValues } = coloring;
  legend.className = "overlay";
  if (measure.id === "type") {
    const used = new Set(layerNodes.flatMap((node) => (node ? [getCategory(layers[node.layer].type)[0]] : [])));
    const items = CATEGORIES.filter(([name]) => used.has(name)).map(([name, color]) => {
      const swatch = create("i");
      swatch.style.background = color;
      return create("li", {}, swatch, name);
    });
    legend.replaceChildren(create("ul.categories", {}, ...items));
    return;
  }
  const title = create("p", {}, create("strong", {}, measure.label), ` ${measure.description}`);
  if (!hasValues) {
    const text = measure.scale === "error" ? "All values are equal." : "No values.";
    legend.replaceChildren(title, create("p.muted", {}, text));
    return;
  }
  const bar = create("div.gradient");
  const colors = SCALES[isDark() ? "dark" : "light"];
  bar.style.background = `linear-gradient(to right, ${colors.join(", ")})`;
  const isErrorScale = measure.scale === "error";
  const middle = measure.scale === "log" ? Math.sqrt(low * high) : (low + high) / 2;
  const [first, last] = isErrorScale ? [high, low] : [low, high];
  const format = (value) => measure.format(value);
  const ends = [isErrorScale ? `equal, ${format(first)}` : format(first), format(middle), format(last)];
  legend.replaceChildren(title, bar, create("div.axis", {}, ...ends.map((text) => create("span", {}, text))));
}

/** Chooses the light or the dark scheme; null for that of the system. */
function chooseTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  const button = document.getElementById("theme");
  setText(button, isDark() ? "Light" : "Dark");
  updateDrawing();
  updateLegend();
  renderRows();
}

function toggleTable() {
  const isHidden = document.body.classList.toggle("without-table");
  document.getElementById("toggle-table").setAttribute("aria-pressed", String(!isHidden));
}

/** Shows one of the views on a narrow screen. */
function chooseView(view) {
  document.body.dataset.view = view;
  for (const button of document.querySelectorAll(".tabs button")) {
    button.setAttribute("aria-pressed", String(button.dataset.view === view));
  }
  if (view === "table") renderRows();
}

/** Selects a neighbor of the selected node: its producer, its consumer, or the next one in its group. */
function moveSelection(key) {
  const { node } = selection;
  if (!node || !visible.has(node.id)) {
    const first = [...visible.values()][0]?.node;
    if (first) selectNode(first, { center: true, focus: true });
    return;
  }
  const next = key === "ArrowLeft" || key === "ArrowRight" ? findSideways(node, key) : findAlongEdge(node, key);
  if (next) selectNode(next, { center: true, focus: true });
}

/** Returns the visible node that contains a layer: itself, or the outermost closed group. */
function findVisible(number) {
  const node = layerNodes[number];
  if (!node) return undefined;
  return [...getAncestors(node), node].find((ancestor) => visible.has(ancestor.id) && !visible.get(ancestor.id).layout) ?? node;
}

function findAlongEdge(node, key) {
  const numbers = node.kind === "layer" ? [node.layer] : node.layers;
  const isInside = (target) => numbers.includes(target);
  const linked = numbers.flatMap((number) =>
    key === "ArrowDown" ? consumers[number] : layers[number].inputs.flatMap((input) => (input ? [input[0]] : [])),
  );
  const outside = linked.filter((target) => layerNodes[target] && !isInside(target));
  return outside.length ? findVisible(outside[0]) : undefined;
}

function findSideways(node, key) {
  const box = visible.get(node.id);
  const sign = key === "ArrowRight" ? 1 : -1;
  const distance = (other) => {
    const dx = sign * (other.x + other.width / 2 - box.x - box.width / 2);
    return dx > 1 ? dx + 3 * Math.abs(other.y - box.y) : Infinity;
  };
  const others = node.parent.members.map((member) => visible.get(member.id)).filter((other) => other && other !== box);
  const nearest = others.sort((a, b) => distance(a) - distance(b))[0];
  return nearest && distance(nearest) < Infinity ? nearest.node : undefined;
}

/** Moves the innermost body that contains the selection, or that is selected, by some iterations. */
function stepIteration(step) {
  let { node } = selection;
  while (node && !(node.kind === "layer" && node.members.length)) node = node.parent;
  if (!node) return;
  const count = countShownIterations(node.layer);
  const next = getIteration(node.layer) + step;
  if (next >= 0 && next < count) chooseIteration(node.layer, next);
}

function setUpKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.closest("input, select, textarea")) return;
    const isNode = event.target.closest("#canvas") || event.target === document.body;
    const { node } = selection;
    const actions = {
      "/": () => searchInput.focus(),
      "?": () => document.getElementById("shortcuts").showModal(),
      "+": () => zoomTarget.call(zoomBehavior.scaleBy, 1.3),
      "=": () => zoomTarget.call(zoomBehavior.scaleBy, 1.3),
      "-": () => zoomTarget.call(zoomBehavior.scaleBy, 1 / 1.3),
      f: fitLegibly,
      t: toggleTable,
      "[": () => stepIteration(-1),
      "]": () => stepIteration(1),
      Escape: () => selectNode(null),
    };
    const isActivation = (event.key === "Enter" || event.key === " ") && event.target.matches?.("[data-node]");
    if (event.key.startsWith("Arrow") && isNode) actions[event.key] = () => moveSelection(event.key);
    if (isActivation) {
      actions[event.key] = () => {
        const focused = nodes.get(event.target.dataset.node);
        if (focused.members.length) toggleNode(focused);
        else selectNode(focused);
        getElement(node ?? focused)?.focus({ preventScroll: true });
      };
    }
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

function closeAll() {
  openNodes.clear();
  openNodes.add(root.id);
  draw();
  fitView();
}

function setUpButtons() {
  const select = document.getElementById("measure");
  select.append(...measures.map((measure) => create("option", { value: measure.id }, measure.label)));
  select.addEventListener("change", () => chooseMeasure(select.value));
  document.getElementById("toggle-table").addEventListener("click", toggleTable);
  document.getElementById("theme").addEventListener("click", () => chooseTheme(isDark() ? "light" : "dark"));
  document.getElementById("help").addEventListener("click", () => document.getElementById("shortcuts").showModal());
  document.querySelector(".tabs").addEventListener("click", (event) => {
    if (event.target.dataset.view) chooseView(event.target.dataset.view);
  });
  const zooms = {
    in: () => zoomTarget.call(zoomBehavior.scaleBy, 1.3),
    out: () => zoomTarget.call(zoomBehavior.scaleBy, 1 / 1.3),
    fit: fitLegibly,
    close: closeAll,
    svg: saveSvg,
    png: savePng,
  };
  const controls = document.getElementById("controls");
  controls.classList.add("overlay");
  controls.addEventListener("click", (event) => zooms[event.target.dataset.zoom]?.());
  canvas.addEventListener("click", (event) => {
    if (event.target === canvas || event.target === world || event.target.classList.contains("frame")) selectNode(null);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => chooseTheme(document.documentElement.dataset.theme));
}

function setUpPrinting() {
  let before = transform;
  addEventListener("beforeprint", () => {
    before = transform;
    document.documentElement.classList.add("printing");
    const scale = Math.min(1000 / worldSize.width, 540 / worldSize.height, 1);
    moveTo(vendor.zoomIdentity.scale(scale), false);
    canvas.style.height = `${worldSize.height * scale + 110}px`;
    printRows();
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printing");
    canvas.style.removeProperty("height");
    moveTo(before, false);
    renderRows();
  });
}

/**
 * Shows the layer whose key is in the address, otherwise the layer that adds most of the error, otherwise the whole
 * graph or, if it is large, its beginning.
 */
function showStart() {
  const cause = findFirstCause();
  const key = decodeAddress();
  if (findKey(key) !== undefined) revealLayer(findKey(key), { focus: false, tag: readTag(key) });
  else if (!cause && differing.length) revealLayer(differing[0], { focus: false });
  else if (cause) {
    revealLayer(cause.layer, { focus: false, tag: cause.tag });
    chooseView("panel"); // on narrow screens, which show one part
  } else fitView({ animate: false, minScale: 0.42 });
}

/** Returns the key after the # of the address: report.html#loop[2]/layer. */
function decodeAddress() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}

function start() {
  const drawn = layerNodes.filter((node, number) => node && !isOfOther(number)).length;
  const [file, name] = data.model.names;
  document.getElementById("title").append(file, name ? create("small", {}, ` ${name}`) : "");
  const facts = [formatCount(drawn, "layer"), data.times ? formatSeconds(data.times.seconds) : "", summarizeFindings(), other ? `beside ${other.names[0]}` : ""];
  setText(document.getElementById("subtitle"), facts.filter(Boolean).join(" · "));
  chooseView("graph");
  setUpButtons();
  setUpSearch();
  setUpKeys();
  setUpPrinting();
  zoomTarget.call(zoomBehavior).on("dblclick.zoom", null);
  openFirstGroups(findFirstCause() && !other ? { limit: 30 } : {});
  buildTable();
  updateScale();
  draw();
  chooseMeasure(coloring.measure.id);
  document.getElementById("measure").value = coloring.measure.id;
  chooseTheme(null);
  showStart();
  document.documentElement.dataset.ready = "true";
}

start();
