// Export of the drawing as an SVG or PNG file, in the colors that it has on the page.

/** Longest side of a PNG file in pixels. */
const MAX_PIXELS = 8000;

/** Returns the drawing as an SVG element without styles of the page. */
function makeSvg() {
  const { width, height } = worldSize;
  const style = getComputedStyle(document.body);
  const size = { width: width + 40, height: height + 40 };
  const viewBox = `-20 -20 ${size.width} ${size.height}`;
  const svg = createSvg("svg", { xmlns: "http://www.w3.org/2000/svg", ...size, viewBox, "font-family": "system-ui, sans-serif" });
  svg.append(createSvg("rect", { x: -20, y: -20, ...size, fill: style.backgroundColor }));
  const classes = ["far", "very-far"].filter((name) => canvas.classList.contains(name));
  canvas.classList.remove(...classes);
  for (const frame of frameLayer.children) svg.append(copyBox(frame, 12));
  svg.append(copyEdges());
  for (const element of nodeLayer.children) svg.append(copyElement(element));
  canvas.classList.add(...classes);
  return svg;
}

const readBox = (element) => ["left", "top", "width", "height"].map((side) => parseFloat(element.style[side]));

/** Returns an element's background and border as a rectangle. */
function copyBox(element, radius) {
  const [x, y, width, height] = readBox(element);
  const style = getComputedStyle(element);
  const border = { stroke: style.borderTopColor, "stroke-width": parseFloat(style.borderTopWidth) || 0 };
  return createSvg("rect", { x, y, width, height, rx: radius, fill: style.backgroundColor, ...border });
}

function copyEdges() {
  const group = createSvg("g", { fill: "none" });
  const marker = edgeLayer.querySelector("defs").cloneNode(true);
  for (const shape of marker.querySelectorAll("path")) shape.setAttribute("fill", getComputedStyle(edgeLayer.querySelector("#arrow path")).fill);
  group.append(marker);
  for (const path of edgeLayer.children) {
    if (!path.edge) continue;
    const { stroke, strokeWidth, strokeDasharray, opacity } = getComputedStyle(path);
    const line = { stroke, opacity, "stroke-width": parseFloat(strokeWidth), "stroke-dasharray": strokeDasharray === "none" ? null : strokeDasharray };
    group.append(createSvg("path", { d: path.getAttribute("d"), "marker-end": path.getAttribute("marker-end"), ...line }));
  }
  return group;
}

/** Returns a node, header or pill with its texts. */
function copyElement(element) {
  const [x, y, width, height] = readBox(element);
  const group = createSvg("g");
  const isHeader = element.classList.contains("header");
  if (!isHeader) group.append(copyBox(element, element.classList.contains("pill") ? 11 : 7));
  const { color } = getComputedStyle(element);
  const write = (text, size, weight, left, baseline, room, anchor = "start") => {
    if (!text) return;
    const attributes = { x: left, y: baseline, fill: color, "font-size": size, "font-weight": weight, "text-anchor": anchor };
    group.append(createSvg("text", attributes, shorten(text, room, size)));
  };
  if (element.classList.contains("pill")) {
    write(element.textContent, 11, 400, x + width / 2, y + height / 2 + 4, width - 12, "middle");
  } else if (isHeader) {
    write(element.querySelector(".name").textContent, 14, 650, x + 14, y + height / 2 + 5, width - 28);
  } else {
    const category = element.style.getPropertyValue("--category");
    if (category && !element.classList.contains("group")) group.append(createSvg("rect", { x, y, width: 5, height, fill: category }));
    for (const [index, line] of [...element.querySelectorAll(".line")].entries()) {
      const [size, baseline] = index ? [11.5, y + 37] : [13, y + 19];
      const value = line.children[1].textContent;
      write(line.children[0].textContent, size, index ? 400 : 600, x + 14, baseline, width - 30 - value.length * size * 0.55);
      write(value, size, 400, x + width - 10, baseline, width * 0.6, "end");
    }
  }
  return group;
}

/** Returns a text that fits into a width. */
function shorten(text, room, size) {
  const count = Math.max(1, Math.floor(room / (size * 0.56)));
  return text.length > count ? `${text.slice(0, count - 1)}…` : text;
}

function serializeSvg() {
  return new XMLSerializer().serializeToString(makeSvg());
}

function getFileName(suffix) {
  return `${toFileName(data.model.names[0].replace(/\.xml$/, ""))}.${suffix}`;
}

function saveSvg() {
  saveFile(getFileName("svg"), serializeSvg(), "image/svg+xml");
}

/** Saves the drawing as pixels, two for each unit of the drawing if it is not too large. */
async function savePng() {
  const image = new Image();
  const bytes = new TextEncoder().encode(serializeSvg());
  image.src = `data:image/svg+xml;base64,${btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""))}`;
  await image.decode();
  const scale = Math.min(2, MAX_PIXELS / Math.max(image.naturalWidth, image.naturalHeight));
  const target = create("canvas", { width: Math.ceil(image.naturalWidth * scale), height: Math.ceil(image.naturalHeight * scale) });
  target.getContext("2d").drawImage(image, 0, 0, target.width, target.height);
  const blob = await new Promise((resolve) => target.toBlob(resolve, "image/png"));
  saveFile(getFileName("png"), blob, "image/png");
}
