// The data of the page, its colours, and the state that all views share.

const data = JSON.parse(document.getElementById("nf-data").textContent);
const root = document.getElementById("nf");
const LIGHT = ["#1257a8", "#b07a08", "#1f7a6d", "#c2703d", "#7f58a8", "#83832f", "#a83a5c",
    "#6c6b68"];
const DARK = ["#8ec5ff", "#e3b341", "#56c2ab", "#f0955f", "#c79bf2", "#c8c86a", "#f28ba8",
    "#b5b3ad"];
const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3]],
    BORDERS = ["solid", "dashed", "dotted", "double"];
const GROUND = { light: [255, 255, 255], dark: [20, 22, 26] };
const BLUE = { light: [18, 87, 168], dark: [142, 197, 255] };
const ORANGE = { light: [200, 80, 10], dark: [255, 178, 122] };
const MASKED = { light: [[238, 239, 241], [222, 224, 228]], dark: [[38, 41, 47], [52, 56, 64]] };
const ROW = 22, TOP = 26, WIDTH = 560;

const state = { view: 0, layer: 0, heads: new Set(), mode: "heads", hover: null, locked: null,
    target: null, parameter: null };

// Every mode has a letter and functions that build and paint it; `head` is "one" where it shows the
// numbers of one head, "many" where those of several, and otherwise no head is chosen. Views of
// attention also have the table of weights; `rebuilt` ones are built again whenever they change.
const MODES = {
  heads: { build: buildHeads, paint: paintHeads, head: "many", attention: true },
  grid: { build: buildGrid, head: "many", attention: true },
  query: { build: buildQuery, rebuilt: true, head: "one", attention: true },
};

// ---- the numbers of a stored page -------------------------------------------------------------

function numbers(text, Type) {
  return text === null ? null
      : new Type(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
}

// A view: its sizes, labels, and functions that look up the numbers of a layer and a head.
function storedView(v) {
  const T = v.queries.length, S = v.keys.length, H = v.heads;
  const p = numbers(v.weights, Uint16Array), masks = numbers(v.masks, Uint8Array);
  const q = numbers(v.q, Float32Array), k = numbers(v.k, Float32Array),
      values = numbers(v.v, Float32Array), biases = numbers(v.biases, Float32Array);
  const row = (x, l, h, i, n, D) => {
    const at = ((l * H + h) * n + i) * D;
    return x.subarray(at, at + D);
  };
  return {
    name: v.name, T, S, layers: v.layers, heads: H, queries: v.queries, keys: v.keys,
    scales: v.scales, hasProducts: q !== null, hasBias: biases !== null, valueWidth: v.valueWidth,
    weight: (l, h, i, j) => p[((l * H + h) * T + i) * S + j] / 65535,
    allowed: (l, i, j) => masks === null || masks[(l * T + i) * S + j] === 1,
    q: (l, h, i) => row(q, l, h, i, T, v.width), k: (l, h, j) => row(k, l, h, j, S, v.width),
    v: (l, h, j) => row(values, l, h, j, S, v.valueWidth),
    bias: (l, h, i, j) => (biases === null ? 0 : biases[((l * H + h) * T + i) * S + j]),
  };
}

const views = data.views.map(storedView);

// ---- what is chosen ---------------------------------------------------------------------------

const view = () => views[state.view];
const isDark = () => root.classList.contains("dark");
const shade = (colours) => colours[isDark() ? "dark" : "light"];

// The heads whose numbers are shown: one where the mode shows one, so that no two numbers differ.
function heads() {
  const chosen = [...state.heads].sort((a, b) => a - b);
  return MODES[state.mode].head === "one" ? chosen.slice(0, 1) : chosen;
}

function headsInWords() {
  const chosen = heads().map((h) => h + 1);
  return chosen.length === 1 ? "head " + chosen[0] : "mean of heads " + chosen.join(", ");
}

function mean(i, j) {
  const v = view(), chosen = heads();
  const sum = chosen.reduce((total, head) => total + v.weight(state.layer, head, i, j), 0);
  return sum / chosen.length;
}

const allowed = (i, j, layer = state.layer) => view().allowed(layer, i, j);
// A label in a sentence, which Hebrew and Arabic must not reorder
const isolated = (label) => (/[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/.test(label)
    ? "\u2068" + label + "\u2069" : label);
const quoted = (label) => "“" + isolated(label) + "”";
const named = (label, index) => quoted(label) + " (position " + index + ")";
const numbered = (count) => [...Array(count).keys()].map((k) => String(k + 1));

const active = () => state.locked || state.hover;

// The query whose numbers are shown: the chosen one, or the last
function query() {
  const chosen = active();
  return chosen && chosen.side === "query" && chosen.index < view().T ? chosen.index : view().T - 1;
}

// the numbers of one query: coordinate products, q . k, score with scale and bias, weight
function scores(head, i) {
  const v = view(), l = state.layer, rows = [], q = v.q(l, head, i);
  for (let j = 0; j < v.S; j++) {
    const k = v.k(l, head, j), parts = [...q].map((x, d) => x * k[d]);
    const product = parts.reduce((a, b) => a + b, 0);
    rows.push({ parts, product, score: v.scales[l] * product + v.bias(l, head, i, j),
        allowed: allowed(i, j), weight: v.weight(l, head, i, j) });
  }
  return rows;
}

// what one query mixes: each key's value v and its product p v, and their sum, the head's output
function mixture(head, i) {
  const v = view(), rows = [], output = Array(v.valueWidth).fill(0);
  for (let j = 0; j < v.S; j++) {
    const value = [...v.v(state.layer, head, j)];
    const product = value.map((x) => v.weight(state.layer, head, i, j) * x);
    product.forEach((x, d) => { output[d] += x; });
    rows.push({ value, product });
  }
  return { rows, output };
}
