// A lesson's page: cells that can be edited and run, kept edits, and the buttons above.

import { editor } from "./editor.js";
import { Python } from "./python.js";

const main = document.querySelector("main"), lesson = main.dataset.lesson;
const header = document.querySelector("header");

// What this browser keeps; a browser that keeps nothing still shows and runs the page.
const kept = {
  name: (kind, key) => `numformer ${kind} ${lesson} ${key}`,
  get(kind, key) {
    try { return JSON.parse(localStorage.getItem(this.name(kind, key))); } catch { return null; }
  },
  set(kind, key, value) {
    try { localStorage.setItem(this.name(kind, key), JSON.stringify(value)); } catch { /* full */ }
  },
  forget(kind, key) {
    try { localStorage.removeItem(this.name(kind, key)); } catch { /* nothing is kept */ }
  },
  keys(kind) {
    const start = this.name(kind, "");
    try {
      return Object.keys(localStorage).filter((name) => name.startsWith(start))
        .map((name) => name.slice(start.length));
    } catch { return []; }
  },
};

const make = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};
const button = (words, click, properties = {}) =>
  make("button", { type: "button", textContent: words, ...properties, onclick: click });

const status = make("span", { id: "status" });
status.setAttribute("role", "status");
const say = (words) => { status.textContent = words; };

class Cell {
  constructor(element) {
    this.element = element;
    this.key = element.dataset.key;
    this.number = Number(element.dataset.number);
    this.place = Number(element.id.slice("cell-".length));
    this.output = element.querySelector(".output");
    this.original = element.querySelector("code").textContent;
    this.editor = editor(element.querySelector("pre.code"), `Code of cell ${this.number}`,
                         () => this.edited());
    this.editor.field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.shiftKey || event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        run([this]);
        if (event.shiftKey) cells[cells.indexOf(this) + 1]?.editor.field.focus();
      }
    });
    this.reset = button("Reset", () => { this.editor.set(this.original); this.edited(); },
                        { title: "The cell as the lesson has it" });
    this.note = make("span", { className: "note" });
    this.bar = make("div", { className: "bar" },
      button("Run", () => run([this]), { className: "run", title: "Ctrl and Enter" }),
      button("Run to here", () => run(cells.slice(0, cells.indexOf(this) + 1)),
             { title: "All cells up to this one" }), this.reset);
    const { check } = element.dataset;
    if (check) {
      for (const name of ["hint", "solution"]) {
        this.bar.append(button(name[0].toUpperCase() + name.slice(1), () => this.ask(name, check)));
      }
    }
    this.bar.append(this.note);
    this.output.before(this.bar);
    const edit = kept.get("edit", this.key);
    if (edit) this.editor.set(edit.code);
    this.edited();
  }

  edited() {
    const { value } = this.editor, changed = value !== this.original;
    this.reset.hidden = !changed;
    this.element.classList.toggle("changed", changed);
    if (changed) kept.set("edit", this.key, { code: value, number: this.number });
    else kept.forget("edit", this.key);
  }

  show(kind, text) {
    let last = this.output.lastElementChild;
    if (kind === "text") {
      if (last?.className !== "printed") {
        last = make("pre", { className: "printed" });
        this.output.append(last);
      }
      const [first, ...later] = (last.textContent + text).split("\r\n").join("\n").split("\r");
      last.textContent = later.reduce(                     // a bar of progress writes over its line
        (all, part) => part.startsWith("\n") ? all + part
          : all.slice(0, all.lastIndexOf("\n") + 1) + part, first);
    } else if (kind === "html") {
      this.output.append(make("div", { className: "html", innerHTML: text }));
    } else if (kind === "png") {
      this.output.append(make("img", { src: `data:image/png;base64,${text}`,
                                       alt: "Picture drawn by this cell" }));
    } else this.output.append(make("pre", { className: "error", textContent: text }));
  }

  // Runs this cell, or other code whose output it shows. Returns whether it ended well.
  async run(code = this.editor.value) {
    const own = code === this.editor.value;
    if (own) this.output.replaceChildren();
    this.element.classList.add("running");
    this.note.textContent = "";
    const started = performance.now();
    let result;
    try {
      result = await python.run(code, own ? this.number : 0, (...shown) => this.show(...shown));
      this.note.textContent = `${result.ok ? "ran" : "ended"} after ` +
        `${((performance.now() - started) / 1000).toFixed(1)} s`;
    } catch (error) {                                   // Python could not be started
      this.show("error", error.message);
      result = { ok: false };
    }
    this.element.classList.remove("running");
    if (own && result.right) kept.set("right", this.key, true);
    return result.ok;
  }

  async ask(name, check) {
    if (running) return;
    const code = `from numformer import ${name}\n${name}(${JSON.stringify(check)})`;
    await during(() => this.run(code));
  }
}

let running = false;

async function during(work) {
  running = true;
  document.body.classList.add("busy");
  stop.disabled = false;
  say(python.isReady ? "Running" : "Loading Python");
  try { return await work(); } finally {
    running = false;
    document.body.classList.remove("busy");
    stop.disabled = true;
    if (python.isReady) say("Ready");
  }
}

// Runs cells one after another until one fails.
async function run(chosen) {
  if (running) return;
  await during(async () => {
    for (const cell of chosen) {
      say(`Running cell ${cell.number}`);
      if (!await cell.run()) break;
    }
  });
  (await navigator.serviceWorker?.getRegistration())?.active?.postMessage("keep");
}

async function download() {
  const notebook = await (await fetch(`notebooks/${lesson}.ipynb`,
                                      { cache: "no-cache" })).json();
  for (const cell of cells) notebook.cells[cell.place].source = cell.editor.value;
  const url = URL.createObjectURL(new Blob([JSON.stringify(notebook, null, 1)],
                                           { type: "application/x-ipynb+json" }));
  make("a", { href: url, download: `${lesson}.ipynb` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// Edits of cells that the lesson has no more: it was corrected. They are shown, and hide nothing.
function older() {
  const present = new Set(cells.map((cell) => cell.key));
  const keys = kept.keys("edit").filter((key) => !present.has(key));
  if (!keys.length) return;
  const box = make("details", { className: "older" },
    make("summary", { textContent: "Your changes to cells that have been corrected since" }));
  for (const key of keys) {
    const { code, number } = kept.get("edit", key) || {};
    const one = make("div", {}, make("p", { textContent: `It was cell ${number}.` }),
                     make("pre", { textContent: code }));
    one.append(button("Forget it", () => { kept.forget("edit", key); one.remove(); }));
    box.append(one);
  }
  main.append(box);
}

const settings = await (await fetch(new URL("settings.json", import.meta.url))).json();
const python = new Python(settings, { status: (words) => running && say(words), lost: say });
const stop = button("Stop", () => python.stop(), { disabled: true });
const cells = [...document.querySelectorAll(".cell")].map((element) => new Cell(element));

header.append(make("div", { className: "tools" }, button("Run all", () => run(cells)), stop,
                   button("Download", download,
                            { title: "This lesson with your code, as a notebook" })),
              status);
older();
if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))
  ?.scrollIntoView();
document.body.classList.add("runs");
navigator.serviceWorker?.register("offline.js");
