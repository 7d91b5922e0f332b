// The frame of the page: controls, the active token, keys, and the start.

make("h1", {}, root, data.title);
if (data.note) make("p", { class: "note", role: "note" }, root, data.note);
if (data.live) buildLive();
const body = make("div", { class: "body" }, root);
const main = make("div", { class: "main" }, body);
const controls = make("div", { class: "controls" }, main);
const message = make("p", { class: "message", "aria-live": data.live ? "off" : "polite" }, main);
const pair = make("div", { class: "pair" }, main), stage = make("div", { class: "stage" }, pair);
const details = make("details", data.live ? {} : { open: "" }, data.live ? main : pair);
make("summary", {}, details, "Attention weights as a table");
const table = make("table", { class: "numbers" }, details);
details.addEventListener("toggle", () => paintTable());
if (data.live) buildPrediction(body);
make("p", { class: "help" }, root,
     "Point at a token to see its attention weights; click to lock it, Esc to unlock. "
     + "Up and down: next token; left and right: next layer; 1 to 9: a head; A: all heads; "
     + Object.keys(MODES).map((mode) => mode[0].toUpperCase() + ": " + mode).join(", ")
     + "; D: dark or light. "
     + "The opacity of a line is its weight relative to the largest.");

function buildControls() {
  controls.textContent = "";
  const v = view(), modes = Object.keys(MODES), shown = MODES[state.mode];
  if (views.length > 1) choices("attention", controls, views.map((each) => each.name),
      (k) => k === state.view, (k) => show(k));
  choices("view", controls, modes, (k) => modes[k] === state.mode,
          (k) => { state.mode = modes[k]; });
  if (shown.head) {
    choices("layer", controls, numbered(v.layers), (k) => k === state.layer,
            (k) => { state.layer = k; },
            (k) => "layer " + (k + 1));
    const set = choices("head", controls, numbered(v.heads), (k) => heads().includes(k), toggle,
        (k) => "head " + (k + 1));
    [...set.querySelectorAll("button")].forEach((button, k) => {
      button.style.borderBottom = "3px " + BORDERS[dash(k)] + " " + colour(k);
    });
    if (shown.head === "many") {
      const more = make("button", { type: "button", "data-at": "all heads" }, set, "all");
      more.addEventListener("click", () => { everyHead(); refresh(); });
    }
  }
  const last = make("fieldset", {}, controls);
  const theme = make("button", { type: "button", "data-at": "theme" }, last,
      isDark() ? "light" : "dark");
  theme.addEventListener("click", () => { dark(!isDark()); refresh(); });
  for (const kind of ["SVG", "PNG"]) {
    const save = make("button", { type: "button", "data-at": "save-" + kind,
        "aria-label": "save this view as " + kind }, last, kind);
    save.addEventListener("click", () => saveView(kind));
  }
}

function everyHead() { state.heads = new Set(Array(view().heads).keys()); }

function toggle(head) {
  const all = state.heads.size === view().heads && view().heads > 1;
  if (all || MODES[state.mode].head === "one") state.heads = new Set([head]);   // this head alone
  else if (state.heads.has(head) && state.heads.size > 1) state.heads.delete(head);
  else state.heads.add(head);
}

function show(index) {
  state.view = index;
  state.hover = state.locked = null;
  state.layer = views[index].layers - 1;
  everyHead();
}

// ---- painting ---------------------------------------------------------------------------------

function buildStage() {
  stage.textContent = "";
  stage.dataset.mode = state.mode;
  MODES[state.mode].build();
  buildImage();
}

function paint() {
  keepFocus(() => {
    if (MODES[state.mode].rebuilt) buildStage();
    else if (MODES[state.mode].paint) MODES[state.mode].paint();
    paintImage();
    message.hidden = details.hidden = !MODES[state.mode].attention;
    if (MODES[state.mode].attention) paintTable();
    if (data.live) paintPrediction();
  });
}

// The view of another text: the controls stay, and so does the frame of the grid
function repaint() {
  keepFocus(() => {
    if (state.mode === "grid") repaintMaps();
    else if (!MODES[state.mode].rebuilt) buildStage();
    paint();
  });
}

function refresh() {
  if (state.mode === "query" && active() && active().side === "key") {
    state.locked = state.hover = null;                              // this view needs a query
  }
  keepFocus(() => {
    buildControls();
    if (!MODES[state.mode].rebuilt) buildStage();
    paint();
  });
}

// An element that is rebuilt keeps the focus; if it is gone, the button of the view gets it.
function keepFocus(work) {
  const at = document.activeElement && document.activeElement.dataset
      ? document.activeElement.dataset.at : undefined;
  work();
  if (at === undefined || document.activeElement.dataset.at === at) return;
  const again = root.querySelector('[data-at="' + at + '"]')
      || root.querySelector('[data-at="view-' + state.mode + '"]');
  if (again) again.focus({ preventScroll: true });
}

function dark(on) {
  root.classList.toggle("dark", on);
  document.body.classList.toggle("nf-dark", on);
  if (data.live && run) buildChips();
}

// ---- the active token -------------------------------------------------------------------------

function point(side, index) {
  if (MODES[state.mode].still) return;
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

const writes = (node) => node && /^(TEXTAREA|INPUT|SELECT)$/.test(node.tagName);

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (writes(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const v = view(), key = event.key.toLowerCase();
  const mode = Object.keys(MODES).find((each) => each[0] === key);
  if (event.key === "Escape") { state.locked = state.hover = null; refresh(); }
  else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    moveToken(event.key === "ArrowDown" ? 1 : -1);
  } else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
    state.layer = (state.layer + (event.key === "ArrowRight" ? 1 : -1) + v.layers) % v.layers;
    refresh();
  } else if (/^[1-9]$/.test(event.key) && Number(event.key) <= v.heads) {
    toggle(Number(event.key) - 1);
    refresh();
  }
  else if (key === "a") { everyHead(); refresh(); }
  else if (mode) { state.mode = mode; refresh(); }
  else if (key === "d") { dark(!isDark()); refresh(); }
  else return;
  event.preventDefault();
});

// The next or the previous token of the list that has the focus, or else of the queries
function moveToken(step) {
  const focused = document.activeElement && document.activeElement.dataset.at, v = view();
  const at = /^(query|key|token)-([0-9]+)$/.exec(focused || "");
  const list = at ? at[1] : "query", side = list === "key" ? "key" : "query";
  const count = side === "query" ? v.T : v.S;
  const from = at ? Number(at[2]) : state.locked && state.locked.side === "query"
      ? state.locked.index : null;
  state.locked = { side, index: from === null ? query() : (from + step + count) % count };
  paint();
  const chosen = tokenAt(list, state.locked.index) || tokenAt("token", state.locked.index);
  if (chosen && at) chosen.focus({ preventScroll: true });
  if (chosen) chosen.scrollIntoView({ block: "nearest" });
}

window.addEventListener("resize", () => { if (MODES[state.mode].paint) paint(); });
dark(window.matchMedia && window.matchMedia("(prefers-color-scheme: dark)").matches);
if (data.live) startLive();
show(views.length - 1);
refresh();
