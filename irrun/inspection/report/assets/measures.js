// What layers can be colored by, and the colors.

/**
 * @typedef {object} Measure
 * @property {string} id
 * @property {string} label
 * @property {string} description What the legend says about it.
 * @property {(number: number) => number | null | undefined} read The value of a layer; undefined if it has none.
 * @property {"sum" | "max" | "min"} combine How the values of a group are combined.
 * @property {"linear" | "log" | "error"} scale
 * @property {(value: number | null) => string} format
 */

/** Categories of operations, in colors that remain distinct with color vision deficiencies. */
const CATEGORIES = [
  ["Convolution and products", "#0072b2", /convolution|matmul|gemm|einsum|fullyconnected|embedding/i],
  ["Normalization", "#56b4e9", /norm|mvn|lrn|fakequantize|grn/i],
  ["Activation", "#009e73", /relu|gelu|sigmoid|tanh|swish|mish|clamp|elu|softmax|softplus|softsign|^exp$|^erf$|attention/i],
  ["Pooling and reduction", "#d55e00", /pool|reduce|topk|argmax|cumsum|nonmax|detection/i],
  ["Control flow and sequences", "#cc79a7", /tensoriterator|loop|^if$|lstm|gru|rnn|readvalue|assign/i],
  ["Input and output", "#b8a200", /^(parameter|result|constant)$/i],
  [
    "Data movement",
    "#8a8f98",
    /reshape|transpose|concat|split|slice|squeeze|tile|broadcast|shape|pad|scatter|gather|convert|shuffle|space|roll|reverse|interpolate|select/i,
  ],
  ["Elementwise", "#e69f00", /.*/],
];

const categoryCache = new Map();

/** Returns the category of an operation: its name and its color. */
function getCategory(type) {
  if (!categoryCache.has(type)) categoryCache.set(type, CATEGORIES.find(([, , pattern]) => pattern.test(type)));
  return categoryCache.get(type);
}

/** The colors of small to large values, on light and on dark backgrounds. Lightness alone orders them. */
const SCALES = {
  light: ["#fbf6e6", "#fee391", "#fe9929", "#d2570c", "#7a2604"],
  dark: ["#2b303a", "#55347f", "#b23a76", "#f5845d", "#fbf3b5"],
};

const readOutputs = (number) => getRecord(number)?.outputs?.filter(Boolean);

function readBytes(number) {
  const record = getRecord(number);
  if (!record?.outputs || record.forwarded) return undefined;
  return record.outputs.reduce((sum, output) => sum + (output?.bytes ?? 0), 0);
}

/** The bytes of the constants of each layer, also of those that its inputs are computed from. */
const weightsCache = new Map();

function readWeights(number) {
  if (layers[number].constant) return undefined;
  if (!weightsCache.has(number)) {
    const bytes = (input, depth = 0) => {
      const layer = input && layers[input[0]];
      if (!layer?.constant || depth > 8) return 0;
      return layer.bytes ?? layer.inputs.reduce((sum, inner) => sum + bytes(inner, depth + 1), 0);
    };
    weightsCache.set(number, layers[number].inputs.reduce((sum, input) => sum + bytes(input), 0) || undefined);
  }
  return weightsCache.get(number);
}

function readMagnitude(number) {
  const bounds = (readOutputs(number) ?? []).flatMap((output) => output.stats?.slice(0, 2) ?? []);
  const numbers = bounds.filter((bound) => bound !== null).map(Math.abs);
  return numbers.length ? Math.max(...numbers) : undefined;
}

/** Returns the error of a layer in dB; null if the values are equal. */
const readError = (kind) => (number) => getErrors(number)?.[kind]?.db;

/** @type {Measure[]} */
const ALL_MEASURES = [
  {
    id: "own",
    label: "Own error",
    description: "what the layer adds, as a signal-to-noise ratio",
    read: readError("own"),
    combine: "min",
    scale: "error",
    format: formatDecibels,
  },
  {
    id: "accumulated",
    label: "Accumulated error",
    description: "in an ordinary run, as a signal-to-noise ratio",
    read: readError("accumulated"),
    combine: "min",
    scale: "error",
    format: formatDecibels,
  },
  {
    id: "time",
    label: "Time",
    description: `of kernels in ${data.times?.source}, all iterations together`,
    read: readSeconds,
    combine: "sum",
    scale: "linear",
    format: formatSeconds,
  },
  {
    id: "memory",
    label: "Memory",
    description: "of the outputs",
    read: readBytes,
    combine: "sum",
    scale: "linear",
    format: formatBytes,
  },
  {
    id: "range",
    label: "Range",
    description: "largest magnitude of the outputs",
    read: readMagnitude,
    combine: "max",
    scale: "log",
    format: (value) => formatNumber(value, 3),
  },
  {
    id: "difference",
    label: "Difference",
    description: "to the other model",
    read: readDifference,
    combine: "max",
    scale: "linear",
    format: (value) => DIFFERENCE_TEXTS[value] ?? "",
  },
  {
    id: "weights",
    label: "Weights",
    description: "size of the constants that a layer uses",
    read: readWeights,
    combine: "sum",
    scale: "linear",
    format: formatBytes,
  },
  { id: "type", label: "Operation", description: "Kind of operation", read: () => undefined, combine: "max" },
];

/** The measures for which the report contains numbers. */
const measures = ALL_MEASURES.filter(
  ({ id, read }) => id === "type" || layers.some((layer, number) => !layer.constant && read(number) !== undefined),
);

const findMeasure = (id) => measures.find((measure) => measure.id === id);

/** The chosen measure and the bounds of its scale. */
const firstMeasure = findMeasure(data.has_run ? "own" : "difference") ?? measures.at(data.has_run ? 0 : -1);
const coloring = { measure: firstMeasure, low: 0, high: 1, hasValues: false };

/** Returns the worst errors in dB of layers that own bodies, over all layers and iterations of these. */
const findWorstInside = (kind) => {
  const worst = new Map();
  for (const [number, errors] of Object.entries(data.errors)) {
    const numbers = Object.values(errors).map((error) => error[kind].db).filter((db) => db !== null);
    for (let owner = getOwner(number); owner !== null && numbers.length; owner = getOwner(owner)) {
      worst.set(owner, Math.min(worst.get(owner) ?? Infinity, ...numbers));
    }
  }
  return worst;
};
const worstInside = { own: findWorstInside("own"), accumulated: findWorstInside("accumulated") };

/** The seconds of the layers in the bodies of each layer. */
const secondsInside = new Map();
for (const { layers: [number], seconds } of data.times?.kernels ?? []) {
  for (const owner of getOwners(number)) secondsInside.set(owner, (secondsInside.get(owner) ?? 0) + seconds);
}

/** Returns the value of a layer as a closed node: times and errors include those in its bodies. */
function readClosed(number, measure) {
  const value = measure.read(number);
  if (measure.id === "time" && secondsInside.has(number)) return (value ?? 0) + secondsInside.get(number);
  const inside = measure.scale === "error" ? worstInside[measure.id].get(number) : undefined;
  return inside === undefined ? value : Math.min(value ?? Infinity, inside);
}

/** Returns the value of a node: that of its layer, or what its layers have together. */
function readNode(node, measure = coloring.measure) {
  if (node.kind === "layer") return readClosed(node.layer, measure);
  const values = node.layers.map((number) => readClosed(number, measure)).filter((value) => value !== undefined);
  if (!values.length) return undefined;
  if (measure.combine === "sum") return values.reduce((sum, value) => sum + value, 0);
  if (measure.combine === "max") return values.reduce((a, b) => (b > a ? b : a));
  const finite = values.filter((value) => value !== null);
  return finite.length ? finite.reduce((a, b) => (b < a ? b : a)) : null;
}

/** Finds the bounds of the chosen measure. Groups may exceed them. */
function updateScale() {
  const values = [];
  let isExtreme = false; // errors that are not a number of dB
  for (const node of layerNodes) {
    const value = node && coloring.measure.read(node.layer);
    if (typeof value !== "number") continue;
    if (value > -999) values.push(value);
    else isExtreme = true;
  }
  coloring.hasValues = values.length > 0 || isExtreme || (coloring.measure.scale === "error" && worstInside[coloring.measure.id].size > 0);
  coloring.low = values.reduce((a, b) => Math.min(a, b), Infinity);
  coloring.high = values.reduce((a, b) => Math.max(a, b), -Infinity);
  if (coloring.measure.scale === "linear") coloring.low = 0;
  if (coloring.measure.scale === "error") {
    const inside = worstInside[coloring.measure.id].values();
    coloring.low = Math.max(0, Math.min(coloring.low, 60, ...inside));
    coloring.high = Math.min(160, Math.max(coloring.high, 100));
  }
  if (coloring.measure.scale === "log") {
    coloring.high = coloring.high > 0 ? coloring.high : 1;
    const positive = values.filter((value) => value > 0);
    const smallest = positive.reduce((a, b) => Math.min(a, b), coloring.high);
    coloring.low = Math.max(smallest, coloring.high * 1e-12);
  }
}

/** Returns the position of a value on the scale, from 0 to 1; 1 stands out. */
function getPosition(value) {
  const { low, high, measure } = coloring;
  if (value === null) return 0; // no error
  if (measure.scale === "error") return clamp((high - value) / (high - low || 1));
  if (measure.scale === "log") return value > 0 ? clamp(Math.log(value / low) / (Math.log(high / low) || 1)) : 0;
  return clamp(value / (high || 1));
}

const clamp = (number) => Math.min(1, Math.max(0, number));

const isDark = () => {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

const parseColor = (text) => [1, 3, 5].map((start) => parseInt(text.slice(start, start + 2), 16));

/** Returns the color of a position on the scale, as red, green and blue. */
function interpolateColor(position, scale = SCALES[isDark() ? "dark" : "light"]) {
  const place = clamp(position) * (scale.length - 1);
  const index = Math.min(Math.floor(place), scale.length - 2);
  const [a, b] = [parseColor(scale[index]), parseColor(scale[index + 1])];
  return a.map((channel, i) => Math.round(channel + (b[i] - channel) * (place - index)));
}

/** Returns whether black text is more legible than white text on a color. */
function isBright(color) {
  const [r, g, b] = color.map((channel) => (channel / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.2;
}
