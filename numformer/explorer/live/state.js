// The live page: a text, the model that reads it, and the view of what it computed.

Object.assign(MODES, {
  stream: { build: buildStream, rebuilt: true },
  backward: { build: buildBackward, rebuilt: true, head: "one", still: true },
});

let model, run, plain, codec;                                           // plain: all heads at 1
const live = { ids: [], start: 0, unknown: [], rows: 0, version: 0 };
const text = make("textarea", { rows: "2", dir: "auto", spellcheck: "false", autocomplete: "off",
    autocapitalize: "off", "aria-label": "text that the model reads", "data-at": "text" });
const chips = make("ol", { class: "chips", role: "listbox", "aria-label": "tokens",
    "aria-orientation": "horizontal" });
const status = make("p", { class: "status", role: "status" });

// What is read by screen readers, once typing pauses
const spoken = make("p", { class: "spoken", "aria-live": "polite" });
let pause = 0;

function buildLive() {
  const box = make("section", { class: "live", "aria-label": "text and tokens" }, root);
  box.append(text, chips, status, spoken);
  text.addEventListener("input", () => { readText(text.value); repaint(); });
}

function startLive() {
  model = buildDecoder(data.live);
  run = newRun(model);
  codec = tokenizerOf(data.live.tokenizer);
  views.push(liveView());
  text.value = data.live.text;
  state.mode = "grid";
  readText(text.value);
}

// The numbers of the last forward, as `storedView` has those of a page
function liveView() {
  const c = data.live.config, H = c.heads, G = c.groups, D = c.headWidth, N = c.capacity;
  const of = (l) => run.blocks[l].attention, group = (h) => Math.floor(h * G / H);
  const labels = () => run.ids.map((id) => data.live.labels[id]);
  return {
    name: "self", layers: c.layers, heads: H, scales: Array(c.layers).fill(c.scale),
    hasProducts: true, hasBias: Boolean(c.slopes || c.buckets), valueWidth: D,
    get T() { return run.T; }, get S() { return run.T; },
    get queries() { return labels(); }, get keys() { return labels(); },
    weight: (l, h, i, j) => (j > i ? 0 : of(l).p[(h * N + i) * N + j]),
    allowed: (l, i, j) => j <= i && (!c.windows[l] || i - j < c.windows[l]),
    q: (l, h, i) => of(l).q.subarray((i * H + h) * D, (i * H + h + 1) * D),
    k: (l, h, j) => of(l).k.subarray((j * G + group(h)) * D, (j * G + group(h) + 1) * D),
    v: (l, h, j) => of(l).v.subarray((j * G + group(h)) * D, (j * G + group(h) + 1) * D),
    bias: (l, h, i, j) => (j > i ? 0 : scoreBias(model, l, h, i - j)),
  };
}

// ---- the text ---------------------------------------------------------------------------------

function readText(value) {
  const { ids, unknown } = codec.encode(value);
  live.unknown = unknown;
  readIds(ids);
}

// All tokens of the text; the model reads the last of them, as when it generates.
function readIds(ids) {
  live.ids = ids;
  if (!ids.length) { sayStatus(); return; }                           // the last text stays
  const T = run.T;
  live.start = contextStart(ids.length, model.capacity);
  compute();
  if (run.T !== T) { state.hover = null; if (state.locked && state.locked.index >= run.T) {
    state.locked = null; } }
  buildChips();
}

function compute() {
  const ids = live.ids.slice(live.start);
  live.rows = forward(model, run, ids);
  if (plain) forward(model, plain, ids);
  live.version++;
  sayStatus();
  clearTimeout(pause);
  pause = setTimeout(saySpoken, 400);
}

function sayStatus() {
  const parts = [];
  if (!live.ids.length) parts.push("Type at least one known character.");
  if (live.unknown.length) {
    parts.push("Not in the vocabulary, and left out: " + live.unknown.join(" ") + ".");
  }
  if (live.start) parts.push("The model reads the last " + run.T + " of " + live.ids.length
      + " tokens.");
  const off = scaledHeads();
  if (off.length) parts.push("Scaled heads: " + off.join(", ") + ".");
  status.textContent = parts.join(" ");
}

function saySpoken() {
  if (!run.T) return;
  const p = softmax(rowOf(run, run.T - 1)), best = p.indexOf(Math.max(...p));
  spoken.textContent = "Most likely next token: " + isolated(data.live.labels[best])
      + ", probability " + p[best].toFixed(3) + ".";
}

const rowOf = (of, i) => {
  const V = model.config.vocabulary;
  return of.logits.subarray(i * V, (i + 1) * V);
};

// ---- tokens -----------------------------------------------------------------------------------

// A chip for every token, more orange the less likely the model held it; only what differs is new.
function buildChips() {
  while (chips.children.length > run.T) chips.lastChild.remove();
  while (chips.children.length < run.T) makeChip(chips.children.length);
  run.ids.forEach((id, index) => {
    const p = index ? softmax(rowOf(run, index - 1))[id] : 1, label = data.live.labels[id];
    const ground = mixed(shade(GROUND), shade(ORANGE), 0.55 * clipped(-Math.log(p) / 6, 0, 1));
    const item = chips.children[index];
    write(item, label);
    mark(item, "title", named(label, index) + (index ? ", probability before it was read "
        + p.toFixed(3) : ""));
    mark(item, "style", "background: " + css(ground) + "; color: " + inkOn(ground));
  });
}

function makeChip(index) {
  const item = make("li", { role: "option", tabindex: "-1", "aria-selected": "false",
      "data-at": "token-" + index }, chips);
  item.addEventListener("mouseenter", () => point("query", index));
  item.addEventListener("mouseleave", () => point(null));
  item.addEventListener("click", () => lock("query", index));
  item.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Enter" || event.key === " ") lock("query", index);
    else if (step) moveToken(step);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
}

function paintChips() {
  const i = query();
  [...chips.children].forEach((item, index) => mark(item, "aria-selected", String(index === i)));
  rove(chips, i);
}

// ---- heads ------------------------------------------------------------------------------------

const scaleOf = (l, h) => run.blocks[l].attention.scale[h];

function scaledHeads() {
  return run.blocks.flatMap((_, l) => [...Array(model.config.heads).keys()]
      .filter((h) => scaleOf(l, h) !== 1)
      .map((h) => "layer " + (l + 1) + " head " + (h + 1) + " × " + scaleOf(l, h)));
}

// Multiply the output of a head; the model with all heads at 1 is computed for comparison.
function changeHead(l, h, scale) {
  scaleHead(run, l, h, scale);
  plain = scaledHeads().length ? plain || newRun(model) : null;
  compute();
  buildChips();
}

function buildHeadScale(l, h, cell) {
  const name = "layer " + (l + 1) + ", head " + (h + 1), line = make("label", {}, cell);
  const at = "scale-" + l + "-" + h;
  const on = make("input", { type: "checkbox", "aria-label": "switch for " + name,
      "data-at": "switch-" + l + "-" + h }, line);
  const slider = make("input", { type: "range", min: "0", max: "2", step: "0.05",
      "aria-label": "scale of " + name, "data-at": at }, line);
  const number = make("output", {}, line);
  const show = () => {
    on.checked = scaleOf(l, h) !== 0;
    slider.value = scaleOf(l, h);
    number.textContent = "× " + scaleOf(l, h).toFixed(2);
    cell.classList.toggle("scaled", scaleOf(l, h) !== 1);
  };
  const change = (scale) => { changeHead(l, h, scale); refresh(); };
  on.addEventListener("change", () => change(on.checked ? 1 : 0));
  slider.addEventListener("input", () => { changeHead(l, h, Number(slider.value)); show();
    repaintMaps(); paint(); });
  show();
}
