// A cell's code as a text field above the same text in colours.

const WORDS = "False None True and as assert async await break case class continue def del " +
  "elif else except finally for from global if import in is lambda match nonlocal not or pass " +
  "raise return try while with yield";
const PARTS = new RegExp([
  String.raw`(?<comment>#[^\n]*)`,
  String.raw`(?<string>(?:\b[rbfRBF]{1,2})?(?:"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)` +
    String.raw`|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))`,
  String.raw`(?<keyword>\b(?:${WORDS.replaceAll(" ", "|")})\b)`,
  String.raw`(?<number>\b\d[\w.]*)`].join("|"), "g");

// Fills an element with code, in colours.
export function colour(element, code) {
  const parts = [];
  let at = 0;
  for (const found of code.matchAll(PARTS)) {
    const [kind] = Object.entries(found.groups).find(([, text]) => text !== undefined);
    const span = document.createElement("span");
    span.className = kind;
    span.textContent = found[0];
    parts.push(code.slice(at, found.index), span);
    at = found.index + found[0].length;
  }
  element.replaceChildren(...parts, code.slice(at), "\n");
}

// Makes a <pre><code> editable. Returns {field, value, set(code)}; onChange(code) follows edits.
export function editor(pre, label, onChange) {
  const code = pre.firstElementChild, field = document.createElement("textarea");
  Object.assign(field, { value: code.textContent, spellcheck: false, autocomplete: "off",
                         autocapitalize: "off", wrap: "off" });
  field.setAttribute("aria-label", label);
  const box = document.createElement("div");
  box.className = "editor";
  pre.replaceWith(box);
  box.append(pre, field);
  pre.setAttribute("aria-hidden", "true");
  const show = () => colour(code, field.value);
  field.addEventListener("input", () => { show(); onChange(field.value); });
  field.addEventListener("scroll", () => { pre.scrollLeft = field.scrollLeft; });
  field.addEventListener("keydown", (event) => pressed(event, field));
  show();
  return { field, get value() { return field.value; },
           set(text) { field.value = text; show(); } };
}

// Replaces the selection as if it was typed, so that "undo" knows of it.
function type(field, text) {
  if (text ? !document.execCommand("insertText", false, text)
           : !document.execCommand("delete")) {
    field.setRangeText(text, field.selectionStart, field.selectionEnd, "end");
    field.dispatchEvent(new Event("input"));
  }
}

function pressed(event, field) {
  const { value, selectionStart: start, selectionEnd: end } = field;
  const first = value.lastIndexOf("\n", start - 1) + 1, before = value.slice(first, start);
  const wasEscape = field.dataset.escape;
  field.dataset.escape = event.key === "Escape" ? "yes" : "";
  if (event.key === "Tab" && wasEscape) return;         // Escape, then Tab, leaves the field
  if (event.key === "Tab" || (event.key === "/" && (event.ctrlKey || event.metaKey))) {
    event.preventDefault();
    if (event.key === "Tab" && !event.shiftKey && start === end) return type(field, "    ");
    let last = value.indexOf("\n", Math.max(start, end - 1));
    if (last < 0) last = value.length;
    const lines = value.slice(first, last).split("\n");
    const all = lines.every((line) => !line.trim() || /^\s*#/.test(line));
    const changed = lines.map((line) => event.key === "Tab"
      ? (event.shiftKey ? line.replace(/^ {1,4}/, "") : `    ${line}`)
      : !line.trim() ? line
        : all ? line.replace(/^(\s*)# ?/, "$1") : line.replace(/^(\s*)/, "$1# "));
    field.setSelectionRange(first, last);
    type(field, changed.join("\n"));
    field.setSelectionRange(start === end ? field.selectionEnd : first, field.selectionEnd);
  } else if (event.key === "Enter" && !event.shiftKey && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    const indent = before.match(/^ */)[0] + (/:\s*(#.*)?$/.test(before) ? "    " : "");
    type(field, `\n${indent}`);
  } else if (event.key === "Backspace" && start === end && /^ +$/.test(before) &&
             before.length % 4 === 0) {
    event.preventDefault();
    field.setSelectionRange(start - 4, start);
    type(field, "");
  }
}
