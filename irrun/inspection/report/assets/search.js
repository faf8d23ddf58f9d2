// Search by name, type, key and tensor name.

const searchInput = document.getElementById("search");
const resultList = document.getElementById("results");
const MAX_RESULTS = 40;

/** The searched text of each layer; constants are part of it, for their consumers. */
const searchTexts = layers.map((layer, number) => {
  const names = layer.outputs.flatMap((port) => port.names ?? []);
  return [layer.key, layer.name, layer.type, ...names].join("\n").toLowerCase();
});

const searchState = { results: [], active: -1 };

/** The names of attributes of any layer. */
const attributeNames = new Set(layers.flatMap((layer) => Object.keys(layer.attributes ?? {})));

/**
 * Returns a function that tells whether a layer is meant by a query: /a regular expression/ for a key, name, type or
 * tensor name; or words, all of which occur in these, or are attributes: axis=1 for the value, mode:bil for a part.
 */
function compileQuery(text) {
  const expression = text.match(/^\/(.+)\/(i?)$/);
  if (expression) {
    const pattern = compilePattern(expression[1], expression[2]);
    return (number) => {
      const layer = layers[number];
      return Boolean(pattern) && [layer.key, layer.name, layer.type, ...layer.outputs.flatMap((port) => port.names ?? [])].some((name) => pattern.test(name));
    };
  }
  const tests = text.split(/\s+/).filter(Boolean).map(compileWord);
  return (number) => tests.every((test) => test(number));
}

function compilePattern(source, flags) {
  try {
    return new RegExp(source, flags);
  } catch {
    return null;
  }
}

/** Returns a function that tells whether a layer has a word in its names, or the attribute that it states. */
function compileWord(word) {
  const [, name, operator, value] = word.match(/^([\w-]+)([=:])(.+)$/) ?? [];
  const normalize = (part) => String(part).toLowerCase().replace(/\s+/g, "");
  const matches = (part) => (operator === "=" ? normalize(part) === normalize(value) : normalize(part).includes(normalize(value)));
  if (name === "type") return (number) => matches(layers[number].type);
  if (attributeNames.has(name)) return (number) => layers[number].attributes?.[name] !== undefined && matches(layers[number].attributes[name]);
  const part = word.toLowerCase().replace(/\[\d+\]\//g, "[0]/");
  return (number) => searchTexts[number].includes(part);
}

function updateSearch() {
  const query = searchInput.value.trim();
  const matches = query ? compileQuery(query) : () => false;
  const numbers = layers.map((_, number) => number).filter(matches);
  const rank = (number) => Number(Boolean(layers[number].constant)) * 2 + Number(layers[number].name.toLowerCase() !== query.toLowerCase());
  numbers.sort((a, b) => rank(a) - rank(b) || a - b);
  searchState.results = numbers.slice(0, MAX_RESULTS);
  searchState.active = searchState.results.length ? 0 : -1;
  tableState.filter = query ? compileQuery(query) : () => true;
  tableScroller.scrollTop = 0;
  updateTable();
  renderResults(query, numbers.length);
  setText(document.getElementById("status"), query ? formatCount(numbers.length, "result") : "");
}

function renderResults(query, total) {
  const items = searchState.results.map((number, index) => {
    const layer = layers[number];
    const item = create(
      "li",
      { role: "option", id: `result-${index}`, "aria-selected": index === searchState.active ? "true" : "false" },
      create("span.type", {}, layer.type),
      create("span.key", {}, create("bdi", {}, layer.key)),
    );
    item.style.setProperty("--category", getCategory(layer.type)[1]);
    item.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      chooseResult(index);
    });
    return item;
  });
  if (query && !total) items.push(create("li.empty", {}, explainNothing(query)));
  if (total > MAX_RESULTS) items.push(create("li.empty", {}, `and ${total - MAX_RESULTS} more; the table shows all of them`));
  resultList.replaceChildren(...items);
  resultList.hidden = !query;
  searchInput.setAttribute("aria-expanded", String(Boolean(query)));
  markActiveResult();
}

function explainNothing(query) {
  const expression = query.match(/^\/(.+)\/(i?)$/);
  if (expression && !compilePattern(...expression.slice(1))) return "This is not a regular expression.";
  return "No layer, type or key contains this text.";
}

function markActiveResult() {
  [...resultList.children].forEach((item, index) => {
    if (item.role === "option") item.setAttribute("aria-selected", String(index === searchState.active));
  });
  const active = document.getElementById(`result-${searchState.active}`);
  active?.scrollIntoView({ block: "nearest" });
  if (active) searchInput.setAttribute("aria-activedescendant", active.id);
  else searchInput.removeAttribute("aria-activedescendant");
}

function closeResults() {
  resultList.hidden = true;
  searchInput.setAttribute("aria-expanded", "false");
}

function clearSearch() {
  searchInput.value = "";
  updateSearch();
}

function chooseResult(index) {
  const number = searchState.results[index];
  if (number === undefined) return;
  const tag = readTag(searchInput.value);
  clearSearch();
  chooseView("graph"); // on narrow screens, which show one part
  const target = layerNodes[number] ? number : findDrawnConsumer(number);
  if (target !== undefined) revealLayer(target, { constant: layers[number].constant ? number : null, tag });
}

/** Returns the drawn layer that a constant is a part of. */
function findDrawnConsumer(number) {
  const seen = new Set([number]);
  for (const current of seen) {
    if (layerNodes[current]) return current;
    layers.forEach((layer, i) => layer.inputs.some((input) => input?.[0] === current) && seen.add(i));
  }
  return undefined;
}

function setUpSearch() {
  searchInput.addEventListener("input", updateSearch);
  searchInput.addEventListener("focus", () => searchInput.value.trim() && updateSearch());
  searchInput.addEventListener("blur", closeResults);
  searchInput.addEventListener("keydown", (event) => {
    const { results } = searchState;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && results.length) {
      event.preventDefault();
      searchState.active = (searchState.active + step + results.length) % results.length;
      markActiveResult();
    } else if (event.key === "Enter") {
      event.preventDefault();
      chooseResult(searchState.active);
    } else if (event.key === "Escape") {
      clearSearch();
      searchInput.blur();
    }
    event.stopPropagation();
  });
}
