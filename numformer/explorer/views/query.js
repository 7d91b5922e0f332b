// One query of one head in numbers: products, scores, weights, and the values that it mixes.

function buildQuery() {
  const v = view();
  if (!v.hasProducts) {
    make("p", {}, stage, "The scores of this attention are not products of queries and keys.");
    return;
  }
  const head = heads()[0], i = query(), rows = scores(head, i), mix = mixture(head, i);
  if (!data.live) {                                                     // a live page has its text
    const list = tokens("query", v.queries, stage, "queries");
    list.children[i].setAttribute("aria-selected", "true");
    rove(list, i);
  }
  const scroll = make("div", { class: "scroll" }, stage);
  const box = make("table", { class: "detail" }, scroll);
  make("caption", {}, box, "Query " + i + " " + quoted(v.queries[i])
      + ", layer " + (state.layer + 1) + ", head " + (head + 1)
      + ": score = " + v.scales[state.layer].toFixed(4) + " × (q · k)"
      + (v.hasBias ? " + the position bias" : "")
      + ". The weights p are the softmax of the scores, and the output is the sum of p · v.");
  const names = make("tr", {}, make("thead", {}, box));
  ["key", "products", "q · k", "score", "weight p", "value v", "p · v", "norm of p · v"].forEach(
      (name) => make("th", { scope: "col" }, names, name));
  const lines = make("tbody", {}, box), top = largest(rows.flatMap((each) => each.parts));
  const ofValues = largest(mix.rows.flatMap((each) => each.value)),
      ofProducts = largest([...mix.output, ...mix.rows.flatMap((each) => each.product)]);
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
