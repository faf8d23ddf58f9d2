// The view: what of the drawing is visible, zoom and pan.

const canvas = document.getElementById("canvas");
const world = document.getElementById("world");
const frameLayer = document.getElementById("frames");
const nodeLayer = document.getElementById("nodes");
const edgeLayer = document.getElementById("edges");

/** Below this scale, only the first line of a node is legible; it is enlarged. */
const FAR = 0.6;
const SCALE_EXTENT = [0.02, 3];

/** The selected node, or null, and the layer of the constant that was searched for, or null. */
const selection = { node: null, constant: null };

/** What is visible, with positions in the world: boxes of nodes by id. */
const visible = new Map();
/** The elements of nodes, frames and pills by key. */
const elements = new Map();
let worldSize = { width: 0, height: 0 };
let transform = vendor.zoomIdentity;

const zoomBehavior = vendor
  .zoom()
  .scaleExtent(SCALE_EXTENT)
  .clickDistance(4)
  .filter((event) => !event.button && !event.target.closest("input, select, .overlay"))
  .on("zoom", (event) => {
    transform = event.transform;
    world.style.transform = `translate(${transform.x}px, ${transform.y}px) scale(${transform.k})`;
    canvas.classList.toggle("far", transform.k < FAR);
    canvas.classList.toggle("very-far", transform.k < 0.3);
  });
const zoomTarget = vendor.select(canvas);

/** Moves the view. */
function moveTo(next, animate = true) {
  const isStill = !animate || matchMedia("(prefers-reduced-motion: reduce)").matches || document.hidden;
  if (isStill) zoomTarget.call(zoomBehavior.transform, next);
  else zoomTarget.transition().duration(220).call(zoomBehavior.transform, next);
}

/** Shows the whole graph; at the start, only as much as is legible. */
function fitView({ animate = true, minScale = SCALE_EXTENT[0] } = {}) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const margin = 32;
  const scale = Math.min((width - 2 * margin) / worldSize.width, (height - 2 * margin) / worldSize.height, 1.1);
  const k = Math.max(scale, minScale);
  const isWide = worldSize.width * k > width - 2 * margin;
  const start = [...visible.values()].filter((box) => !box.layout).reduce((a, b) => (b.y < a.y ? b : a), { x: 0, y: Infinity, width: 0 });
  const x = scale < minScale && isWide ? width / 2 - (start.x + start.width / 2) * k : (width - worldSize.width * k) / 2;
  const y = scale >= minScale ? (height - worldSize.height * k) / 2 : margin;
  moveTo(vendor.zoomIdentity.translate(x, y).scale(k), animate);
}

/** Below this scale nothing can be read. */
const LEGIBLE = 0.3;

/** Shows the outermost group around the selection that is legible as a whole; the whole graph the second time. */
function fitLegibly() {
  const { clientWidth: width, clientHeight: height } = canvas;
  const frames = selection.node ? getAncestors(selection.node).map((node) => visible.get(node.id)) : [];
  const scaleOf = (box) => Math.min((width - 64) / box.width, (height - 64) / box.height, 1.1);
  const inner = selection.node && visible.get(selection.node.id);
  const frame = frames.find((box) => box?.layout && scaleOf(box) >= LEGIBLE) ?? inner;
  const k = frame && Math.min(scaleOf(frame), frame === inner ? LEGIBLE : Infinity);
  if (!frame || scaleOf(worldSize) >= LEGIBLE || Math.abs(transform.k - k) < 1e-3) {
    fitView();
    return;
  }
  const [x, y] = [frame.x + frame.width / 2, frame.y + frame.height / 2];
  moveTo(vendor.zoomIdentity.translate(width / 2 - x * k, height / 2 - y * k).scale(k));
}

/** Moves a node to the center of the view, at a legible scale. */
function centerNode(node) {
  const box = visible.get(node.id);
  if (!box) return;
  if (centerPair(box, visible.get(findPartner(node)?.id))) return;
  const k = Math.min(Math.max(transform.k, 0.85), 1.6);
  const height = Math.min(box.height, (canvas.clientHeight * 0.8) / k); // the top of a large frame
  const x = canvas.clientWidth / 2 - (box.x + box.width / 2) * k;
  const y = canvas.clientHeight / 2 - (box.y + height / 2) * k;
  moveTo(vendor.zoomIdentity.translate(x, y).scale(k));
}

/** Moves the view so that a node and its match in the other model are in it, unless they are too far apart. */
function centerPair(box, partner) {
  if (!partner) return false;
  const [left, top] = [Math.min(box.x, partner.x), Math.min(box.y, partner.y)];
  const right = Math.max(box.x + box.width, partner.x + partner.width);
  const bottom = Math.max(box.y + box.height, partner.y + partner.height);
  const { clientWidth: width, clientHeight: height } = canvas;
  const k = Math.min((width - 80) / (right - left), (height - 80) / (bottom - top), Math.max(transform.k, 0.85), 1.6);
  if (k < 0.35) return false;
  moveTo(vendor.zoomIdentity.translate(width / 2 - ((left + right) / 2) * k, height / 2 - ((top + bottom) / 2) * k).scale(k));
  return true;
}

/** Moves the view so that the header of an open node and the width of its frame are in it. */
function showOpened(node) {
  const box = visible.get(node.id);
  const [left, right] = [transform.applyX(box.x), transform.applyX(box.x + box.width)];
  const [top, bottom] = [transform.applyY(box.y), transform.applyY(box.y + box.height)];
  const isInside = left >= 0 && right <= canvas.clientWidth && top >= 0;
  if (isInside && (bottom <= canvas.clientHeight || top < canvas.clientHeight / 3)) return;
  const margin = 24;
  const fitting = (canvas.clientWidth - 2 * margin) / box.width;
  const k = Math.max(Math.min(transform.k, fitting), Math.min(transform.k, 0.4));
  const x = box.width * k > canvas.clientWidth ? margin - box.x * k : canvas.clientWidth / 2 - (box.x + box.width / 2) * k;
  moveTo(vendor.zoomIdentity.translate(x, margin - box.y * k).scale(k));
}
