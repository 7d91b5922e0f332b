// The residual stream: what the logit lens predicts after each block, and norms of the vectors.

const layerNames = () => ["embedding", ...numbered(model.config.layers).map((l) => "block " + l)];

// The L + 1 distributions of the lens, each of T tokens
function lensProbabilities() {
  const V = model.config.vocabulary;
  return lens(model, run).map((logits) => [...Array(run.T).keys()].map(
      (t) => softmax(logits.subarray(t * V, (t + 1) * V))));
}

function streamNorm(l, t) {
  const C = model.config.width;
  return Math.hypot(...run.stream[l].subarray(t * C, (t + 1) * C));
}

function buildStream() {
  const p = lensProbabilities(), labels = data.live.labels, i = query(), names = layerNames();
  const best = p.map((rows) => rows.map((row) => row.indexOf(Math.max(...row))));
  const box = make("div", { class: "stream" }, stage);
  streamTable(box, "Logit lens: the most likely next token after each block, by the final norm "
      + "and the head. Colour: its probability.", names, (cell, l, t) => {
    const ground = sequential(p[l][t][best[l][t]]);
    cell.textContent = labels[best[l][t]];
    cell.title = names[l] + ", position " + t + ": " + p[l][t][best[l][t]].toFixed(4);
    cell.style.background = css(ground);
    cell.style.color = inkOn(ground);
  });
  const top = Math.max(...names.map((_, l) => largest(run.ids.map((_, t) => streamNorm(l, t)))));
  streamTable(box, "Norm of the residual stream before the first block and after each. Colour: "
      + "the norm, up to " + top.toFixed(1) + ".", names, (cell, l, t) => {
    const norm = streamNorm(l, t), ground = sequential(norm / top);
    cell.textContent = norm.toFixed(1);
    cell.style.background = css(ground);
    cell.style.color = inkOn(ground);
  });
  buildLens(box, p, i, names);
}

function streamTable(parent, words, names, write) {
  const scroll = make("div", { class: "scroll", tabindex: "0", role: "group",
      "aria-label": words.split(".")[0] }, parent);
  const table = make("table", { class: "lens" }, scroll);
  make("caption", {}, table, words);
  const head = make("tr", {}, make("thead", {}, table));
  make("th", { scope: "col" }, head, "token");
  run.ids.forEach((id, t) => make("th", { scope: "col", class: t === query() ? "chosen" : "" },
      head, data.live.labels[id]));
  const lines = make("tbody", {}, table);
  for (let l = names.length - 1; l >= 0; l--) {                         // the last block on top
    const line = make("tr", {}, lines);
    make("th", { scope: "row" }, line, names[l]);
    run.ids.forEach((_, t) => write(make("td", {}, line), l, t));
  }
}

// The lens at the chosen position: the three most likely tokens, and the model's prediction
function buildLens(parent, p, i, names) {
  const labels = data.live.labels, final = p[p.length - 1][i], predicted = final.indexOf(
      Math.max(...final));
  const table = make("table", { class: "detail" }, make("div", { class: "scroll" }, parent));
  make("caption", {}, table, "After " + named(labels[run.ids[i]], i)
      + ": the three most likely tokens, and the probability of the prediction "
      + quoted(labels[predicted]));
  const head = make("tr", {}, make("thead", {}, table));
  ["after", "norm", "first", "second", "third", "p(" + isolated(labels[predicted]) + ")"].forEach(
      (name) => make("th", { scope: "col" }, head, name));
  const lines = make("tbody", {}, table);
  for (let l = names.length - 1; l >= 0; l--) {
    const row = p[l][i], order = [...row.keys()].sort((a, b) => row[b] - row[a] || a - b);
    const line = make("tr", {}, lines);
    make("th", { scope: "row" }, line, names[l]);
    make("td", {}, line, streamNorm(l, i).toFixed(2));
    for (const id of order.slice(0, 3)) {
      make("td", {}, line, isolated(labels[id]) + " " + row[id].toFixed(3));
    }
    make("td", {}, line, row[predicted].toFixed(4));
  }
}
