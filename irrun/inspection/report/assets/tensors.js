// Full values: compressed .npy files in the page, which are drawn whole in a dialog and offered for download.

/** Maps that the dialog draws at first, and per further click. */
const MAPS_PER_STEP = 64;

/** Readers of the elements of .npy files by their types. */
const NPY_READERS = {
  f8: ["getFloat64", 8],
  f4: ["getFloat32", 4],
  f2: ["getUint16", 2],
  i8: ["getBigInt64", 8],
  u8: ["getBigUint64", 8],
  i4: ["getInt32", 4],
  u4: ["getUint32", 4],
  i2: ["getInt16", 2],
  u2: ["getUint16", 2],
  i1: ["getInt8", 1],
  u1: ["getUint8", 1],
  b1: ["getUint8", 1],
};

/** Returns the bytes of the .npy file of a tensor. */
async function unpackTensor(number) {
  const text = atob(data.tensors[number]);
  const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Returns the shape and the elements of a tensor as numbers. */
async function readTensor(number) {
  const bytes = await unpackTensor(number);
  const view = new DataView(bytes.buffer);
  const length = view.getUint16(8, true);
  const header = new TextDecoder("latin1").decode(bytes.subarray(10, 10 + length));
  const type = header.match(/'descr': '[<|=]?(\w\d)'/)[1];
  const shape = [...header.match(/'shape': \(([^)]*)\)/)[1].matchAll(/\d+/g)].map(Number);
  const [method, size] = NPY_READERS[type];
  const count = shape.reduce((product, extent) => product * extent, 1);
  const values = new Float64Array(count);
  for (let i = 0; i < count; i += 1) {
    const element = view[method](10 + length + i * size, true);
    values[i] = type === "f2" ? decodeHalf(element) : Number(element);
  }
  return { shape, values };
}

function decodeHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : (2 ** -14 * fraction) / 1024);
}

/** Saves a file that the page contains or makes. */
function saveFile(name, content, type) {
  const link = create("a", { download: name, href: URL.createObjectURL(new Blob([content], { type })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** Returns buttons for what can be done with the full value of an output: draw it, save it. */
function createTensorButtons(output, name) {
  const isHere = (number) => number !== undefined && data.tensors[number];
  const { reference } = output;
  if (!isHere(output.tensor) && !isHere(reference?.tensor)) return explainTensor(output);
  const box = create("div.tensor");
  const add = (title, action) => box.append(create("button.action", { type: "button", click: action }, title));
  const save = (number, suffix) => async () => saveFile(`${toFileName(name)}${suffix}.npy`, await unpackTensor(number), "application/octet-stream");
  if (isHere(output.tensor) && output.shape.length > 1) add("Show whole", () => openViewer(output, name));
  if (isHere(output.tensor)) add("Save .npy", save(output.tensor, ""));
  if (isHere(reference?.tensor)) add("Save reference .npy", save(reference.tensor, ".reference"));
  return box;
}

/** Returns how to get a full value that the page does not contain, or null for small ones, which it shows whole. */
function explainTensor(output) {
  const count = output.shape.reduce((product, extent) => product * extent, 1);
  const isWhole = !output.first || count <= output.first.length;
  return isWhole ? null : create("p.hint", {}, "The page does not contain the full value; irrun report --tensors 50M keeps more of them.");
}

const toFileName = (name) => name.replace(/[^\w.-]+/g, "_").slice(-120);

/** Opens the dialog that draws all maps of a value, of its reference and of their difference. */
async function openViewer(output, name) {
  const dialog = document.getElementById("viewer");
  const value = await readTensor(output.tensor);
  const hasReference = output.reference?.tensor !== undefined && Boolean(data.tensors[output.reference.tensor]);
  const expected = hasReference ? await readTensor(output.reference.tensor) : null;
  const isComparable = expected && expected.values.length === value.values.length;
  const sources = [["value", value]];
  if (expected) sources.push(["reference", expected]);
  if (isComparable) sources.push(["difference", { shape: value.shape, values: value.values.map((element, i) => Math.abs(element - expected.values[i])) }]);
  const shared = isComparable ? findBounds([value.values, expected.values]) : null;
  const grid = create("div.viewer-grid");
  const show = (kind) => {
    const source = sources.find(([title]) => title === kind)[1];
    drawMaps(grid, source, kind === "difference" || !shared ? findBounds([source.values]) : shared);
  };
  const options = sources.map(([title]) => create("option", { value: title }, title));
  const choice = create("select", { "aria-label": "Shown values", change: () => show(choice.value) }, ...options);
  const close = create("button", { type: "button", click: () => dialog.close() }, "Close");
  dialog.replaceChildren(create("div.viewer-head", {}, create("h2", {}, `${name} ${output.type}${formatShape(value.shape)}`), choice, close), grid);
  show("value");
  dialog.showModal();
}

/** Returns the smallest and the largest finite element of arrays. */
function findBounds(arrays) {
  let [low, high] = [Infinity, -Infinity];
  for (const values of arrays) {
    for (const element of values) {
      if (!Number.isFinite(element)) continue;
      if (element < low) low = element;
      if (element > high) high = element;
    }
  }
  return low <= high ? [low, high] : [0, 0];
}

/** Draws all matrices of a tensor on one scale, step by step if they are many. */
function drawMaps(grid, { shape, values }, [low, high]) {
  const [height, width] = shape.slice(-2);
  const count = values.length / (height * width || 1);
  grid.replaceChildren(create("p.muted", {}, `${formatCount(count, "map")} of ${height} × ${width}, ${formatNumber(low)} to ${formatNumber(high)}`));
  const more = create("button.action", { type: "button" }, "More");
  const encode = (element) => (Number.isFinite(element) ? Math.round((254 * (element - low)) / (high - low || 1)) : NOT_FINITE);
  let shown = 0;
  const step = () => {
    const end = Math.min(count, shown + MAPS_PER_STEP);
    for (; shown < end; shown += 1) {
      const start = shown * height * width;
      const codes = values.subarray(start, start + height * width).map(encode);
      grid.insertBefore(create("div.map", {}, paintCodes(codes, width, height), create("span", {}, nameMap(shape, shown))), more.isConnected ? more : null);
    }
    if (shown < count && !more.isConnected) grid.append(more);
    if (shown >= count) more.remove();
  };
  more.addEventListener("click", step);
  step();
}

/** Returns the indices of the matrix that a number stands for: "0, 3". */
function nameMap(shape, number) {
  const indices = [];
  for (const extent of shape.slice(0, -2).reverse()) {
    indices.unshift(number % extent);
    number = Math.floor(number / extent);
  }
  return indices.join(", ");
}
