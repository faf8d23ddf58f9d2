// Elements of the page and texts of numbers. Every text from the model is set as text, never as HTML.

/**
 * Creates an element.
 * @param {string} tag The tag, with classes after dots: "div.node.open".
 * @param {Record<string, any>} [attributes] Attributes; functions are listeners; null and false are omitted.
 * @param {...(Node | string | number | null | undefined | false)} children
 */
function create(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(" ");
  setAttributes(element, attributes);
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false).map(toNode));
  return element;
}

/** Creates an SVG element. */
function createSvg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  setAttributes(element, attributes);
  element.append(...children);
  return element;
}

const toNode = (child) => (child instanceof Node ? child : document.createTextNode(String(child)));

function setAttributes(element, attributes) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(key, value);
    else if (key in element && typeof value === "boolean") element[key] = value;
    else element.setAttribute(key, value === true ? "" : String(value));
  }
}

/** Returns a number with four significant digits. */
function formatNumber(number, digits = 4) {
  if (number === null || number === undefined) return "";
  if (typeof number !== "number") return String(number);
  if (Number.isInteger(number) && Math.abs(number) < 1e6) return String(number);
  const magnitude = Math.abs(number);
  if (magnitude && (magnitude < 1e-3 || magnitude >= 1e6)) {
    return number.toExponential(digits - 2).replace(/\.?0*e/, "e").replace("e+", "e");
  }
  return String(Number(number.toPrecision(digits)));
}

function formatSeconds(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds >= 1) return `${formatNumber(seconds, 3)} s`;
  if (seconds >= 1e-3) return `${formatNumber(seconds * 1e3, 3)} ms`;
  return `${formatNumber(seconds * 1e6, 3)} µs`;
}

function formatBytes(bytes) {
  if (bytes === null || bytes === undefined) return "";
  const units = ["B", "KB", "MB", "GB"];
  let size = bytes;
  let unit = 0;
  while (size >= 1000 && unit < 3) {
    size /= 1000;
    unit += 1;
  }
  return `${formatNumber(size, 3)} ${units[unit]}`;
}

const formatCount = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

/** Returns an error: the SQNR in dB, "equal" or "other shape". */
function formatDecibels(db) {
  if (db === null) return "equal";
  if (db <= -1000) return "other shape";
  if (db <= -999) return "-inf dB";
  return `${db.toFixed(1)} dB`;
}

/** Returns an error with the largest difference, if both are numbers. */
function formatError({ db, abs }, title = ", largest difference") {
  return formatDecibels(db) + (db === null || db <= -1000 ? "" : `${title} ${formatNumber(abs)}`);
}

const formatShape = (shape) => (Array.isArray(shape) ? `[${shape.join(",")}]` : shape ?? "");
