"use strict";
(function () {
  const data = JSON.parse(document.getElementById("nf-data").textContent);
  const root = document.getElementById("nf");
  const LIGHT = ["#00639c", "#b8860b", "#1f7a6d", "#c2703d", "#7f58a8", "#9a9a4b", "#a83a5c", "#7c7b78"];
  const DARK = ["#6cb6ff", "#e3b341", "#56c2ab", "#f0955f", "#c79bf2", "#c8c86a", "#f28ba8", "#b5b3ad"];
  const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3]], BORDERS = ["solid", "dashed", "dotted", "double"];
  const CIVIDIS = [[0, 32, 76], [0, 61, 110], [87, 92, 109], [124, 123, 120], [165, 156, 116], [209, 193, 99], [255, 233, 69]];
  const SIGNED = [[0, 32, 76], [107, 122, 164], [247, 245, 239], [220, 174, 63], [138, 95, 0]];
  const MASKED = [[205, 203, 198], [165, 163, 158]], ROW = 20, TOP = 22, WIDTH = 560;

  // ---- the numbers ---------------------------------------------------------------------------------------------------

  function numbers(text, Type) {
    return text === null ? null : new Type(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  }

  const views = data.views.map((v) => {
    const T = v.queries.length, S = v.keys.length;
    return Object.assign({}, v, {
      T, S, weights: numbers(v.weights, Uint16Array), masks: numbers(v.masks, Uint8Array), q: numbers(v.q, Float32Array),
      k: numbers(v.k, Float32Array), biases: numbers(v.biases, Float32Array),
    });
  });

  const state = { view: views.length - 1, layer: 0, heads: new Set(), mode: "heads", hover: null, locked: null };

  const view = () => views[state.view];
  const heads = () => [...state.heads].sort((a, b) => a - b);

  function weight(v, layer, head, i, j) { return v.weights[((layer * v.heads + head) * v.T + i) * v.S + j] / 65535; }

  function mean(i, j) {
    const v = view(), chosen = heads();
    return chosen.reduce((sum, head) => sum + weight(v, state.layer, head, i, j), 0) / chosen.length;
  }

  function allowed(i, j, layer = state.layer) { const v = view(); return v.masks === null || v.masks[(layer * v.T + i) * v.S + j] === 1; }

  // q . k, what it is multiplied by, what is added, and the softmax that follows: the numbers of one query
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
      rows.push({ parts, product, score: v.scales[state.layer] * product + bias, allowed: allowed(i, j), weight: weight(v, state.layer, head, i, j) });
    }
    return rows;
  }

  // ---- building ------------------------------------------------------------------------------------------------------

  function make(tag, attributes, parent, text) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    if (parent) parent.appendChild(node);
    return node;
  }

  function choices(name, parent, labels, chosen, choose, called) {
    const set = make("fieldset", {}, parent);
    make("legend", {}, set, name);
    labels.forEach((label, index) => {
      const button = make("button", { type: "button", "aria-pressed": String(chosen(index)), "aria-label": called ? called(index) : label,
                                      "data-at": name + "-" + label }, set, label);
      button.addEventListener("click", () => { choose(index); refresh(); });
    });
    return set;
  }

  make("h1", {}, root, data.title);
  if (data.note) make("p", { class: "note", role: "note" }, root, data.note);
  make("p", {}, root, "Point at a token to see where it looks; click locks it, Esc lets go. Up and down: the next token; left and right: the next "
       + "layer; 1 to 9: a head; A: all heads; H, G, Q: heads, grid, query; D: dark or light. The strongest line is drawn in full.");
  const controls = make("div", {}, root);
  const said = make("p", { class: "said", "aria-live": "polite" }, root);
  const body = make("div", { class: "body" }, root);
  const stage = make("div", { class: "stage" }, body);
  const details = make("details", { open: "" }, body);
  make("summary", {}, details, "The numbers as a table");
  const table = make("table", { class: "numbers" }, details);

  function buildControls() {
    controls.textContent = "";
    const v = view();
    if (views.length > 1) choices("attention", controls, views.map((each) => each.name), (k) => k === state.view, (k) => show(k));
    choices("look at", controls, ["heads", "grid", "query"], (k) => ["heads", "grid", "query"][k] === state.mode, (k) => { state.mode = ["heads", "grid", "query"][k]; });
    choices("layer", controls, [...Array(v.layers).keys()].map((k) => String(k + 1)), (k) => k === state.layer, (k) => { state.layer = k; }, (k) => "layer " + (k + 1));
    const set = choices("head", controls, [...Array(v.heads).keys()].map((k) => String(k + 1)), (k) => state.heads.has(k), toggle, (k) => "head " + (k + 1));
    [...set.querySelectorAll("button")].forEach((button, k) => { button.style.borderBottom = "3px " + BORDERS[dash(k)] + " " + colour(k); });
    const more = make("button", { type: "button", "data-at": "all heads" }, set, "all");
    more.addEventListener("click", () => { everyHead(); refresh(); });
    const theme = make("button", { type: "button", "data-at": "theme" }, make("fieldset", {}, controls), root.classList.contains("dark") ? "light" : "dark");
    theme.addEventListener("click", () => { dark(!root.classList.contains("dark")); refresh(); });
  }

  // no two heads look alike: eight colours, and another kind of line from each eight to the next
  const colour = (head) => (root.classList.contains("dark") ? DARK : LIGHT)[head % 8];
  const dash = (head) => (head + Math.floor(head / 8)) % 4;

  function everyHead() { state.heads = new Set(Array(view().heads).keys()); }

  function toggle(head) {
    const all = state.heads.size === view().heads && view().heads > 1;
    if (all) state.heads = new Set([head]);                        // from all of them, the first choice is of one alone
    else if (state.heads.has(head) && state.heads.size > 1) state.heads.delete(head);
    else state.heads.add(head);
  }

  function show(index) {
    state.view = index;
    state.hover = state.locked = null;
    state.layer = views[index].layers - 1;
    everyHead();
  }

  // ---- what is pointed at --------------------------------------------------------------------------------------------

  const active = () => state.locked || state.hover;

  function query() {
    const chosen = active();
    return chosen && chosen.side === "query" ? chosen.index : view().T - 1;
  }

  function point(side, index) { state.hover = side === null ? null : { side, index }; if (!state.locked) paint(); }

  function lock(side, index) {
    const same = state.locked && state.locked.side === side && state.locked.index === index;
    state.locked = same ? null : { side, index };
    state.hover = same ? null : state.hover;
    paint();
  }

  // ---- painting ------------------------------------------------------------------------------------------------------

  function mixed(stops, x) {
    const at = Math.min(Math.max(x, 0), 1) * (stops.length - 1), k = Math.min(Math.floor(at), stops.length - 2);
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
    const list = make("ol", { class: side === "query" ? "queries" : "keys", role: "listbox", "aria-label": side === "query" ? "looks" : "is looked at" }, parent);
    labels.forEach((label, index) => {
      const item = make("li", { role: "option", tabindex: index === 0 ? "0" : "-1", "aria-selected": "false", title: label,
                                "data-at": side + "-" + index }, list);
      make("span", {}, item, label);
      make("b", {}, item, "");
      if (state.mode === "heads") {
        item.addEventListener("mouseenter", () => point(side, index));
        item.addEventListener("mouseleave", () => point(null));
      }
      item.addEventListener("click", () => lock(side, index));
      item.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); lock(side, index); } });
    });
    return list;
  }

  const tokenAt = (side, index) => root.querySelector('[data-at="' + side + "-" + index + '"]');

  // of a list one token can be reached by Tab: the one that was chosen
  function rove(list, index) {
    [...list.children].forEach((each, k) => each.setAttribute("tabindex", k === index ? "0" : "-1"));
  }

  let queries, keys, ways;

  function buildHeads() {
    const columns = make("div", { class: "columns" }, stage), v = view();
    ways = make("canvas", {}, columns);
    queries = tokens("query", v.queries, columns);
    keys = tokens("key", v.keys, columns);
  }

  function paintHeads() {
    const v = view(), chosen = active(), height = TOP + ROW * Math.max(v.T, v.S), ratio = window.devicePixelRatio || 1;
    const width = ways.parentNode.clientWidth || WIDTH, column = queries.offsetWidth || WIDTH / 3;
    ways.width = width * ratio; ways.height = height * ratio;
    ways.style.width = width + "px"; ways.style.height = height + "px";
    const context = ways.getContext("2d");
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
    const v = view(), grid = make("div", { class: "grid", style: "grid-template-columns: auto repeat(" + v.heads + ", auto)" }, stage);
    make("span", {}, grid, "");
    for (let h = 0; h < v.heads; h++) make("span", {}, grid, "head " + (h + 1));
    for (let l = 0; l < v.layers; l++) {
      make("span", {}, grid, "layer " + (l + 1));
      for (let h = 0; h < v.heads; h++) {
        const pressed = l === state.layer && state.heads.has(h);
        const button = make("button", { type: "button", "aria-pressed": String(pressed), "aria-label": "layer " + (l + 1) + ", head " + (h + 1),
                                        "data-at": "grid-" + l + "-" + h }, grid);
        shape(make("canvas", {}, button), v.S, v.T, (x, y) => (allowed(y, x, l) ? mixed(CIVIDIS, Math.sqrt(weight(v, l, h, y, x))) : MASKED[(x + y) % 2]));
        button.addEventListener("click", () => { state.layer = l; state.heads = new Set([h]); state.mode = "heads"; refresh(); });
      }
    }
    make("p", { class: "legend", style: "grid-column: 1 / -1" }, grid,
         "Rows are queries, columns keys. Brighter is more, from 0 to 1, by the root of the weight; chequered grey is masked.");
  }

  function buildQuery() {
    const v = view();
    if (v.q === null) { make("p", {}, stage, "The scores of this attention are no products of queries and keys."); return; }
    const head = heads()[0], i = query(), rows = scores(head, i), list = tokens("query", v.queries, stage);
    list.children[i].setAttribute("aria-selected", "true");
    rove(list, i);
    const box = make("table", { class: "detail" }, stage);
    make("caption", {}, box, "Query " + i + " “" + v.queries[i] + "”, layer " + (state.layer + 1) + ", head " + (head + 1)
         + ": products of coordinates, their sum q · k, times " + Number(v.scales[state.layer].toPrecision(4)) + (v.biases ? ", plus the bias of the distance" : "")
         + ", softmax");
    const row = make("tr", {}, make("thead", {}, box));
    ["key", "products", "q · k", "score", "weight"].forEach((name) => make("th", { scope: "col" }, row, name));
    const lines = make("tbody", {}, box), top = Math.max(...rows.map((each) => Math.max(...each.parts.map(Math.abs))), 1e-12);
    const best = Math.max(...rows.map((each) => each.weight));
    rows.forEach((each, j) => {
      const line = make("tr", { class: each.weight === best ? "best" : "" }, lines);
      make("th", { scope: "row" }, line, v.keys[j]);
      const strip = make("canvas", { style: "width:" + 7 * v.width + "px" }, make("td", {}, line));
      shape(strip, v.width, 1, (x) => mixed(SIGNED, 0.5 + each.parts[x] / top / 2));
      make("td", {}, line, each.product.toFixed(3));
      make("td", {}, line, each.allowed ? each.score.toFixed(3) : "masked");
      make("td", {}, line, each.allowed ? each.weight.toFixed(4) : "masked");
    });
  }

  let picture;

  function buildImage() {
    if (!data.image) return;
    const box = make("div", { class: "image" }, stage), side = data.image.side;
    picture = make("canvas", { role: "img", "aria-label": "The image, brighter where the query looks" }, box);
    picture.addEventListener("click", (event) => {
      const place = picture.getBoundingClientRect(), at = (x, size) => Math.min(side - 1, Math.max(0, Math.floor(x / size * side)));
      lock("query", data.image.first + at(event.clientY - place.top, place.height) * side + at(event.clientX - place.left, place.width));
    });
  }

  function paintImage() {
    if (!data.image) return;
    const image = data.image, pixels = numbers(image.pixels, Uint8Array), i = query(), patches = image.side * image.side;
    const looks = [...Array(patches).keys()].map((j) => mean(i, image.first + j)), top = Math.max(...looks, 1e-12);
    shape(picture, image.width, image.height, (x, y) => {
      const patch = Math.floor(y * image.side / image.height) * image.side + Math.floor(x * image.side / image.width);
      const ink = pixels[y * image.width + x] / 255;
      return mixed(CIVIDIS, looks[patch] / top).map((c) => Math.round(c * (1 - 0.75 * ink)));
    });
  }

  function paintTable() {
    const v = view(), chosen = active(), byKey = chosen && chosen.side === "key", index = byKey ? chosen.index : query();
    const labels = byKey ? v.queries : v.keys, found = labels.map((_, other) => (byKey ? mean(other, index) : mean(index, other)));
    const own = byKey ? v.keys[index] : v.queries[index], which = heads().map((h) => h + 1).join(", ");
    const best = found.indexOf(Math.max(...found));
    said.textContent = byKey
      ? "“" + own + "” (place " + index + ") is looked at most by “" + labels[best] + "” (place " + best + "): " + found[best].toFixed(3)
      : "“" + own + "” (place " + index + ") looks most at “" + labels[best] + "” (place " + best + "): " + found[best].toFixed(3);
    table.textContent = "";
    make("caption", {}, table, (byKey ? "Who looks at “" : "Where “") + own + "” (place " + index + (byKey ? ")" : ") looks") + ", "
         + v.name + ", layer " + (state.layer + 1) + ", " + (state.heads.size > 1 ? "mean of heads " : "head ") + which);
    const row = make("tr", {}, make("thead", {}, table));
    ["place", byKey ? "query" : "key", "weight"].forEach((name) => make("th", { scope: "col" }, row, name));
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
    if (state.mode === "query" && active() && active().side === "key") state.locked = state.hover = null;   // there a query is looked at
    keepFocus(() => { buildControls(); buildStage(); paint(); });
  }

  // What is built anew takes the focus back; of what is gone, the button of the view that took its place.
  function keepFocus(work) {
    const at = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.at : undefined;
    work();
    if (at === undefined) return;
    const again = root.querySelector('[data-at="' + at + '"]') || root.querySelector('[data-at="look at-' + state.mode + '"]');
    if (again && again !== document.activeElement) again.focus({ preventScroll: true });
  }

  function dark(on) { root.classList.toggle("dark", on); document.body.classList.toggle("nf-dark", on); }

  // ---- keys ----------------------------------------------------------------------------------------------------------

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const v = view(), key = event.key.toLowerCase();
    if (event.key === "Escape") { state.locked = state.hover = null; refresh(); }
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const at = /^(query|key)-([0-9]+)$/.exec((document.activeElement && document.activeElement.dataset.at) || "");
      const side = at ? at[1] : "query", count = side === "query" ? v.T : v.S, step = event.key === "ArrowDown" ? 1 : -1;
      const from = at ? Number(at[2]) : state.locked && state.locked.side === "query" ? state.locked.index : null;
      state.locked = { side, index: from === null ? query() : (from + step + count) % count };
      paint();
      const chosen = tokenAt(side, state.locked.index);
      if (chosen && at) chosen.focus({ preventScroll: true });
      if (chosen) chosen.scrollIntoView({ block: "nearest" });
    } else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      state.layer = (state.layer + (event.key === "ArrowRight" ? 1 : -1) + v.layers) % v.layers;
      refresh();
    } else if (/^[1-9]$/.test(event.key) && Number(event.key) <= v.heads) { toggle(Number(event.key) - 1); refresh(); }
    else if (key === "a") { everyHead(); refresh(); }
    else if (key === "h" || key === "g" || key === "q") { state.mode = { h: "heads", g: "grid", q: "query" }[key]; refresh(); }
    else if (key === "d") { dark(!root.classList.contains("dark")); refresh(); }
    else return;
    event.preventDefault();
  });

  window.addEventListener("resize", paint);
  dark(window.matchMedia && window.matchMedia("(prefers-color-scheme: dark)").matches);
  show(state.view);
  refresh();
})();
