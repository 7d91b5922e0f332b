// Controls, the active token and keys. The script is data.js, views.js and explorer.js in a row.

// ---- building ---------------------------------------------------------------------------------

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
    const button = make("button", { type: "button", "aria-pressed": String(chosen(index)),
        "aria-label": called ? called(index) : label,
                                    "data-at": name + "-" + label }, set, label);
    button.addEventListener("click", () => { choose(index); refresh(); });
  });
  return set;
}

make("h1", {}, root, data.title);
if (data.note) make("p", { class: "note", role: "note" }, root, data.note);
make("p", {}, root,
     "Hover over a token to see its attention weights; click to lock it, Esc to unlock. "
     + "Up and down: next token; left and right: next layer; 1 to 9: a head; A: all heads; "
     + "H, G, Q: heads, grid, query; D: dark or light. "
     + "The opacity of a line is its weight relative to the largest.");
const controls = make("div", {}, root);
const message = make("p", { class: "message", "aria-live": "polite" }, root);
const body = make("div", { class: "body" }, root);
const stage = make("div", { class: "stage" }, body);
const details = make("details", { open: "" }, body);
make("summary", {}, details, "Attention weights as a table");
const table = make("table", { class: "numbers" }, details);

function buildControls() {
  controls.textContent = "";
  const v = view();
  if (views.length > 1) choices("attention", controls, views.map((each) => each.name),
      (k) => k === state.view, (k) => show(k));
  choices("view", controls, MODES, (k) => MODES[k] === state.mode,
          (k) => { state.mode = MODES[k]; });
  choices("layer", controls, numbered(v.layers), (k) => k === state.layer,
          (k) => { state.layer = k; },
          (k) => "layer " + (k + 1));
  const set = choices("head", controls, numbered(v.heads), (k) => state.heads.has(k), toggle,
      (k) => "head " + (k + 1));
  [...set.querySelectorAll("button")].forEach((button, k) => {
    button.style.borderBottom = "3px " + BORDERS[dash(k)] + " " + colour(k);
  });
  const more = make("button", { type: "button", "data-at": "all heads" }, set, "all");
  more.addEventListener("click", () => { everyHead(); refresh(); });
  const theme = make("button", { type: "button", "data-at": "theme" },
      make("fieldset", {}, controls), root.classList.contains("dark") ? "light" : "dark");
  theme.addEventListener("click", () => { dark(!root.classList.contains("dark")); refresh(); });
}

// heads differ in colour and line style: eight colours, and another style for every next eight
const colour = (head) => (root.classList.contains("dark") ? DARK : LIGHT)[head % 8];
const dash = (head) => (head + Math.floor(head / 8)) % 4;

function everyHead() { state.heads = new Set(Array(view().heads).keys()); }

function toggle(head) {
  const all = state.heads.size === view().heads && view().heads > 1;
  if (all) state.heads = new Set([head]);                          // this head alone
  else if (state.heads.has(head) && state.heads.size > 1) state.heads.delete(head);
  else state.heads.add(head);
}

function show(index) {
  state.view = index;
  state.hover = state.locked = null;
  state.layer = views[index].layers - 1;
  everyHead();
}

// ---- the active token -------------------------------------------------------------------------

const active = () => state.locked || state.hover;

function query() {
  const chosen = active();
  return chosen && chosen.side === "query" ? chosen.index : view().T - 1;
}

function point(side, index) {
  state.hover = side === null ? null : { side, index };
  if (!state.locked) paint();
}

function lock(side, index) {
  const same = state.locked && state.locked.side === side && state.locked.index === index;
  state.locked = same ? null : { side, index };
  state.hover = same ? null : state.hover;
  paint();
}

// ---- keys -------------------------------------------------------------------------------------

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const v = view(), key = event.key.toLowerCase();
  if (event.key === "Escape") { state.locked = state.hover = null; refresh(); }
  else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    const focused = document.activeElement && document.activeElement.dataset.at;
    const at = /^(query|key)-([0-9]+)$/.exec(focused || "");
    const side = at ? at[1] : "query", count = side === "query" ? v.T : v.S,
        step = event.key === "ArrowDown" ? 1 : -1;
    const from = at ? Number(at[2]) : state.locked && state.locked.side === "query"
        ? state.locked.index : null;
    state.locked = { side, index: from === null ? query() : (from + step + count) % count };
    paint();
    const chosen = tokenAt(side, state.locked.index);
    if (chosen && at) chosen.focus({ preventScroll: true });
    if (chosen) chosen.scrollIntoView({ block: "nearest" });
  } else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
    state.layer = (state.layer + (event.key === "ArrowRight" ? 1 : -1) + v.layers) % v.layers;
    refresh();
  } else if (/^[1-9]$/.test(event.key) && Number(event.key) <= v.heads) {
    toggle(Number(event.key) - 1);
    refresh();
  }
  else if (key === "a") { everyHead(); refresh(); }
  else if (key === "h" || key === "g" || key === "q") {
    state.mode = { h: "heads", g: "grid", q: "query" }[key];
    refresh();
  }
  else if (key === "d") { dark(!root.classList.contains("dark")); refresh(); }
  else return;
  event.preventDefault();
});

window.addEventListener("resize", paint);
dark(window.matchMedia && window.matchMedia("(prefers-color-scheme: dark)").matches);
show(state.view);
refresh();
