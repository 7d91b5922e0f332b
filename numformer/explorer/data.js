// The numbers of the page, and the state of the views.

const data = JSON.parse(document.getElementById("nf-data").textContent);
const root = document.getElementById("nf");
const LIGHT = ["#00639c", "#b8860b", "#1f7a6d", "#c2703d", "#7f58a8", "#9a9a4b", "#a83a5c",
    "#7c7b78"];
const DARK = ["#6cb6ff", "#e3b341", "#56c2ab", "#f0955f", "#c79bf2", "#c8c86a", "#f28ba8",
    "#b5b3ad"];
const MODES = ["heads", "grid", "query"];
const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3]],
    BORDERS = ["solid", "dashed", "dotted", "double"];
const CIVIDIS = [[0, 32, 76], [0, 61, 110], [87, 92, 109], [124, 123, 120], [165, 156, 116],
    [209, 193, 99], [255, 233, 69]];
const SIGNED = [[0, 32, 76], [107, 122, 164], [247, 245, 239], [220, 174, 63], [138, 95, 0]];
const MASKED = [[205, 203, 198], [165, 163, 158]], ROW = 20, TOP = 22, WIDTH = 560;

// ---- the numbers ------------------------------------------------------------------------------

function numbers(text, Type) {
  return text === null ? null
      : new Type(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
}

const views = data.views.map((v) => {
  const T = v.queries.length, S = v.keys.length;
  return Object.assign({}, v, {
    T, S, weights: numbers(v.weights, Uint16Array), masks: numbers(v.masks, Uint8Array),
        q: numbers(v.q, Float32Array),
    k: numbers(v.k, Float32Array), v: numbers(v.v, Float32Array),
        biases: numbers(v.biases, Float32Array),
  });
});

const state = { view: views.length - 1, layer: 0, heads: new Set(), mode: "heads", hover: null,
    locked: null };

const view = () => views[state.view];
const heads = () => [...state.heads].sort((a, b) => a - b);

function weight(v, layer, head, i, j) {
  return v.weights[((layer * v.heads + head) * v.T + i) * v.S + j] / 65535;
}

function mean(i, j) {
  const v = view(), chosen = heads();
  const sum = chosen.reduce((total, head) => total + weight(v, state.layer, head, i, j), 0);
  return sum / chosen.length;
}

const named = (label, index) => "“" + label + "” (position " + index + ")";
const numbered = (count) => [...Array(count).keys()].map((k) => String(k + 1));

function allowed(i, j, layer = state.layer) {
  const v = view();
  return v.masks === null || v.masks[(layer * v.T + i) * v.S + j] === 1;
}

// the numbers of one query: coordinate products, q . k, score with scale and bias, weight
function scores(head, i) {
  const v = view(), D = v.width, at = state.layer * v.heads + head, rows = [];
  for (let j = 0; j < v.S; j++) {
    let product = 0;
    const parts = [];
    for (let d = 0; d < D; d++) {
      parts.push(v.q[(at * v.T + i) * D + d] * v.k[(at * v.S + j) * D + d]);
      product += parts[d];
    }
    const bias = v.biases === null ? 0 : v.biases[(at * v.T + i) * v.S + j];
    rows.push({ parts, product, score: v.scales[state.layer] * product + bias,
        allowed: allowed(i, j), weight: weight(v, state.layer, head, i, j) });
  }
  return rows;
}

// what one query mixes: each key's value v and its product p v, and their sum, the head's output
function mixture(head, i) {
  const v = view(), at = state.layer * v.heads + head, D = v.valueWidth, rows = [];
  const output = Array(D).fill(0);
  for (let j = 0; j < v.S; j++) {
    const value = [...v.v.subarray((at * v.S + j) * D, (at * v.S + j + 1) * D)];
    const product = value.map((x) => weight(v, state.layer, head, i, j) * x);
    product.forEach((x, d) => { output[d] += x; });
    rows.push({ value, product });
  }
  return { rows, output };
}
