// The grid: a map for every head, layer by layer.

let maps = [];

function buildGrid() {
  maps = [];
  const v = view(), grid = make("div", { class: "grid" }, stage);
  const line = make("p", { class: "legend readout" }, grid, "Rows are queries, columns are keys. "
      + "Colour: square root of the weight, from 0 to 1; masked cells are chequered. Point at a "
      + "map to read its numbers; click it to see the head.");
  for (let l = 0; l < v.layers; l++) {
    const layer = make("section", { "aria-label": "layer " + (l + 1) }, grid);
    make("h3", {}, layer, "Layer " + (l + 1));
    const row = make("div", { class: "maps" }, layer);
    for (let h = 0; h < v.heads; h++) {
      const cell = make("div", { class: "map" }, row);
      buildMap(v, l, h, cell, line);
      if (data.live) buildHeadScale(l, h, cell);
    }
  }
}

function buildMap(v, l, h, cell, line) {
  const pressed = l === state.layer && state.heads.has(h) && state.heads.size < v.heads;
  const button = make("button", { type: "button", "aria-pressed": String(pressed),
      "aria-label": "layer " + (l + 1) + ", head " + (h + 1),
                                  "data-at": "grid-" + l + "-" + h }, cell);
  const map = make("canvas", {}, button);
  maps.push({ map, l, h });
  paintMap(map, l, h);
  make("span", {}, button, "head " + (h + 1));
  followPointer(map, v.S, v.T, line, (i, j) => "Layer " + (l + 1) + ", head " + (h + 1) + ": query "
      + named(v.queries[i], i) + ", key " + named(v.keys[j], j) + ": "
      + (v.allowed(l, i, j) ? v.weight(l, h, i, j).toFixed(4) : "masked"));
  button.addEventListener("click", () => {
    state.layer = l;
    state.heads = new Set([h]);
    state.mode = "heads";
    refresh();
  });
}

function paintMap(map, l, h) {
  const v = view(), masked = shade(MASKED), colours = palette(BLUE);
  pixels(map, v.S, v.T, (x, y) => (v.allowed(l, y, x)
      ? colours[Math.round(255 * Math.sqrt(v.weight(l, h, y, x)))] : masked[(x + y) % 2]));
}

function repaintMaps() {
  for (const { map, l, h } of maps) paintMap(map, l, h);
}
