// A training, state by state: every panel is drawn anew from numbers.

const data = JSON.parse(document.getElementById("nf-data").textContent);
const root = document.getElementById("nf");
const SVG = "http://www.w3.org/2000/svg";
const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
const N = data.steps.length, last = data.steps[N - 1];
const state = { number: 0, playing: null };

function numbers(text, Type) {
  return text === null ? null
      : new Type(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
}

const weights = numbers(data.attention, Uint16Array), points = numbers(data.points, Float32Array);
const T = data.queries.length, S = data.keys.length, V = data.tokens.length;
const top = weights === null ? 1 : weights.reduce((a, b) => Math.max(a, b), 1);

function element(name, attributes = {}, parent = null, text = null) {
  const made = name in SHAPES ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  if (parent !== null) parent.append(made);
  return made;
}
const SHAPES = { svg: 1, rect: 1, text: 1, path: 1, circle: 1, g: 1, line: 1 };

function panel(name, title, size) {
  const section = element("section", { class: name }, grid);
  element("h2", {}, section, title);
  return size === undefined ? section : element("svg", {
    viewBox: "0 0 " + size.join(" "), role: "img", "aria-label": title }, section);
}

// ---- controls ---------------------------------------------------------------------------------

element("h1", {}, root, data.title);
const bar = element("div", { class: "bar" }, root);
const button = element("button", { type: "button" }, bar, "Play");
const slider = element("input", { type: "range", min: 0, max: N - 1, step: 1, value: 0,
    "aria-label": "state of the training" }, bar);
const label = element("output", {}, bar);
const grid = element("div", { class: "panels" }, root);

// ---- what it writes ---------------------------------------------------------------------------

// control characters and marks of direction as dots: a browser would obey or hide them
const visible = (text) => text.replace(
    /[^\P{C}\n\t\u200c\u200d]/gu, "\u00b7");
const sample = element("pre", { dir: "auto" }, panel("sample", "What it writes"));
element("b", {}, sample, visible(data.prompt));
const written = element("span", {}, sample);

// ---- where it attends -------------------------------------------------------------------------

// Letters of a monospaced font that a label is wide: marks have none, Chinese letters two
const wide = new RegExp("[\\u1100-\\u11ff\\u2e80-\\ua4cf\\uac00-\\ud7a3\\uf900-\\ufaff\\uff00-\\uff60"
                        + "\\u{1f000}-\\u{3ffff}]", "u");
const columnsOf = (label) => [...label.replace(/\p{M}|\u200c|\u200d/gu, "")].reduce(
    (sum, letter) => sum + (wide.test(letter) ? 2 : 1), 0);
const isolated = (label) => "\u2068" + label + "\u2069";
const cells = [];
let message = null;
if (weights !== null) {
  const edge = 20 * S, x0 = 16 + 9 * Math.max(...data.queries.map(columnsOf));
  const longest = Math.max(...data.keys.map(columnsOf));
  const drawn = panel("attention", "Where it attends: " + data.head,
      [x0 + 20 * S + 4, 20 * T + (longest > 2 ? 10 * longest + 8 : 26)]);
  for (let i = 0; i < T; i++) {
    element("text", { x: x0 - 6, y: 20 * i + 15, "text-anchor": "end" }, drawn, data.queries[i]);
    for (let j = 0; j < S; j++) {
      const cell = element("rect", { x: x0 + 20 * j, y: 20 * i, width: 20, height: 20 }, drawn);
      cell.addEventListener("pointerenter", () => describe(i, j));
      cells.push(cell);
    }
  }
  for (let j = 0; j < S; j++) {
    const x = x0 + 20 * j + 10, y = 20 * T + 17;
    element("text", longest > 2 ? { "text-anchor": "end",
        transform: `translate(${x + 4} ${y - 10}) rotate(-70)` }
        : { x, y, "text-anchor": "middle" }, drawn, data.keys[j]);
  }
  message = element("p", { class: "message" }, drawn.parentNode,
      "Rows are queries, columns keys; point at a cell for its weight.");
  drawn.style.maxWidth = Math.max(edge * 1.15, 300) + "px";
}

const weight = (i, j) => weights[(state.number * T + i) * S + j] / 65535;
const allowed = (i, j) => data.mask === null || data.mask[i][j] === 1;

function describe(i, j) {
  const query = isolated(data.queries[i]), key = isolated(data.keys[j]);
  message.textContent = `“${query}” (position ${i}) attends to “${key}” ` +
      `(position ${j}): ` + (allowed(i, j) ? weight(i, j).toFixed(3) : "masked");
}

// ---- loss -------------------------------------------------------------------------------------

const chart = panel("loss", "Loss" + (data.unit ? " (" + data.unit + ")" : ""), [420, 240]);
const values = data.losses.concat(data.validations.map((pair) => pair[1]));
const low = 0.95 * Math.min(...values), high = 1.05 * Math.max(...values);
const across = (step) => 44 + 340 * Math.log1p(step) / Math.log1p(last);
const down = (loss) => 210 - 190 * (loss - low) / (high - low || 1);

for (let step = 0; step <= last; step = step === 0 ? 1 : 10 * step) {
  element("text", { x: across(step), y: 230, "text-anchor": "middle" }, chart, String(step));
  element("line", { x1: across(step), x2: across(step), y1: 210, y2: 214 }, chart);
}
element("line", { x1: 44, x2: 400, y1: 210, y2: 210 }, chart);
element("line", { x1: 44, x2: 44, y1: 20, y2: 210 }, chart);
for (let k = 0; k < 4; k++) {
  const loss = low + (high - low) * k / 3;
  element("text", { x: 38, y: down(loss) + 5, "text-anchor": "end" }, chart, loss.toFixed(1));
}
const path = (count) => data.lossSteps.slice(0, count).map(
    (step, k) => (k ? "L" : "M") + across(step).toFixed(1) + " " + down(data.losses[k]).toFixed(1))
    .join("");
element("path", { class: "future", d: path(data.losses.length) }, chart);
const past = element("path", { class: "past" }, chart);
const squares = data.validations.map(([step, loss]) => element("rect", { class: "validation",
    x: across(step) - 4, y: down(loss) - 4, width: 8, height: 8 }, chart));
const marker = element("circle", { class: "marker", r: 7 }, chart);
const figure = element("text", { class: "marker" }, chart);
element("p", { class: "message" }, chart.parentNode, "Line: training, a moving average" +
    (data.validations.length ? "; squares: validation." : "."));

// ---- embeddings -------------------------------------------------------------------------------

const names = [];
if (points !== null) {
  const drawn = panel("points", "Embeddings", [420, 260]), ends = [0, 1].map((axis) =>
      1.08 * points.reduce((most, x, k) => k % 2 === axis ? Math.max(most, Math.abs(x)) : most,
          1e-9));
  element("line", { x1: 0, x2: 420, y1: 130, y2: 130 }, drawn);
  element("line", { x1: 210, x2: 210, y1: 0, y2: 260 }, drawn);
  data.tokens.forEach((token, k) => names.push(element("text", { "text-anchor": "middle",
      class: "class" + data.classes[k] }, drawn, token)));
  names.place = (k) => [210 + 205 * points[(state.number * V + k) * 2] / ends[0],
      135 - 125 * points[(state.number * V + k) * 2 + 1] / ends[1]];
  const key = element("p", { class: "message" }, drawn.parentNode);
  for (const [number, name] of data.classNames) {
    element("b", { class: "class" + number }, key, name + " ");
  }
}

// ---- one state --------------------------------------------------------------------------------

function show(number) {
  state.number = number;
  const step = data.steps[number], text = "step " + step + " of " + last;
  slider.value = number;
  slider.setAttribute("aria-valuetext", text);
  label.textContent = text;
  written.textContent = visible(data.samples[number]);
  cells.forEach((cell, k) => {
    const [i, j] = [Math.floor(k / S), k % S];
    cell.setAttribute("class", allowed(i, j) ? "" : "masked");
    cell.setAttribute("fill-opacity", allowed(i, j) ? (weight(i, j) * 65535 / top).toFixed(4) : 1);
  });
  const seen = Math.max(1, data.lossSteps.filter((at) => at <= step).length);
  past.setAttribute("d", path(seen));
  squares.forEach((square, k) => square.classList.toggle("later", data.validations[k][0] > step));
  const x = across(data.lossSteps[seen - 1]), y = down(data.losses[seen - 1]);
  marker.setAttribute("cx", x);
  marker.setAttribute("cy", y);
  figure.textContent = data.losses[seen - 1].toFixed(2);
  figure.setAttribute("x", x > 330 ? x - 46 : x + 10);
  figure.setAttribute("y", y - 10);
  names.forEach((name, k) => {
    const [left, upper] = names.place(k);
    name.style.transform = `translate(${left.toFixed(2)}px, ${upper.toFixed(2)}px)`;
  });
}

function pause() {
  clearInterval(state.playing);
  state.playing = null;
  button.textContent = "Play";
}

function play() {
  if (state.number === N - 1) show(0);
  button.textContent = "Pause";
  state.playing = setInterval(() => {
    show(state.number + 1);
    if (state.number === N - 1) pause();
  }, 1000 / data.fps);
}

const toggle = () => state.playing === null ? play() : pause();
button.addEventListener("click", toggle);
slider.addEventListener("input", () => {
  pause();
  show(Number(slider.value));
});
document.addEventListener("keydown", (event) => {
  const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -N, End: N };
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.key === " " && event.target !== button) toggle();
  else if (event.key in moves) {
    pause();
    show(Math.min(N - 1, Math.max(0, state.number + moves[event.key])));
  } else return;
  event.preventDefault();
});
show(still ? N - 1 : 0);
if (!still) play();
