// The views: heads with lines, a grid of maps, one query in detail, an image, and a table.

// ---- painting ---------------------------------------------------------------------------------

function mixed(stops, x) {
  const at = Math.min(Math.max(x, 0), 1) * (stops.length - 1),
      k = Math.min(Math.floor(at), stops.length - 2);
  return stops[k].map((low, c) => Math.round(low + (at - k) * (stops[k + 1][c] - low)));
}

function shape(canvas, width, height, colour) {
  canvas.width = width; canvas.height = height;
  const context = canvas.getContext("2d"), picture = context.createImageData(width, height);
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) {
    const at = 4 * (y * width + x), [r, g, b] = colour(x, y);
    picture.data.set([r, g, b, 255], at);
  }
  context.putImageData(picture, 0, 0);
}

function tokens(side, labels, parent) {
  const list = make("ol", { class: side === "query" ? "queries" : "keys", role: "listbox",
      "aria-label": side === "query" ? "queries" : "keys" }, parent);
  labels.forEach((label, index) => {
    const item = make("li", { role: "option", tabindex: index === 0 ? "0" : "-1",
        "aria-selected": "false", title: label,
                              "data-at": side + "-" + index }, list);
    make("span", {}, item, label);
    make("b", {}, item, "");
    if (state.mode === "heads") {
      item.addEventListener("mouseenter", () => point(side, index));
      item.addEventListener("mouseleave", () => point(null));
    }
    item.addEventListener("click", () => lock(side, index));
    item.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      lock(side, index);
    });
  });
  return list;
}

const tokenAt = (side, index) => root.querySelector('[data-at="' + side + "-" + index + '"]');

// Tab reaches one token of a list: the chosen one
function rove(list, index) {
  [...list.children].forEach((each, k) => each.setAttribute("tabindex", k === index ? "0"
      : "-1"));
}

let queries, keys, canvas;

function buildHeads() {
  const columns = make("div", { class: "columns" }, stage), v = view();
  canvas = make("canvas", {}, columns);
  queries = tokens("query", v.queries, columns);
  keys = tokens("key", v.keys, columns);
}

function paintHeads() {
  const v = view(), chosen = active(), height = TOP + ROW * Math.max(v.T, v.S),
      ratio = window.devicePixelRatio || 1;
  const width = canvas.parentNode.clientWidth || WIDTH, column = queries.offsetWidth || WIDTH / 3;
  canvas.width = width * ratio; canvas.height = height * ratio;
  canvas.style.width = width + "px"; canvas.style.height = height + "px";
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const shown = (i, j) => !chosen || (chosen.side === "query" ? i : j) === chosen.index;
  let top = 1e-12;
  for (const head of heads()) for (let i = 0; i < v.T; i++) for (let j = 0; j < v.S; j++) {
    if (shown(i, j)) top = Math.max(top, weight(v, state.layer, head, i, j));
  }
  heads().forEach((head, number) => {
    context.strokeStyle = colour(head);
    context.setLineDash(DASHES[dash(head)]);
    for (let i = 0; i < v.T; i++) for (let j = 0; j < v.S; j++) {
      if (!shown(i, j)) continue;
      const strength = weight(v, state.layer, head, i, j) / top;
      if (strength < 0.02) continue;
      context.globalAlpha = Math.min(1, strength * (chosen ? 1 : 0.6));
      context.lineWidth = chosen ? 2.5 : 1.5;
      context.beginPath();
      const shift = (number - (state.heads.size - 1) / 2) * Math.min(2, 12 / state.heads.size);
      context.moveTo(column, TOP + ROW * (i + 0.5) + shift);
      context.lineTo(width - column, TOP + ROW * (j + 0.5) + shift);
      context.stroke();
    }
  });
  const mark = (list, side, other) => [...list.children].forEach((item, index) => {
    const own = chosen && chosen.side === side && chosen.index === index;
    item.setAttribute("aria-selected", String(Boolean(own)));
    if (!chosen || chosen.side !== other) { item.lastChild.textContent = ""; return; }
    const [i, j] = other === "query" ? [chosen.index, index] : [index, chosen.index];
    item.lastChild.textContent = allowed(i, j) ? mean(i, j).toFixed(3) : "masked";
  });
  mark(queries, "query", "key");
  mark(keys, "key", "query");
  if (chosen) rove(chosen.side === "query" ? queries : keys, chosen.index);
}

function buildGrid() {
  const v = view(),
      grid = make("div", { class: "grid", style: "grid-template-columns: auto repeat(" + v.heads
      + ", auto)" }, stage);
  make("span", {}, grid, "");
  for (let h = 0; h < v.heads; h++) make("span", {}, grid, "head " + (h + 1));
  for (let l = 0; l < v.layers; l++) {
    make("span", {}, grid, "layer " + (l + 1));
    for (let h = 0; h < v.heads; h++) {
      const pressed = l === state.layer && state.heads.has(h);
      const button = make("button", { type: "button", "aria-pressed": String(pressed),
          "aria-label": "layer " + (l + 1) + ", head " + (h + 1),
                                      "data-at": "grid-" + l + "-" + h }, grid);
      shape(make("canvas", {}, button), v.S, v.T,
          (x, y) => (allowed(y, x, l) ? mixed(CIVIDIS, Math.sqrt(weight(v, l, h, y, x)))
          : MASKED[(x + y) % 2]));
      button.addEventListener("click", () => {
        state.layer = l;
        state.heads = new Set([h]);
        state.mode = "heads";
        refresh();
      });
    }
  }
  make("p", { class: "legend", style: "grid-column: 1 / -1" }, grid,
       "Rows are queries, columns are keys. Colour: square root of the weight, from 0 to 1; "
       + "masked cells are chequered grey.");
}

const largest = (vectors) => Math.max(...vectors.map((each) => Math.max(...each.map(Math.abs))),
    1e-12);

// a vector as coloured cells, whose numbers are its label
function strip(parent, vector, top) {
  const label = vector.map((x) => x.toFixed(3)).join(" ");
  const canvas = make("canvas", { style: "width:" + Math.min(7 * vector.length, 224) + "px",
      role: "img", "aria-label": label, title: label }, parent);
  shape(canvas, vector.length, 1, (x) => mixed(SIGNED, 0.5 + vector[x] / top / 2));
}

function buildQuery() {
  const v = view();
  if (v.q === null) {
    make("p", {}, stage, "The scores of this attention are not products of queries and keys.");
    return;
  }
  const head = heads()[0], i = query(), rows = scores(head, i), mix = mixture(head, i),
      list = tokens("query", v.queries, stage);
  list.children[i].setAttribute("aria-selected", "true");
  rove(list, i);
  const box = make("table", { class: "detail" }, stage);
  make("caption", {}, box, "Query " + i + " “" + v.queries[i] + "”, layer " + (state.layer + 1)
      + ", head " + (head + 1)
       + ": coordinate products, their sum q · k, times "
           + Number(v.scales[state.layer].toPrecision(4))
       + (v.biases ? ", plus position bias" : "") + ", softmax. The weight p times the value v of "
       + "each key, and their sum, the output of the head. Hover over cells to read them.");
  const row = make("tr", {}, make("thead", {}, box));
  ["key", "products", "q · k", "score", "weight p", "value v", "p · v", "‖p · v‖"]
      .forEach((name) => make("th", { scope: "col" }, row, name));
  const lines = make("tbody", {}, box), top = largest(rows.map((each) => each.parts));
  const ofValues = largest(mix.rows.map((each) => each.value));
  const ofProducts = largest([mix.output, ...mix.rows.map((each) => each.product)]);
  const best = Math.max(...rows.map((each) => each.weight));
  rows.forEach((each, j) => {
    const line = make("tr", { class: each.weight === best ? "best" : "" }, lines);
    make("th", { scope: "row" }, line, v.keys[j]);
    strip(make("td", {}, line), each.parts, top);
    make("td", {}, line, each.product.toFixed(3));
    make("td", {}, line, each.allowed ? each.score.toFixed(3) : "masked");
    make("td", {}, line, each.allowed ? each.weight.toFixed(4) : "masked");
    strip(make("td", {}, line), mix.rows[j].value, ofValues);
    strip(make("td", {}, line), mix.rows[j].product, ofProducts);
    make("td", {}, line, Math.hypot(...mix.rows[j].product).toFixed(3));
  });
  const sum = make("tr", {}, make("tfoot", {}, box));
  make("th", { scope: "row", colspan: "6" }, sum, "output: the sum of p · v");
  strip(make("td", {}, sum), mix.output, ofProducts);
  make("td", {}, sum, Math.hypot(...mix.output).toFixed(3));
}

let picture;

function buildImage() {
  if (!data.image) return;
  const box = make("div", { class: "image" }, stage), side = data.image.side;
  picture = make("canvas",
      { role: "img", "aria-label": "The image, brighter where the query attends" }, box);
  picture.addEventListener("click", (event) => {
    const box = picture.getBoundingClientRect(),
        at = (x, size) => Math.min(side - 1, Math.max(0, Math.floor(x / size * side)));
    lock("query", data.image.first + at(event.clientY - box.top, box.height) * side
        + at(event.clientX - box.left, box.width));
  });
}

function paintImage() {
  if (!data.image) return;
  const image = data.image, pixels = numbers(image.pixels, Uint8Array), i = query(),
      patches = image.side * image.side;
  const weights = [...Array(patches).keys()].map((j) => mean(i, image.first + j)),
      top = Math.max(...weights, 1e-12);
  shape(picture, image.width, image.height, (x, y) => {
    const patch = Math.floor(y * image.side / image.height) * image.side
        + Math.floor(x * image.side / image.width);
    const ink = pixels[y * image.width + x] / 255;
    return mixed(CIVIDIS, weights[patch] / top).map((c) => Math.round(c * (1 - 0.75 * ink)));
  });
}

function paintTable() {
  const v = view(), chosen = active(), byKey = chosen && chosen.side === "key", index = byKey
      ? chosen.index : query();
  const labels = byKey ? v.queries : v.keys,
      found = labels.map((_, other) => (byKey ? mean(other, index) : mean(index, other)));
  const own = byKey ? v.keys[index] : v.queries[index],
      which = heads().map((h) => h + 1).join(", ");
  const best = found.indexOf(Math.max(...found));
  message.textContent = byKey
    ? "Key " + named(own, index) + ": largest weight " + found[best].toFixed(3) + " from query "
        + named(labels[best], best)
    : "Query " + named(own, index) + ": largest weight " + found[best].toFixed(3) + " on key "
        + named(labels[best], best);
  table.textContent = "";
  make("caption", {}, table, (byKey ? "Weights on key " : "Weights of query ")
      + named(own, index) + ", " + v.name + ", layer " + (state.layer + 1) + ", "
      + (state.heads.size > 1 ? "mean of heads " : "head ") + which);
  const row = make("tr", {}, make("thead", {}, table));
  ["position", byKey ? "query" : "key", "weight"].forEach((name) => make("th", { scope: "col" },
      row, name));
  const lines = make("tbody", {}, table);
  labels.forEach((label, other) => {
    const line = make("tr", { class: other === best ? "best" : "" }, lines);
    make("td", {}, line, String(other));
    make("th", { scope: "row" }, line, label);
    const may = byKey ? allowed(other, index) : allowed(index, other);
    make("td", {}, line, may ? found[other].toFixed(4) : "masked");
  });
}

function buildStage() {
  stage.textContent = "";
  ({ heads: buildHeads, grid: buildGrid, query: buildQuery })[state.mode]();
  buildImage();
}

function paint() {
  keepFocus(() => {
    if (state.mode === "heads") paintHeads();
    if (state.mode === "query") buildStage();
    paintImage();
    paintTable();
  });
}

function refresh() {
  if (state.mode === "query" && active() && active().side === "key") {
    state.locked = state.hover = null;                              // this view needs a query
  }
  keepFocus(() => { buildControls(); buildStage(); paint(); });
}

// An element that is rebuilt keeps the focus; if it is gone, the button of the view gets it.
function keepFocus(work) {
  const at = document.activeElement && document.activeElement.dataset
      ? document.activeElement.dataset.at : undefined;
  work();
  if (at === undefined) return;
  const again = root.querySelector('[data-at="' + at + '"]')
      || root.querySelector('[data-at="view-' + state.mode + '"]');
  if (again && again !== document.activeElement) again.focus({ preventScroll: true });
}

function dark(on) {
  root.classList.toggle("dark", on);
  document.body.classList.toggle("nf-dark", on);
}
