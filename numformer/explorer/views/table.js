// What all views have: the image of a Vision Transformer, and the weights as a table.

let picture;

function buildImage() {
  if (!data.image) return;
  const box = make("div", { class: "image" }, stage), side = data.image.side;
  picture = make("canvas",
      { role: "img", "aria-label": "The image, bluer where the query attends" }, box);
  picture.addEventListener("click", (event) => {
    const box = picture.getBoundingClientRect(),
        at = (x, size) => clipped(Math.floor(x / size * side), 0, side - 1);
    lock("query", data.image.first + at(event.clientY - box.top, box.height) * side
        + at(event.clientX - box.left, box.width));
  });
}

function paintImage() {
  if (!data.image) return;
  const image = data.image, grey = numbers(image.pixels, Uint8Array), i = query(),
      patches = image.side * image.side;
  const weights = [...Array(patches).keys()].map((j) => mean(i, image.first + j)),
      top = Math.max(...weights, 1e-12);
  pixels(picture, image.width, image.height, (x, y) => {
    const patch = Math.floor(y * image.side / image.height) * image.side
        + Math.floor(x * image.side / image.width);
    const ink = grey[y * image.width + x] / 255, strength = 0.8 * weights[patch] / top;
    return mixed(GROUND.light, BLUE.light, strength).map((c) => Math.round(c * (1 - 0.75 * ink)));
  });
}

function paintTable() {
  const v = view(), chosen = active(), byKey = chosen && chosen.side === "key", index = byKey
      ? chosen.index : query();
  const labels = byKey ? v.queries : v.keys,
      found = labels.map((_, other) => (byKey ? mean(other, index) : mean(index, other)));
  const own = byKey ? v.keys[index] : v.queries[index];
  const best = found.indexOf(Math.max(...found));
  write(message, (byKey
    ? "Key " + named(own, index) + ": largest weight " + found[best].toFixed(3) + " from query "
        + named(labels[best], best)
    : "Query " + named(own, index) + ": largest weight " + found[best].toFixed(3) + " on key "
        + named(labels[best], best)) + ", layer " + (state.layer + 1) + ", " + headsInWords());
  if (!details.open) return;
  table.textContent = "";
  make("caption", {}, table, (byKey ? "Weights on key " : "Weights of query ")
      + named(own, index) + ", " + v.name + ", layer " + (state.layer + 1) + ", " + headsInWords());
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
