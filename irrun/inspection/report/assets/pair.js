// Two models side by side: which layers match, what differs, and groups that open together.

const { other } = data;

/** The layers of both models that match each other. @type {Map<number, number>} */
const partners = new Map();
for (const [number, partner] of Object.entries(other?.partners ?? {})) {
  partners.set(Number(number), partner);
  partners.set(partner, Number(number));
}
const unmatched = new Set(other?.unmatched ?? []);

/** Returns whether a layer belongs to the model at the right. */
const isOfOther = (number) => Boolean(other) && number >= other.layer;

/** Returns whether lists contain a layer: those of the other model only if they have no match. */
const isListed = (number) => !isOfOther(number) || unmatched.has(number);

/** Returns what differs between a layer and its match, its constants included. */
function listDifferences(number) {
  if (!other) return [];
  const own = isOfOther(number) ? partners.get(number) : number;
  const constants = (layers[own]?.inputs ?? []).flatMap((input) => (input && layers[input[0]].constant ? listConstantDifferences(input[0]) : []));
  return [...(other.differences[own] ?? []), ...constants];
}

/** Returns what differs in a constant and in those that it is computed from. */
function listConstantDifferences(number, depth = 0) {
  const inner = depth < 6 ? layers[number].inputs.flatMap((input) => (input ? listConstantDifferences(input[0], depth + 1) : [])) : [];
  return [...(other.differences[number] ?? []).map((text) => `constant ${layers[number].name}: ${text}`), ...inner];
}

/** For each layer: 0 if it equals its match, 1 if it differs, and 2 if it has no match. */
const differences = layers.map((layer, number) => {
  if (!other || layer.constant) return undefined;
  if (unmatched.has(number)) return 2;
  return listDifferences(number).length ? 1 : 0;
});
const readDifference = (number) => differences[number];

const DIFFERENCE_TEXTS = ["equal", "differs", "only here"];

/** The drawn layers that differ, those of the model before those that only the other one has. */
const differing = layerNodes.flatMap((node) => (other && node && isListed(node.layer) && readDifference(node.layer) ? [node.layer] : []));

/** Returns the differences as a box. */
function describePair({ isShort = false } = {}) {
  if (!other) return null;
  const names = [data.model.names[0], other.names[0]];
  const kind = differing.length ? "error" : "good";
  const title = differing.length ? `${formatCount(differing.length, "layer")} ${differing.length === 1 ? "differs" : "differ"}` : "Nothing differs";
  const box = create(`section.findings.${kind}`, { "aria-label": "Differences" }, create("strong.verdict", {}, title));
  const shown = differing.slice(0, isShort ? SHOWN_CAUSES : LISTED_CAUSES);
  const describe = (number) => {
    const isSelected = selection.node && [layerNodes[number], layerNodes[partners.get(number)]].includes(selection.node);
    const text = unmatched.has(number) ? `only in ${names[Number(isOfOther(number))]}` : listDifferences(number).join("; ");
    const name = [createLink(number, layers[number].key), create("span.muted", {}, ` ${layers[number].type}`)];
    return create("li.plain", { "aria-current": isSelected ? "true" : null }, ...name, create("div.reason", {}, text));
  };
  box.append(create("ol.causes", {}, ...shown.map(describe)));
  if (shown.length < differing.length) {
    const more = create("button.link", { type: "button", click: () => selectNode(null) }, `${differing.length} layers in all`);
    box.append(isShort ? more : create("p.muted", {}, `and ${differing.length - shown.length} more; the table lists all of them`));
  }
  return box;
}

/** Returns the match of a layer in the other model as a section of its details. */
function describePartner(number) {
  if (!other) return null;
  const name = (isOfOther(number) ? data.model : other).names[0];
  const partner = partners.get(number);
  if (partner === undefined) return section("Other model", create("p.muted", {}, `${name} has no such layer.`));
  const texts = listDifferences(number);
  const list = create("ul", {}, ...texts.map((text) => create("li", {}, text)));
  const link = create("p", {}, `in ${name}: `, createLink(partner, layers[partner].key));
  return section("Other model", link, texts.length ? list : create("p.muted", {}, "no difference"));
}

/** Returns the group or layer of the other model that stands for a node, or undefined. */
function findPartner(node) {
  if (!other || !node) return undefined;
  if (node.kind === "layer") return layerNodes[partners.get(node.layer)];
  const inner = node.layers.find((number) => partners.has(number));
  let candidate = inner === undefined ? undefined : layerNodes[partners.get(inner)];
  while (candidate && !(candidate.kind === node.kind && candidate.label === node.label)) candidate = candidate.parent;
  return candidate ?? undefined;
}
