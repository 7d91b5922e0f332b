// The current view as a picture: SVG with text as text, or PNG drawn from it. Nothing is fetched.

const XML = (value) => String(value).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;",
  ">": "&gt;", '"': "&quot;" })[c]);

const GAP = 10;                                                         // pixels around the parts

// The title, tokens and message one below the other, then the stage next to the next token
function viewAsSvg() {
  const side = root.querySelector(".prediction"), rows = [["h1"], [".chips"], [".message"]];
  if (side && side.getBoundingClientRect().left < stage.getBoundingClientRect().right) {
    rows.push([".stage"], [".prediction"]);                             // a narrow window
  } else rows.push([".stage", ".prediction"]);
  root.classList.add("saving");                                         // nothing scrolls
  const parts = [], left = root.getBoundingClientRect().left + GAP;
  let width = 0, height = GAP;
  for (const names of rows) {
    const areas = names.map((name) => root.querySelector(name)).filter(
        (area) => area && !area.hidden && area.offsetHeight);
    if (!areas.length) continue;
    const boxes = areas.map((area) => area.getBoundingClientRect());
    areas.forEach((area, k) => drawElement(area, left, boxes[k].top - height, parts));
    width = Math.max(width, ...areas.map((area, k) => boxes[k].left + area.scrollWidth - left));
    height += Math.max(...boxes.map((box) => box.height)) + GAP;
  }
  root.classList.remove("saving");
  width = Math.ceil(width + GAP);
  height = Math.ceil(height);
  return { width, height, source: '<svg xmlns="' + SVG_NAME + '" width="' + width + '" height="'
      + height + '" viewBox="0 0 ' + width + " " + height + '" font-family="system-ui, sans-serif">'
      + '<rect width="100%" height="100%" fill="' + css(shade(GROUND)) + '"/>' + parts.join("")
      + "</svg>" };
}

// The namespace of SVG, which the browser knows
const SVG_NAME = new DOMParser().parseFromString("<svg></svg>", "text/html").querySelector("svg")
    .namespaceURI;

function drawElement(node, left, top, parts) {
  const style = getComputedStyle(node), box = node.getBoundingClientRect();
  if (style.display === "none" || style.visibility === "hidden" || !box.height) return;
  const x = box.left - left, y = box.top - top;
  if (style.backgroundColor !== "rgba(0, 0, 0, 0)" && node !== root) {
    parts.push(rectangle(x, y, box.width, box.height, style.backgroundColor, "none",
        parseFloat(style.borderRadius) || 0));
  }
  if (parseFloat(style.borderTopWidth) > 0 && style.borderTopStyle !== "none") {
    parts.push(rectangle(x, y, box.width, box.height, "none", style.borderTopColor,
        parseFloat(style.borderRadius) || 0));
  }
  if (style.borderTopStyle === "none" && style.borderLeftStyle === "solid") {       // a mark
    parts.push(rectangle(x, y, 2, box.height, style.borderLeftColor, "none", 0));
  }
  if (node.dataset.title) parts.push(textAt(node.dataset.title, x + 6, y + 16, 15, style));
  if (node.tagName === "SELECT") {
    parts.push(textAt(node.selectedOptions[0].text, x + 6, y + 0.7 * box.height, 15, style));
    return;
  }
  if (node.tagName === "CANVAS") {
    if (node.parentNode.classList.contains("columns")) drawn.forEach((each) => parts.push(
        lineOf(each, x, y)));
    else parts.push('<image x="' + x + '" y="' + y + '" width="' + box.width + '" height="'
        + box.height + '" preserveAspectRatio="none" style="image-rendering:pixelated" href="'
        + enlarged(node, box) + '"/>');
    return;
  }
  for (const child of node.childNodes) {
    if (child.nodeType === Node.ELEMENT_NODE) drawElement(child, left, top, parts);
    else if (child.nodeType === Node.TEXT_NODE) drawText(child, style, left, top, parts);
  }
}

function rectangle(x, y, width, height, fill, stroke, radius) {
  return '<rect x="' + x + '" y="' + y + '" width="' + width + '" height="' + height + '" rx="'
      + radius + '" fill="' + fill + '" stroke="' + stroke + '"/>';
}

function lineOf(each, x, y) {
  return '<line x1="' + (x + each.x1) + '" y1="' + (y + each.y1) + '" x2="' + (x + each.x2)
      + '" y2="' + (y + each.y2) + '" stroke="' + each.colour + '" stroke-width="' + each.width
      + '" stroke-opacity="' + each.alpha + '" stroke-dasharray="' + each.dash.join(" ") + '"/>';
}

// A map with whole pixels for every number: some viewers would blur a small picture
function enlarged(canvas, box) {
  const big = document.createElement("canvas");
  big.width = 2 * Math.round(box.width);
  big.height = 2 * Math.round(box.height);
  const context = big.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(canvas, 0, 0, big.width, big.height);
  return big.toDataURL();
}

// Text line by line, as the browser broke it: letters of several code units stay whole, and a line
// begins at its left end also where it runs from right to left
function drawText(node, style, left, top, parts) {
  if (!node.data.trim()) return;
  const range = document.createRange(), lines = [];
  let end = 0;
  for (const letter of lettersOf(node.data)) {
    range.setStart(node, end);
    range.setEnd(node, end += letter.length);
    const box = range.getClientRects()[0];
    if (!box || !box.width) continue;
    const last = lines[lines.length - 1];
    if (last && Math.abs(last.box.top - box.top) < 2) {
      last.text += letter;
      last.left = Math.min(last.left, box.left);
    } else lines.push({ box, left: box.left, text: letter });
  }
  const size = parseFloat(style.fontSize);
  for (const { box, left: start, text: words } of lines) {
    parts.push(textAt(words, start - left, box.top - top + 0.78 * box.height, size, style));
  }
}

const lettersOf = (text) => (window.Intl && Intl.Segmenter
    ? [...new Intl.Segmenter().segment(text)].map((each) => each.segment) : [...text]);

function textAt(words, x, y, size, style) {
  return '<text x="' + x + '" y="' + y + '" font-size="' + size + '" font-weight="'
      + style.fontWeight + '" fill="' + style.color + '" xml:space="preserve">' + XML(words)
      + "</text>";
}

// ---- saving -----------------------------------------------------------------------------------

function download(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

async function saveView(kind) {
  const { width, height, source } = viewAsSvg();
  const svg = new Blob([source], { type: "image/svg+xml" }), name = "numformer-" + state.mode;
  if (kind === "SVG") { download(svg, name + ".svg"); return; }
  const picture = new Image(), address = URL.createObjectURL(svg);
  picture.src = address;
  await picture.decode();
  const canvas = make("canvas", { width: 2 * width, height: 2 * height });
  canvas.getContext("2d").drawImage(picture, 0, 0, 2 * width, 2 * height);
  URL.revokeObjectURL(address);
  canvas.toBlob((blob) => download(blob, name + ".png"), "image/png");
}
