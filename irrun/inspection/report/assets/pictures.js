// Pictures of values, drawn on canvases from one byte per pixel.

/** The colors of feature maps and of attention maps: viridis, whose lightness increases evenly. */
const MAP_COLORS = ["#440154", "#3b528b", "#21918c", "#5ec962", "#fde725"];
/** The code of elements that are not finite, and their color. */
const NOT_FINITE = 255;
const NOT_FINITE_COLOR = [255, 0, 170];

const palette = Array.from({ length: 256 }, (_, code) =>
  code === NOT_FINITE ? NOT_FINITE_COLOR : interpolateColor(code / 254, MAP_COLORS),
);

const decodedPixels = new Map();

/** Returns the bytes of a picture. */
function decodePixels(picture) {
  if (!decodedPixels.has(picture)) {
    const text = atob(picture.data);
    decodedPixels.set(picture, Uint8Array.from(text, (character) => character.charCodeAt(0)));
  }
  return decodedPixels.get(picture);
}

/** Returns a canvas on which codes from 0 to 255 are drawn in the colors of maps. */
function paintCodes(codes, width, height, colorOf = (code) => palette[code]) {
  const canvas = create("canvas", { width, height });
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  for (let i = 0; i < width * height; i += 1) image.data.set([...colorOf(codes[i], i), 255], 4 * i);
  context.putImageData(image, 0, 0);
  return canvas;
}

/** Draws one map of a picture, or an image, on a new canvas. */
function drawMap(picture, index, channels) {
  const { width, height, color, kind } = picture;
  const pixels = decodePixels(picture);
  const order = channels === "BGR" ? [2, 1, 0] : [0, 1, 2];
  const codes = color ? pixels : pixels.subarray(index * width * height, (index + 1) * width * height);
  let colorOf = kind === "image" ? (code) => [code, code, code] : undefined;
  if (color) colorOf = (_, i) => order.map((channel) => pixels[3 * i + channel]);
  return paintCodes(codes, width, height, colorOf);
}

/** Returns the pictures of an output as a figure, or null. */
function createPictures(output) {
  const picture = pictures[output?.picture];
  if (!picture) return null;
  const { kind, count, total, size } = picture;
  const figure = create("figure.pictures", { "data-kind": kind });
  const extent = `${size[0]} × ${size[1]}`;
  if (kind === "image") {
    const show = (channels) => {
      const canvas = drawMap(picture, 0, channels);
      canvas.className = "image";
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `Image, ${extent}`);
      return canvas;
    };
    let canvas = show(data.channels);
    figure.append(canvas);
    const caption = create("figcaption", {}, `image, ${extent}`);
    if (picture.color) {
      let channels = data.channels;
      const button = create("button.link", { type: "button", title: "Swap red and blue" }, channels);
      button.addEventListener("click", () => {
        channels = channels === "BGR" ? "RGB" : "BGR";
        button.textContent = channels;
        const swapped = show(channels);
        canvas.replaceWith(swapped);
        canvas = swapped;
      });
      caption.append(", shown as ", button);
    }
    figure.append(caption);
    return figure;
  }
  const noun = { "feature maps": "channel", attention: "head", matrix: "matrix" }[kind];
  const grid = create("div.maps", { "data-count": count });
  for (let i = 0; i < count; i += 1) {
    const canvas = drawMap(picture, i);
    const [low, high] = picture.bounds[i];
    const range = `${formatNumber(low, 3)} to ${formatNumber(high, 3)}`;
    const label = kind === "matrix" ? range : `${noun} ${i}: ${range}`;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", label);
    canvas.style.setProperty("--natural", `${Math.max(picture.width * 14, 56)}px`); // small matrices stay small
    grid.append(create("div.map", { title: label }, canvas, create("span", {}, kind === "matrix" ? range : `${i}`)));
  }
  const axes = kind === "attention" ? "queries ↓ keys →" : "";
  const shown = kind === "matrix" ? "first matrix" : `${count} of ${formatCount(total, noun)}`;
  figure.append(grid, create("figcaption", {}, [`${shown}, ${extent}`, axes].filter(Boolean).join(", ")));
  return figure;
}

/** Returns a histogram as a drawing, or null. */
function createHistogram(histogram) {
  if (!histogram) return null;
  const { counts, low, high, sampled } = histogram;
  const [width, height] = [320, 64];
  const largest = Math.max(...counts);
  const total = counts.reduce((sum, count) => sum + count, 0);
  const svg = createSvg("svg", { viewBox: `0 0 ${width} ${height}`, class: "histogram", preserveAspectRatio: "none", role: "img" });
  svg.setAttribute("aria-label", `Histogram from ${formatNumber(low)} to ${formatNumber(high)}`);
  counts.forEach((count, i) => {
    if (!count) return;
    const step = width / counts.length;
    // The square root keeps rare values visible.
    const bar = Math.max(1, Math.sqrt(count / largest) * (height - 2));
    const rect = createSvg("rect", { x: i * step + 0.5, y: height - bar, width: Math.max(1, step - 1), height: bar });
    const start = low + ((high - low) * i) / counts.length;
    const end = low + ((high - low) * (i + 1)) / counts.length;
    const share = `${formatNumber((100 * count) / total, 3)} %`;
    rect.append(createSvg("title", {}, `${formatNumber(start)} to ${formatNumber(end)}: ${share}`));
    svg.append(rect);
  });
  const zero = low < 0 && high > 0 ? (-low / (high - low)) * width : null;
  if (zero !== null) svg.append(createSvg("line", { x1: zero, x2: zero, y1: 0, y2: height, class: "zero" }));
  const note = sampled ? "square root of counts, of a sample" : "square root of counts";
  const axis = create("div.axis", {}, create("span", {}, formatNumber(low)), create("span.muted", {}, note));
  axis.append(create("span", {}, formatNumber(high)));
  return create("div.histogram-box", {}, svg, axis);
}
