// The findings of the comparison: the layers that add an error, in the order of their effect on the outputs.

/** Rows of the list that are shown beside the details of a layer. */
const SHOWN_CAUSES = 4;
/** Rows of the list in the overview. */
const LISTED_CAUSES = 200;

/** What was found: one entry per layer that adds an error, and its number in the drawing. */
const causes = (data.reference?.causes ?? []).map((cause, index) => ({ ...cause, rank: index + 1 }));
const causesByLayer = new Map(causes.filter(({ layer }) => layerNodes[layer]).map((cause) => [cause.layer, cause]));

const OUTCOMES = {
  agrees: ["good", "Agrees with the reference"],
  differs: ["error", "Differs from the reference"],
  unexplained: ["error", "The outputs differ, but no layer adds an error"],
};

/** Returns the headline of the comparison, for the bar at the top. */
function summarizeFindings() {
  if (!data.reference) return "";
  const name = data.reference.name.split(/[\\/]/).at(-1);
  if (data.reference.outcome === "agrees") return `agrees with ${name}`;
  const count = causes.length ? `: ${formatCount(causes.length, "layer")} add${causes.length === 1 ? "s" : ""} an error` : "";
  return `differs from ${name}${count}`;
}

/** Returns the findings as a box: all of them in the overview, the first ones beside the details of a layer. */
function describeFindings({ isShort = false } = {}) {
  const { reference } = data;
  if (!reference) return null;
  const [kind, title] = OUTCOMES[reference.outcome];
  const box = create(`section.findings.${kind}`, { "aria-label": "Findings" }, create("strong.verdict", {}, title));
  if (!causes.length) {
    box.append(create("p", {}, reference.outcome === "agrees" ? "No layer adds an error." : reference.summary));
    return box;
  }
  const many = `${causes.length} layers add an error, those with the largest effect on the outputs first:`;
  box.append(create("p", {}, causes.length === 1 ? "One layer adds an error:" : many));
  const shown = causes.slice(0, isShort ? SHOWN_CAUSES : LISTED_CAUSES);
  box.append(create("ol.causes", {}, ...shown.map(describeCause)));
  if (shown.length < causes.length && !isShort) {
    box.append(create("p.muted", {}, `and ${causes.length - shown.length} more; sort the table by their errors to see them`));
  } else if (shown.length < causes.length) {
    const more = create("button.link", { type: "button" }, `all ${causes.length} layers`);
    more.addEventListener("click", () => selectNode(null));
    box.append(more);
  }
  return box;
}

/** Returns one layer that adds an error: its key, its reason and its size. */
function describeCause(cause) {
  const { layer, key, type, reason, own, contribution, since, rank } = cause;
  const isSelected = selection.node && selection.node === layerNodes[layer];
  const name = layerNodes[layer] ? createLink(layer, key, cause.tag) : create("span", {}, key);
  const sizes = [own.db <= -1000 ? formatError(own) : `own error ${formatError(own, ", up to")}`];
  if (contribution !== null) sizes.push(`outputs with this error alone: ${formatDecibels(contribution)}`);
  return create(
    "li",
    { "aria-current": isSelected ? "true" : null },
    create("span.badge", { "aria-hidden": "true" }, String(rank)),
    create("div", {}, name, create("span.muted", {}, ` ${type}`)),
    since.length ? create("div", {}, `arises after ${since.join(", ")}`) : null,
    reason ? create("div.reason", {}, reason) : null,
    create("div.muted", {}, sizes.join("; ")),
  );
}

/** Returns the layers of a node, bodies included, that add an error. */
function findCauses(node) {
  return causes.filter(({ layer }) => {
    for (let inner = layerNodes[layer]; inner; inner = inner.parent) if (inner === node) return true;
    return false;
  });
}

/** Marks a node that adds an error, or that contains one that does, with its rank. */
function markCause(element, node) {
  const found = findCauses(node);
  element.classList.toggle("faulty", found.length > 0);
  const badge = element.querySelector(":scope > .badge");
  if (!found.length) return badge?.remove();
  const text = found.length === 1 ? String(found[0].rank) : `${found[0].rank}+`;
  if (badge) setText(badge, text);
  else element.append(create("span.badge", { title: "adds an error" }, text));
  return undefined;
}

/** Returns the layer that the page opens at: the one that adds most of the error, otherwise null. */
const findFirstCause = () => causes.find(({ layer }) => layerNodes[layer]) ?? null;
