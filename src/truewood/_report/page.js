// Glue between the controls, the table and the Vega charts. Names are data: they only ever become textContent.
const byId = (id) => document.getElementById(id);
const { fields, rows, columns, by, factor, labels, verdicts, directions, charts } = JSON.parse(byId("data").textContent);

const scale = (value) => (value === null || value === undefined ? null : factor * value);
const features = rows.map((row, place) => {
  const one = Object.fromEntries(fields.map((name, j) => [name, row[j]]));
  return {
    ...one,
    shown: scale(one[by]),
    low: scale(one.ci_low),
    high: scale(one.ci_high),
    label: labels[place],
    number: place,
    verdict: verdicts ? verdicts[place] : "",
    direction: directions ? directions[place].word : "",
    isOn: true,
  };
});
const MOST_ROWS = 500;
// Where the table has percents, it is sorted by these: the order is the same.
const first = columns.some((column) => column.name === "shown") ? "shown" : by;
const state = { query: "", by: first, ascending: false, top: features.length > 20 ? 20 : Infinity, most: MOST_ROWS };
const views = [];

// What a click on a heading gives first: the best of it.
const startsAscending = (name) => ["feature", "verdict", "direction", "p_value", "adjusted_p_value", "mdi_rank"].includes(name);

// Changes are sorted by their size, whatever their sign.
const isChange = (name) => columns.some((column) => column.name === name && column.kind === "change");
const sortKey = (feature) => (isChange(state.by) ? Math.abs(feature[state.by]) : feature[state.by]);

function compare(a, b) {
  const [x, y] = [sortKey(a), sortKey(b)];
  if (x === y) return a.number - b.number;
  if (x === null || y === null) return x === null ? 1 : -1;
  const order = typeof x === "string" ? x.localeCompare(y, undefined, { numeric: true }) : x - y;
  return (state.ascending ? order : -order) || a.number - b.number;
}

const findFeatures = () => features.filter((one) => one.label.toLowerCase().includes(state.query)).sort(compare);
const chooseShown = (found) =>
  found.filter((one) => one.isOn).slice(0, state.top).map((one, place) => ({ ...one, place }));

function add(parent, tag, text = "", attributes = {}) {
  const element = parent.appendChild(document.createElement(tag));
  element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

// Digits that show a small number: two of them, up to six decimals.
const countDecimals = (value) =>
  value === 0 || Math.abs(value) >= 1 ? 0 : Math.min(6, 1 - Math.floor(Math.log10(Math.abs(value))));
const write = (value, decimals) =>
  value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
const isPercent = first === "shown";

function writeInterval({ low, high }) {
  if (low === null) return "–";
  if (!isPercent) return `${format(low, "number")} to ${format(high, "number")}`;
  const [small, large] = Math.abs(low) < Math.abs(high) ? [low, high] : [high, low];
  const decimals = Math.max(1, countDecimals(large), Math.min(2, countDecimals(small)));
  return `${write(low, decimals)} to ${write(high, decimals)}\u00a0%`;
}

function format(value, kind) {
  if (value === null) return "–";
  if (kind === "text") return value;
  if (kind === "direction") return value || "–";
  if (kind === "count") return value.toLocaleString("en");
  if (kind === "percent") return `${write(value, Math.max(1, countDecimals(value)))} %`;
  if (kind === "p_value") return value < 0.001 ? "<0.001" : String(Number(value.toPrecision(2)));
  if (value !== 0 && Math.abs(value) < 1e-4) return value.toExponential(2);
  return value.toLocaleString("en", { maximumSignificantDigits: 4 });
}

function drawHeadings() {
  const line = byId("headings");
  line.replaceChildren();
  for (const { name, title, is_wide: isWide } of columns) {
    const cell = add(line, "th", "", { scope: "col", class: isWide ? "wide" : "" });
    if (name === "feature") {
      cell.classList.add("name");
      const all = add(cell, "input", "", { type: "checkbox", "aria-label": "show all features of the table in the charts" });
      all.checked = true;
      all.addEventListener("change", () => {
        for (const one of findFeatures()) one.isOn = all.checked;
        refresh();
      });
      cell.append(" ");
    }
    const button = add(cell, "button", title, { type: "button" });
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

// A small picture of the mean moves of the prediction: a line from low to high values, or a bar for each level.
function drawMoves(cell, { moves, levels }) {
  const [width, height] = [72, 24];
  const [low, high] = [Math.min(0, ...moves), Math.max(0, ...moves)];
  if (high === low) return;
  const y = (move) => 2 + ((high - move) / (high - low)) * (height - 4);
  const picture = addShape(cell, "svg", { class: "moves", viewBox: `0 0 ${width} ${height}`, role: "img" });
  const sign = (move) => (move > 0 ? "+" : "") + format(move, "number");
  addShape(picture, "title", {}).textContent = levels.length
    ? levels.map((level, k) => `${level}: ${sign(moves[k])}`).join("\n")
    : `low values ${sign(moves[0])}, high values ${sign(moves.at(-1))}`;
  addShape(picture, "line", { x1: 0, x2: width, y1: y(0), y2: y(0), class: "zero" });
  const step = (width - 4) / Math.max(1, levels.length || moves.length - 1);
  if (levels.length) {
    moves.forEach((move, k) => addShape(picture, "rect", {
      x: 2 + k * step, width: 0.7 * step, y: Math.min(y(0), y(move)), height: Math.max(1, Math.abs(y(move) - y(0))),
    }));
  } else {
    addShape(picture, "polyline", { points: moves.map((move, k) => `${2 + k * step},${y(move)}`).join(" ") });
  }
}

function drawRow(body, feature) {
  const row = add(body, "tr");
  const isFound = feature.verdict && !["no sign", "not significant"].includes(feature.verdict);
  const mark = () => (row.className = `${isFound ? "found" : ""} ${feature.isOn ? "" : "off"}`);
  for (const { name, kind, is_wide: isWide } of columns) {
    if (name !== "feature") {
      const text = kind === "interval" ? writeInterval(feature) : format(feature[name], kind);
      const cell = add(row, "td", text, { class: isWide ? `${kind} wide` : kind });
      if (kind === "direction") drawMoves(cell, directions[feature.number]);
      continue;
    }
    const label = add(add(row, "th", "", { scope: "row", class: "name" }), "label");
    const box = add(label, "input", "", { type: "checkbox" });
    box.checked = feature.isOn;
    box.addEventListener("change", () => {
      feature.isOn = box.checked;
      mark();
      drawCharts(findFeatures());
    });
    label.append(` ${feature.feature}`);
  }
  mark();
}

function drawTable(found) {
  const body = byId("rows");
  body.replaceChildren();
  for (const feature of found.slice(0, state.most)) drawRow(body, feature);
  for (const cell of byId("headings").children) {
    if (cell.dataset.column === state.by) cell.setAttribute("aria-sort", state.ascending ? "ascending" : "descending");
    else cell.removeAttribute("aria-sort");
  }
  byId("more").hidden = found.length <= state.most;
  byId("more").textContent = `Show all ${found.length.toLocaleString("en")} rows`;
}

function drawCharts(found) {
  const shown = chooseShown(found);
  byId("status").textContent = found.length
    ? `${shown.length.toLocaleString("en")} of ${features.length.toLocaleString("en")} features shown`
    : "No feature has such a name.";
  for (const name of Object.keys(charts)) byId(name).classList.toggle("empty", !shown.length);
  if (!shown.length) return;
  // Each chart gets rows of its own, as Vega marks the objects it is given.
  for (const view of views) view.data("features", shown.map((one) => ({ ...one }))).resize().runAsync();
}

function refresh() {
  const found = findFeatures();
  drawTable(found);
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
  // The mark at the start tells spreadsheets that the text is UTF-8.
  const text = `\ufeff${lines.map((line) => line.join(",")).join("\r\n")}\r\n`;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  link.download = `feature-${by}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// A spreadsheet would run a name such as =1+1 as a formula; an apostrophe in front makes it text.
const isFormula = (name) => /^[=+\-@\t\r\n＝＋－＠]/.test(name);
const protect = (name) => (isFormula(name) ? `'${name}` : name);

function setUpControls() {
  for (const { name, title } of columns) add(byId("sort"), "option", title, { value: name });
  for (const count of [10, 20, 50, 100, 200].filter((count) => count < features.length)) {
    add(byId("top"), "option", `first ${count}`, { value: count });
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
    state.most = Infinity;
    refresh();
  });
  byId("download").addEventListener("click", downloadTable);
  if (features.some((one) => isFormula(one.feature))) {
    byId("csv-note").textContent += " Names that begin with = + - @ get a leading ' in the file, so that no spreadsheet runs them.";
  }
}

function setUpTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  const isDark = () => (chosen ? chosen === "dark" : system.matches);
  const name = () => (byId("theme").textContent = isDark() ? "Light" : "Dark");
  byId("theme").addEventListener("click", () => {
    chosen = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = chosen;
    name();
  });
  system.addEventListener("change", name);
  name();
}

function openFoldsOnPaper() {
  for (const fold of document.querySelectorAll("details")) fold.open = true;
}

addEventListener("beforeprint", openFoldsOnPaper);
setUpTheme();
setUpControls();
drawHeadings();
sortBy(first, false);
for (const [name, spec] of Object.entries(charts)) {
  spec.data.find((source) => source.name === "features").values = chooseShown(findFeatures());
  const options = {
    mode: "vega",
    renderer: "svg",
    ast: true, // expressions are interpreted: eval is forbidden by the page's policy
    actions: { export: true, source: false, compiled: false, editor: false },
    downloadFileName: `feature-${name}`,
  };
  const { view } = await window.vegaEmbed(`#${name}`, spec, options);
  views.push(view);
  byId(name).view = view;
}
