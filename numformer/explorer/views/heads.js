// The view of heads: queries on the left, keys on the right, a line for every weight.

let queries, keys, canvas, drawn = [];

function buildHeads() {
  const columns = make("div", { class: "columns" }, stage), v = view();
  canvas = make("canvas", { "aria-hidden": "true" }, columns);
  queries = tokens("query", v.queries, columns, "queries");
  keys = tokens("key", v.keys, columns, "keys");
}

function paintHeads() {
  const chosen = active();
  drawLines(chosen);
  const label = (list, side, other) => [...list.children].forEach((item, index) => {
    const own = chosen && chosen.side === side && chosen.index === index;
    mark(item, "aria-selected", String(Boolean(own)));
    if (!chosen || chosen.side !== other) { write(item.lastChild, ""); return; }
    const [i, j] = other === "query" ? [chosen.index, index] : [index, chosen.index];
    write(item.lastChild, allowed(i, j) ? mean(i, j).toFixed(3) : "masked");
  });
  label(queries, "query", "key");
  label(keys, "key", "query");
  const title = (side) => (chosen && chosen.side === side ? "weight, " + headsInWords() : null);
  mark(queries, "data-title", title("key") || "queries");
  mark(keys, "data-title", title("query") || "keys");
  if (chosen) rove(chosen.side === "query" ? queries : keys, chosen.index);
}

// All lines, or those of the chosen token; `drawn` keeps them for the export.
function drawLines(chosen) {
  const v = view(), height = TOP + ROW * Math.max(v.T, v.S), ratio = window.devicePixelRatio || 1;
  const width = canvas.parentNode.clientWidth || WIDTH, column = queries.offsetWidth || WIDTH / 3;
  const context = canvas.getContext("2d"), sizes = [width * ratio, height * ratio].map(Math.round);
  if (canvas.width !== sizes[0] || canvas.height !== sizes[1]) {
    [canvas.width, canvas.height] = sizes;
    canvas.style.width = width + "px"; canvas.style.height = height + "px";
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  const rows = chosen && chosen.side === "query" ? [chosen.index] : [...Array(v.T).keys()];
  const columns = chosen && chosen.side === "key" ? [chosen.index] : [...Array(v.S).keys()];
  let top = 1e-12;
  for (const head of heads()) for (const i of rows) for (const j of columns) {
    top = Math.max(top, v.weight(state.layer, head, i, j));
  }
  drawn = [];
  heads().forEach((head, number) => {
    const shift = (number - (state.heads.size - 1) / 2) * Math.min(2, 12 / state.heads.size);
    for (const i of rows) for (const j of columns) {
      const strength = v.weight(state.layer, head, i, j) / top;
      if (strength < 0.02) continue;
      drawn.push({ x1: column, y1: TOP + ROW * (i + 0.5) + shift, x2: width - column,
          y2: TOP + ROW * (j + 0.5) + shift, colour: colour(head), dash: DASHES[dash(head)],
          alpha: Math.min(1, strength * (chosen ? 1 : 0.6)), width: chosen ? 2.5 : 1.5 });
    }
  });
  for (const each of drawn) {
    context.strokeStyle = each.colour;
    context.setLineDash(each.dash);
    context.globalAlpha = each.alpha;
    context.lineWidth = each.width;
    context.beginPath();
    context.moveTo(each.x1, each.y1);
    context.lineTo(each.x2, each.y2);
    context.stroke();
  }
}

// heads differ in colour and line style: eight colours, and another style for every next eight
const colour = (head) => (isDark() ? DARK : LIGHT)[head % 8];
const dash = (head) => (head + Math.floor(head / 8)) % 4;
