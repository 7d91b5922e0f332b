// Elements, colours, maps, and lists of tokens: what all views are built of.

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

// ---- colours ----------------------------------------------------------------------------------

const mixed = (low, high, x) => low.map((c, k) => Math.round(c + x * (high[k] - c)));
const clipped = (x, least, most) => Math.min(Math.max(x, least), most);

// from the ground at 0 to blue at 1
const sequential = (x) => palette(BLUE)[Math.round(255 * clipped(x, 0, 1))];

// blue at -1, the ground at 0, orange at 1
const signed = (x) => palette(x < 0 ? BLUE : ORANGE)[Math.round(255 * Math.min(Math.abs(x), 1))];

// 256 colours from the ground, made once: a map looks its colours up
const palettes = new Map();

function palette(end) {
  const to = shade(end);
  if (!palettes.has(to)) palettes.set(to, Array.from({ length: 256 },
      (_, k) => mixed(shade(GROUND), to, k / 255)));
  return palettes.get(to);
}
const css = ([r, g, b]) => "rgb(" + r + ", " + g + ", " + b + ")";

// text on a colour: black or white, whichever differs more
const inkOn = ([r, g, b]) => (0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#1b1f24" : "#ffffff");

// Write into the page only what differs: it is laid out again after every change.
function write(node, words) {
  if (node.textContent !== words) node.textContent = words;
}

function mark(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

// A canvas with one pixel a number; `colour(x, y)` returns [r, g, b].
function pixels(canvas, width, height, colour) {
  canvas.width = width; canvas.height = height;
  const context = canvas.getContext("2d"), picture = context.createImageData(width, height);
  for (let y = 0, at = 0; y < height; y++) for (let x = 0; x < width; x++, at += 4) {
    const [r, g, b] = colour(x, y);
    picture.data[at] = r; picture.data[at + 1] = g; picture.data[at + 2] = b;
    picture.data[at + 3] = 255;
  }
  context.putImageData(picture, 0, 0);
}

const largest = (x) => { let top = 1e-12; for (const each of x) top = Math.max(top, Math.abs(each));
  return top; };

// a vector as coloured cells, whose numbers are its label
function strip(parent, vector, top) {
  const label = [...vector].map((x) => x.toFixed(3)).join(" ");
  const canvas = make("canvas", { style: "width:" + Math.min(5 * vector.length, 160) + "px",
      role: "img", "aria-label": label, title: label }, parent);
  pixels(canvas, vector.length, 1, (x) => signed(vector[x] / top));
}

// The row and column of a map under the pointer, as text below it
function followPointer(canvas, width, height, line, words) {
  canvas.addEventListener("mousemove", (event) => {
    const box = canvas.getBoundingClientRect();
    const at = (x, start, size, n) => clipped(Math.floor((x - start) / size * n), 0, n - 1);
    line.textContent = words(at(event.clientY, box.top, box.height, height),
        at(event.clientX, box.left, box.width, width));
  });
}

// ---- tokens -----------------------------------------------------------------------------------

function tokens(side, labels, parent, title) {
  const list = make("ol", { class: side === "query" ? "queries" : "keys", role: "listbox",
      "aria-label": side === "query" ? "queries" : "keys", "data-title": title }, parent);
  labels.forEach((label, index) => {
    const item = make("li", { role: "option", tabindex: index === 0 ? "0" : "-1",
        "aria-selected": "false", title: label,
                              "data-at": side + "-" + index }, list);
    make("span", {}, item, label);
    make("b", {}, item, "");
    if (state.mode === "heads") {
      item.addEventListener("mouseenter", () => point(side, index));
      item.addEventListener("mouseleave", () => point(null));
    }
    item.addEventListener("click", () => lock(side, index));
    item.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      lock(side, index);
    });
  });
  return list;
}

const tokenAt = (side, index) => root.querySelector('[data-at="' + side + "-" + index + '"]');

// Tab reaches one token of a list: the chosen one
function rove(list, index) {
  [...list.children].forEach((each, k) => mark(each, "tabindex", k === index ? "0" : "-1"));
}
