// The next token: probabilities as bars, how one is sampled, and text that goes on by itself.

const BARS = 12, PLAIN_TOKENS = 32;                                     // with reduced motion
const sampling = { temperature: 1, topK: 0, topP: 1, seed: 1, left: 0 };
const bars = make("ol", { class: "bars" });
const barsTitle = make("h2", {}), barsNote = make("p", { class: "legend" });
let uniform = generatorOf(1), timer = 0;

function buildPrediction(parent) {
  const side = make("aside", { class: "prediction", "aria-label": "next token" }, parent);
  side.append(barsTitle, bars, barsNote);
  const V = data.live.config.vocabulary;
  slider(side, "temperature", "temperature", 0, 2, 0.05, (x) => x.toFixed(2));
  slider(side, "top-k", "topK", 0, V, 1, (x) => (x ? String(x) : "all"));
  slider(side, "top-p", "topP", 0.05, 1, 0.05, (x) => x.toFixed(2));
  const line = make("div", { class: "buttons" }, side);
  const button = (name, work) => make("button", { type: "button", "data-at": name }, line, name)
      .addEventListener("click", work);
  button("step", () => { stop(); step(); repaint(); });
  button("generate", generate);
  button("stop", stop);
  const label = make("label", {}, line, "seed ");
  const seed = make("input", { type: "number", value: "1", min: "0", "data-at": "seed" }, label);
  seed.addEventListener("input", () => {
    sampling.seed = Number(seed.value) || 0;
    uniform = generatorOf(sampling.seed);
  });
  make("p", { class: "legend" }, side, data.live.bits === 16
      ? "Weights are rounded to 16 bits (float16) to keep this file small; all numbers here are of "
        + "the rounded model, computed in this page in 32 bits."
      : "Weights have all their 32 bits.");
}

function slider(parent, name, field, min, max, step, words) {
  const label = make("label", { class: "slider" }, parent);
  make("span", {}, label, name);
  const input = make("input", { type: "range", min, max, step, value: sampling[field],
      "aria-label": name, "data-at": name }, label);
  const number = make("output", {}, label, words(sampling[field]));
  input.addEventListener("input", () => {
    sampling[field] = Number(input.value);
    number.textContent = words(sampling[field]);
    paintPrediction();
  });
}

const sampled = (logits) => samplingProbabilities(logits, sampling.temperature, sampling.topK,
    sampling.topP);

function paintPrediction() {
  const i = query(), logits = rowOf(run, i), p = softmax(logits), chosen = sampled(logits);
  const before = plain ? softmax(rowOf(plain, i)) : null;
  const order = [...p.keys()].sort((a, b) => p[b] - p[a] || a - b).slice(0, BARS);
  const next = i + 1 < run.T ? run.ids[i + 1] : null;
  write(barsTitle, "Next token after " + named(data.live.labels[run.ids[i]], i));
  if (next !== null && !order.includes(next)) order[BARS - 1] = next;
  while (bars.children.length < order.length) makeBar();
  while (bars.children.length > order.length) bars.lastChild.remove();
  order.forEach((id, k) => writeBar(bars.children[k], id, p, chosen, before, id === next));
  write(barsNote, "Blue: the probability with which each token is sampled. Mark: the "
      + "softmax of the logits" + (before ? "; in brackets, with all heads at 1" : "")
      + ". Click a token to see the backward pass of its loss.");
  paintChips();
}

function makeBar() {
  const item = make("li", {}, bars), button = make("button", { type: "button" }, item);
  for (const part of ["token", "bar", "number"]) make("span", { class: part }, button);
  make("i", {}, button.children[1]);
  make("u", {}, button.children[1]);
  button.addEventListener("click", () => {
    state.target = Number(button.dataset.token);
    state.locked = { side: "query", index: query() };
    state.mode = "backward";
    refresh();
  });
}

function writeBar(item, id, p, chosen, before, isNext) {
  const button = item.firstChild, [token, bar, number] = button.children;
  const label = data.live.labels[id], was = before ? " (" + before[id].toFixed(3) + ")" : "";
  mark(button, "data-token", String(id));
  mark(button, "data-at", "bar-" + id);
  mark(button, "aria-label", label + ": probability " + p[id].toFixed(4) + ", sampled with "
      + chosen[id].toFixed(4) + (before ? ", with all heads " + before[id].toFixed(4) : "")
      + (isNext ? ", the next token of the text" : ""));
  mark(item, "class", (isNext ? "next " : "") + (id === state.target ? "target" : ""));
  write(token, label);
  bar.firstChild.style.transform = "scaleX(" + chosen[id] + ")";         // without a new layout
  bar.lastChild.style.transform = "translateX(" + 100 * p[id] + "%)";
  write(number, p[id].toFixed(3) + was);
}

// ---- generation -------------------------------------------------------------------------------

// Append one sampled token to the text
function step() {
  const id = sampleToken(sampled(rowOf(run, run.T - 1)), uniform());
  state.locked = state.hover = null;
  readIds([...live.ids, id]);
  text.value = codec.decode(live.ids);
  text.scrollTop = text.scrollHeight;
}

function generate() {
  stop();
  if (window.matchMedia && window.matchMedia("(prefers-reduced-motion: reduce)").matches) {
    for (let k = 0; k < PLAIN_TOKENS; k++) step();
    repaint();
    return;
  }
  const next = () => { step(); repaint(); timer = setTimeout(next, 60); };
  timer = setTimeout(next, 0);
}

function stop() { clearTimeout(timer); timer = 0; }
