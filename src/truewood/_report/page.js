// Connects the controls, the table and the Vega charts. Feature names only ever become textContent.
const byId = (id) => document.getElementById(id);
const { fields, rows, columns, by, shown, labels, lines, narrow, verdicts, directions, charts } = JSON.parse(byId("data").textContent);

const features = rows.map((row, number) => {
  const [value, low, high] = shown[number];
  return {
    ...Object.fromEntries(fields.map((name, j) => [name, row[j]])),
    // All numbers are formatted in Python.
    ...Object.fromEntries(columns.map(({ name, texts }) => [`text_${name}`, texts[number]])),
    shown: value,
    low,
    high,
    label: labels[number],
    lines: lines[number],
    narrow: narrow[number],
    number,
    verdict: verdicts ? verdicts[number] : "",
    direction: directions ? directions[number].text : "",
    isChecked: true,
  };
});
const MAX_ROWS = 500;
// A table with percentages is sorted by them; the order is the same.
const first = columns.some((column) => column.name === "shown") ? "shown" : by;
const state = { query: "", by: first, ascending: false, top: features.length > 20 ? 20 : Infinity, maxRows: MAX_ROWS };
const views = [];

// The first click on one of these headings sorts in ascending order.
const startsAscending = (name) => ["feature", "verdict", "direction", "p_value", "adjusted_p_value", "mdi_rank"].includes(name);

// Changes are sorted by their absolute value.
const isChange = (name) => columns.some((column) => column.name === name && column.kind === "change");
const sortKey = (feature) => (isChange(state.by) ? Math.abs(feature[state.by]) : feature[state.by]);

function compare(a, b) {
  const [x, y] = [sortKey(a), sortKey(b)];
  if (x === y) return a.number - b.number;
  if (x === null || y === null) return x === null ? 1 : -1;
  const order = typeof x === "string" ? x.localeCompare(y, undefined, { numeric: true }) : x - y;
  return (state.ascending ? order : -order) || a.number - b.number;
}

const findFeatures = () => features.filter(({ label }) => label.toLowerCase().includes(state.query)).sort(compare);
const chooseShown = (found) =>
  found.filter(({ isChecked }) => isChecked).slice(0, state.top).map((feature, position) => ({ ...feature, position }));

function add(parent, tag, text = "", attributes = {}) {
  const element = parent.appendChild(document.createElement(tag));
  element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

// Long names may break after underscores, rather than anywhere.
function appendName(parent, name) {
  name.split(/(?<=_)/).forEach((part, k) => parent.append(...(k ? [document.createElement("wbr")] : []), part));
}

function drawHeadings() {
  const headings = byId("headings");
  headings.replaceChildren();
  for (const { name, title, is_wide: isWide } of columns) {
    const cell = add(headings, "th", "", { scope: "col", class: isWide ? "wide" : "" });
    if (name === "feature") {
      cell.classList.add("name");
      const all = add(cell, "input", "", { type: "checkbox", "aria-label": "show all features in the charts" });
      all.checked = true;
      all.addEventListener("change", () => {
        for (const feature of findFeatures()) feature.isChecked = all.checked;
        refresh();
      });
      cell.append(" ");
    }
    const button = add(cell, "button", "", { type: "button" });
    // Lines break between words, not after the hyphen of "p-value".
    for (const word of title.split(" ")) {
      if (button.childNodes.length) button.append(" ");
      add(button, "span", word);
    }
    button.addEventListener("click", () => {
      sortBy(name, state.by === name ? !state.ascending : startsAscending(name));
    });
    cell.dataset.column = name;
  }
}

const SVG = "http://www.w3.org/2000/svg";

function addShape(parent, tag, attributes) {
  const shape = parent.appendChild(document.createElementNS(SVG, tag));
  for (const [name, value] of Object.entries(attributes)) shape.setAttribute(name, value);
  return shape;
}

// Mean effects on the prediction: a line from low to high values, or names and effects of levels.
function drawEffects(cell, { effects, levels }) {
  for (const [level, effect] of levels) {
    const line = add(cell, "span", "", { class: "level" });
    add(line, "span", level);
    line.append(" ");
    add(line, "span", effect);
  }
  const [width, height] = [72, 24];
  const [low, high] = [Math.min(0, ...effects), Math.max(0, ...effects)];
  if (levels.length || high === low) return;
  const y = (effect) => 2 + ((high - effect) / (high - low)) * (height - 4);
  const chart = addShape(cell, "svg", { class: "sparkline", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  addShape(chart, "line", { x1: 0, x2: width, y1: y(0), y2: y(0), class: "zero" });
  const step = (width - 4) / Math.max(1, effects.length - 1);
  addShape(chart, "polyline", { points: effects.map((effect, k) => `${2 + k * step},${y(effect)}`).join(" ") });
}

function drawRow(body, feature) {
  const row = add(body, "tr");
  const isSignificant = feature.verdict && feature.verdict !== "not significant";
  const setClass = () => {
    row.className = `${isSignificant ? "significant" : ""} ${feature.isChecked ? "" : "unchecked"}`;
  };
  for (const { name, kind, is_wide: isWide } of columns) {
    if (name !== "feature") {
      const effects = kind === "direction" ? directions[feature.number] : null;
      const text = effects && effects.levels.length ? "" : feature[`text_${name}`] || "–";
      const cell = add(row, "td", text, { class: isWide ? `${kind} wide` : kind });
      if (effects) drawEffects(cell, effects);
      continue;
    }
    const label = add(add(row, "th", "", { scope: "row", class: "name" }), "label");
    const box = add(label, "input", "", { type: "checkbox" });
    box.checked = feature.isChecked;
    box.addEventListener("change", () => {
      feature.isChecked = box.checked;
      setClass();
      drawCharts(findFeatures());
    });
    appendName(label, ` ${feature.feature}`);
  }
  setClass();
}

function drawTable(found) {
  const body = byId("rows");
  body.replaceChildren();
  for (const feature of found.slice(0, state.maxRows)) drawRow(body, feature);
  for (const cell of byId("headings").children) {
    if (cell.dataset.column === state.by) cell.setAttribute("aria-sort", state.ascending ? "ascending" : "descending");
    else cell.removeAttribute("aria-sort");
  }
  byId("more").hidden = found.length <= state.maxRows;
  byId("more").textContent = `Show all ${found.length.toLocaleString("en")} rows`;
}

function drawCharts(found) {
  const shown = chooseShown(found);
  byId("status").textContent = found.length
    ? `${shown.length.toLocaleString("en")} of ${features.length.toLocaleString("en")} features shown`
    : "No feature matches.";
  for (const name of Object.keys(charts)) byId(name).classList.toggle("empty", !shown.length);
  if (!shown.length) return;
  // Each chart gets its own copies, because Vega adds marks to the objects.
  for (const view of views) view.data("features", shown.map((feature) => ({ ...feature }))).resize().runAsync();
}

// Cards are in the order of the table, and only the search hides some.
function filterCards() {
  for (const card of document.querySelectorAll(".card")) {
    card.hidden = !labels[card.dataset.number].toLowerCase().includes(state.query);
  }
}

function refresh() {
  const found = findFeatures();
  drawTable(found);
  filterCards();
  drawCharts(found);
}

function sortBy(name, ascending) {
  Object.assign(state, { by: name, ascending });
  byId("sort").value = name;
  refresh();
}

function downloadTable() {
  const quote = (text) => `"${text.replaceAll('"', '""')}"`;
  const lines = [fields, ...rows.map((row) => row.map(
    (value) => (typeof value === "string" ? quote(protect(value)) : value === null ? "" : String(value)),
  ))];
  // The byte order mark makes spreadsheets read the text as UTF-8.
  const text = `\ufeff${lines.map((line) => line.join(",")).join("\r\n")}\r\n`;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  link.download = `feature-${by}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// A leading apostrophe keeps spreadsheets from running a name such as =1+1 as a formula.
const isFormula = (name) => /^[=+\-@\t\r\n＝＋－＠]/.test(name);
const protect = (name) => (isFormula(name) ? `'${name}` : name);

function setUpControls() {
  for (const { name, title } of columns) add(byId("sort"), "option", title, { value: name });
  for (const count of [10, 20, 50, 100, 200].filter((count) => count < features.length)) {
    add(byId("top"), "option", `top ${count}`, { value: count });
  }
  add(byId("top"), "option", `all ${features.length.toLocaleString("en")}`, { value: "Infinity" });
  byId("top").value = state.top;
  byId("search").addEventListener("input", (event) => {
    state.query = event.target.value.trim().toLowerCase();
    refresh();
  });
  byId("sort").addEventListener("change", (event) => sortBy(event.target.value, startsAscending(event.target.value)));
  byId("top").addEventListener("change", (event) => {
    state.top = Number(event.target.value);
    drawCharts(findFeatures());
  });
  byId("more").addEventListener("click", () => {
    state.maxRows = Infinity;
    refresh();
  });
  byId("download").addEventListener("click", downloadTable);
  if (features.some(({ feature }) => isFormula(feature))) {
    byId("csv-note").textContent += " Names that start with =, +, - or @ get a leading ' so that spreadsheets do not run them as formulas.";
  }
}

function setUpTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  const isDark = () => (chosen ? chosen === "dark" : system.matches);
  const setLabel = () => {
    byId("theme").textContent = isDark() ? "Light mode" : "Dark mode";
  };
  byId("theme").addEventListener("click", () => {
    chosen = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = chosen;
    setLabel();
  });
  system.addEventListener("change", setLabel);
  setLabel();
}

function openDetails() {
  for (const details of document.querySelectorAll("details")) details.open = true;
}

addEventListener("beforeprint", openDetails);
for (const element of document.querySelectorAll(".card .name")) {
  const name = element.textContent;
  element.textContent = "";
  appendName(element, name);
}
setUpTheme();
setUpControls();
drawHeadings();
sortBy(first, false);
for (const [name, spec] of Object.entries(charts)) {
  spec.data.find((source) => source.name === "features").values = chooseShown(findFeatures());
  const options = {
    mode: "vega",
    renderer: "svg",
    ast: true, // interpret expressions, because the page's policy forbids eval
    actions: { export: true, source: false, compiled: false, editor: false },
    downloadFileName: `feature-${name}`,
  };
  const { view } = await window.vegaEmbed(`#${name}`, spec, options);
  views.push(view);
  byId(name).view = view;
}
