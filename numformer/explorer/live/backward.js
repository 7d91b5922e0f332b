// The backward pass of one prediction: from dlogits to the scores of a head, and to every weight.

const MOST_LOGITS = 12, MOST_ENTRIES = 8;

function buildBackward() {
  const i = query(), labels = data.live.labels, logits = rowOf(run, i);
  const next = i + 1 < run.T ? run.ids[i + 1] : logits.indexOf(largestOf(logits));
  const target = state.target ?? next;
  const b = gradientOf(i, target);
  const box = make("div", { class: "backward" }, stage);
  const line = make("p", { class: "lead" }, box);
  line.append("Loss = −log p(" + quoted(labels[target]) + ") after "
      + named(labels[run.ids[i]], i) + " = " + b.loss.toFixed(4) + ". Target: ");
  buildTarget(line, target);
  buildLogitGradients(box, b);
  buildHeadGradients(box, b, heads()[0]);
  buildTokenGradients(box, b);
  buildWeightGradients(box, b);
}

// The last backward is kept: another head or parameter shows other numbers of the same.
function gradientOf(i, target) {
  const key = [live.version, i, target].join();
  if (live.gradientKey !== key) {
    live.gradientKey = key;
    live.gradient = backward(model, run, i, target);
  }
  return live.gradient;
}

const largestOf = (x) => { let top = -Infinity; for (const z of x) top = Math.max(top, z);
  return top; };

function buildTarget(parent, target) {
  const select = make("select", { "aria-label": "target token", "data-at": "target" }, parent);
  data.live.labels.forEach((label, id) => {
    const option = make("option", { value: id }, select, label);
    option.selected = id === target;
  });
  select.addEventListener("change", () => { state.target = Number(select.value); refresh(); });
}

// One line for each of some numbers: a name, a bar, the number.
function barList(parent, title, names, values, words, drawBar) {
  const box = make("section", {}, parent), top = largest(values);
  make("h3", {}, box, title);
  const list = make("ol", { class: "signed" }, box);
  names.forEach((name, k) => {
    const item = make("li", {}, list);
    make("span", { class: "token" }, item, name);
    drawBar(make("span", { class: "bar" }, item), values[k] / top);
    make("span", { class: "number" }, item, words(values[k]));
  });
  return box;
}

// A bar from the left edge, of a share from 0 to 1
function plainBar(bar, share) {
  const fill = make("i", {}, bar);
  fill.style.width = 100 * share + "%";
}

// A bar from the middle: to the left below 0, to the right above
function signedBar(bar, share) {
  const fill = make("i", {}, bar), width = 50 * Math.abs(share);
  fill.style.width = width + "%";
  fill.style.left = (share < 0 ? 50 - width : 50) + "%";
  fill.style.background = css(signed(Math.sign(share)));
}

function buildLogitGradients(parent, b) {
  const size = (id) => Math.abs(b.dlogits[id]);
  const order = [...b.dlogits.keys()].sort((x, y) => size(y) - size(x) || x - y)
      .slice(0, MOST_LOGITS);
  barList(parent, "dlogits = p − one-hot(target): the largest of " + b.dlogits.length,
      order.map((id) => data.live.labels[id]), order.map((id) => b.dlogits[id]),
      (x) => x.toFixed(4), signedBar);
}

// dscores, dq, dk and dv of one head, as maps with a sign
function buildHeadGradients(parent, b, h) {
  const { heads: H, groups: G, headWidth: D, capacity: N } = model.config, T = b.position + 1;
  const l = state.layer, seen = b.attention[l], g = Math.floor(h * G / H), v = view();
  const box = make("section", {}, parent);
  make("h3", {}, box, "Layer " + (l + 1) + ", head " + (h + 1)
      + ": gradients with respect to scores, queries, keys and values");
  const maps = make("div", { class: "maps" }, box);
  const shared = G < H ? " of key-value head " + (g + 1) + ", all its query heads" : "";
  const line = make("p", { class: "legend readout" }, box, "Blue is below 0, orange above; each "
      + "map has a scale of its own. q and k are those of the scores, after norm and rotation."
      + (shared ? " dk and dv are" + shared + "." : ""));
  const draw = (name, width, at, label) => {
    const values = Array.from({ length: T * width },
        (_, k) => at(Math.floor(k / width), k % width));
    const top = largest(values), cell = make("figure", { class: "map" }, maps);
    const map = make("canvas", { role: "img", "aria-label": name + ", largest magnitude "
        + top.toPrecision(3) }, cell);
    pixels(map, width, T, (x, y) => signed(values[y * width + x] / top));
    make("figcaption", {}, cell, name + ", up to ± " + top.toPrecision(2));
    followPointer(map, width, T, line, (i, j) => name + ": " + label(i, j) + ": "
        + values[i * width + j].toPrecision(4));
  };
  draw("dscores", T, (i, j) => seen.dscores[(h * N + i) * N + j],
      (i, j) => "query " + named(v.queries[i], i) + ", key " + named(v.keys[j], j));
  const row = (i, d) => named(v.queries[i], i) + ", coordinate " + d;
  draw("dq", D, (i, d) => seen.dq[(i * H + h) * D + d], row);
  draw("dk", D, (i, d) => seen.dk[(i * G + g) * D + d], row);
  draw("dv", D, (i, d) => seen.dv[(i * G + g) * D + d], row);
}

// The norm of the gradient with respect to the embedding of each token
function buildTokenGradients(parent, b) {
  const C = model.config.width, norms = [...Array(b.position + 1).keys()].map(
      (t) => Math.hypot(...b.dx.subarray(t * C, (t + 1) * C)));
  const box = barList(parent, "Norm of the gradient with respect to the embedding of each token",
      norms.map((_, t) => data.live.labels[run.ids[t]]), norms, (x) => x.toPrecision(3),
      plainBar);
  box.classList.add("tall");
}

// ---- weights ----------------------------------------------------------------------------------

function weightNorms(b) {
  return Object.keys(model.tensors).map((name) => ({ name,
      norm: name in b.gradients ? Math.hypot(...norms2(b.gradients[name])) : 0 }));
}

// Sums of squares of 1024 numbers each, whose roots `Math.hypot` may add
function norms2(x) {
  const parts = [];
  for (let at = 0; at < x.length; at += 1024) {
    let sum = 0;
    for (const each of x.subarray(at, at + 1024)) sum += each * each;
    parts.push(Math.sqrt(sum));
  }
  return parts;
}

function buildWeightGradients(parent, b) {
  const found = weightNorms(b), top = Math.max(...found.map((each) => each.norm), 1e-12);
  const box = make("section", { class: "weights" }, parent);
  make("h3", {}, box, "Which weights would change: the norm of the gradient of each parameter");
  const list = make("ol", { class: "signed norms" }, box);
  const largestName = found.reduce((x, y) => (y.norm > x.norm ? y : x)).name;
  const chosen = state.parameter ?? largestName;
  for (const { name, norm } of found) {
    const item = make("li", {}, list);
    const button = make("button", { type: "button", "aria-pressed": String(name === chosen),
        "data-at": "parameter-" + name }, item);
    make("span", { class: "token" }, button, name);
    plainBar(make("span", { class: "bar" }, button), norm / top);
    make("span", { class: "number" }, button, norm.toPrecision(3));
    button.addEventListener("click", () => { state.parameter = name; refresh(); });
  }
  buildEntries(box, b, chosen);
}

// The largest entries of one gradient: a step of gradient descent subtracts a multiple of them.
function buildEntries(parent, b, name) {
  const { shape, data: weights } = model.tensors[name], g = b.gradients[name];
  const table = make("table", { class: "detail entries" }, parent);
  make("caption", {}, table, "Largest entries of the gradient of " + name + ", ("
      + shape.join(", ") + "). Gradient descent subtracts a multiple of the gradient.");
  const head = make("tr", {}, make("thead", {}, table));
  ["index", "weight", "gradient"].forEach((each) => make("th", { scope: "col" }, head, each));
  const lines = make("tbody", {}, table);
  const order = g ? Array.from(g.keys()).sort((x, y) => Math.abs(g[y]) - Math.abs(g[x]))
      .slice(0, MOST_ENTRIES) : [];
  for (const k of order) {
    const line = make("tr", {}, lines), at = [], sizes = [...shape].reverse();
    sizes.reduce((rest, size) => { at.unshift(rest % size); return Math.floor(rest / size); }, k);
    make("th", { scope: "row" }, line, at.join(", "));
    make("td", {}, line, weights[k].toFixed(5));
    make("td", {}, line, g[k].toFixed(6));
  }
}
