"""Decks of slides in a headless browser, at the size of a projector: what does not fit, and sheets

`findings` measures every slide of a page that slides.py has written, all fragments shown; `sheets`
puts them on pictures. Both need Chromium with its driver, and selenium.
"""

import io
from shutil import which

FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--hide-scrollbars", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-quic",
         "--host-resolver-rules=MAP * ~NOTFOUND")                    # no network
WIDTH, HEIGHT = 1280, 720
# Smallest fonts, in pixels of a window 1280 wide: 18 points on a slide 13.33 inches wide; code
TEXT, CODE = 24, 16

READY = r"""
const done = arguments[arguments.length - 1];
const wait = () => {
  const modules = window.require && require.s ? require.s.contexts._.defined : {};
  window.Reveal = modules[Object.keys(modules).find(name => /reveal\.js$/.test(name))];
  if (!(window.Reveal && Reveal.isReady() && window.MathJax && MathJax.isReady))
    return setTimeout(wait, 20);
  MathJax.Hub.Queue(() => document.fonts.ready.then(() => done(true)));
};
wait();
"""
# A page typesets a slide's formulas when it comes, since those of a hidden slide have wrong sizes.
# Here all are typeset once, with all slides laid out, which takes half the time.
LAID_OUT = """
document.addEventListener('DOMContentLoaded', () => document.head.insertAdjacentHTML('beforeend',
    '<style id="laid-out">.reveal .slides section { display: block !important; }</style>'));
"""
SHOW = """
document.getElementById('laid-out')?.remove();
MathJax.Hub.Rerender = () => {};
function show(slide) {
  const {h, v} = Reveal.getIndices(slide);
  Reveal.slide(h, v);
  for (const step of slide.querySelectorAll('.fragment')) {
    step.style.transition = 'none';
    step.classList.add('visible');
  }
}
"""
MEASURE = SHOW + r"""
const [TEXT, CODE] = arguments;
const inside = (node, names) => node.closest(names);
const hidden = 'aside, .MJX_Assistive_MathML, script, style, .MathJax_Preview';
const flat = 'h1, h2, h3, p, li, td, th, pre, img, svg, .mjx-chtml, summary';
const box = rects => ({left: Math.min(...rects.map(r => r.left)),
                       right: Math.max(...rects.map(r => r.right)),
                       top: Math.min(...rects.map(r => r.top)),
                       bottom: Math.max(...rects.map(r => r.bottom))});
const drawn = node => node.getClientRects().length > 0;
const words = text => text.replace(/\s+/g, ' ').trim().slice(0, 40);

function atoms(slide) {                     // [element, its box, its text] of all that is seen
  const found = new Map();
  const add = (element, rects) =>
      found.set(element, [...(found.get(element) || []), ...rects.filter(r => r.width)]);
  const walk = document.createTreeWalker(slide, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode, parent = node.parentElement;
    if (!node.data.trim() || inside(parent, hidden) || inside(parent, '.mjx-chtml')) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    add(parent.closest(flat) || parent, [...range.getClientRects()]);
  }
  for (const picture of slide.querySelectorAll('img, svg, .mjx-chtml'))
    if (!inside(picture, hidden) && drawn(picture)) {
      const inner = picture.querySelector('.mjx-math') || picture;
      add(picture, [inner.getBoundingClientRect()]);
    }
  return [...found].filter(([, rects]) => rects.length)
    .map(([element, rects]) => [element, box(rects), words(element.textContent)
                                || element.tagName.toLowerCase()]);
}

function problems(slide) {
  const said = [], W = innerWidth, H = innerHeight, all = atoms(slide);
  const scale = Reveal.getScale() * 1280 / W;
  for (const [element, at, text] of all) {
    if (at.bottom > H + 1)
      said.push(`cut at the bottom (${Math.round(at.bottom)} of ${H}): ${text}`);
    if (at.right > W + 1)
      said.push(`cut at the right (${Math.round(at.right)} of ${W}): ${text}`);
    if (at.left < -1 || at.top < -1) said.push(`cut at the left or top: ${text}`);
    for (let up = element; up !== slide; up = up.parentElement) {
      const style = getComputedStyle(up), edge = up.getBoundingClientRect();
      if (style.overflowX !== 'visible' && at.right > edge.right + 2)
        { said.push(`cut at the right (of its box): ${text}`); break; }
      if (style.overflowY !== 'visible' && at.bottom > edge.bottom + 2)
        { said.push(`cut at the bottom (of its box): ${text}`); break; }
    }
  }
  all.forEach(([one, a, text], place) => all.slice(place + 1).forEach(([other, b, more]) => {
    if (one.contains(other) || other.contains(one)) return;
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 3 && high > 6) said.push(`overlap: ${text} | ${more}`);
  }));
  const heading = slide.querySelector('h1, h2, h3');
  if (all.every(([element]) => element.matches('h1, h2, h3')))
    said.push(!heading ? 'empty slide' : /Summary/.test(heading.textContent) ? 'empty summary'
              : `heading alone: ${words(heading.textContent)}`);
  for (const element of slide.querySelectorAll('*')) {
    if (inside(element, hidden + ', .mjx-chtml, svg, table') || element.matches('hr, br')) continue;
    const at = element.getBoundingClientRect(), style = getComputedStyle(element);
    const paper = style.backgroundColor, line = parseFloat(style.borderTopWidth);
    const seen = line || !/, 0\)$|transparent|rgb\(255, 255, 255\)/.test(paper);
    if (seen && at.width > 8 && at.height > 8 &&
        !all.some(([atom]) => element.contains(atom) ||
                  atom.contains(element) && element.textContent.trim())) said.push('empty box');
  }
  const small = new Set();
  const walk = document.createTreeWalker(slide, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    let parent = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || inside(parent, hidden) || !drawn(parent)) continue;
    parent = parent.closest('.mjx-chtml') || parent;      // of a formula the base, not its indices
    const size = parseFloat(getComputedStyle(parent).fontSize) * scale;
    const least = inside(parent, 'pre, code, .code') ? CODE : TEXT;
    if (size < least - 0.1) small.add(`small text (${size.toFixed(0)} px): ` +
        words((parent.closest(flat) || parent).textContent));
  }
  said.push(...small);
  if (slide.querySelector('.mjx-merror, .mjx-noError, [style*="color: red"]'))
    said.push('MathJax error');
  for (const part of slide.querySelectorAll('p, li, td, h1, h2, h3'))
    if (!inside(part, hidden) && [...part.childNodes].some(
        node => node.nodeType === 3 && /\$/.test(node.data) ))
      said.push(`formula not typeset: ${words(part.textContent)}`);
  return [...new Set(said)];
}

const found = [];
for (const [number, slide] of Reveal.getSlides().entries()) {
  show(slide);
  for (const said of problems(slide)) found.push([number, said]);
}
return [Reveal.getTotalSlides(), found];
"""


def opened():
    """Headless Chromium without a network, or None where selenium or a browser is missing."""
    binary, driver = which("chromium") or which("chromium-browser"), which("chromedriver")
    try:
        from selenium import webdriver
    except ImportError:
        return None
    if not (binary and driver):
        return None
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in FLAGS:
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options,
                               service=webdriver.ChromeService(executable_path=driver))
    browser.set_script_timeout(120)
    browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": LAID_OUT})
    return browser


def load(browser, page, width=WIDTH, height=HEIGHT):
    """Opens a page of slides in a window of this inner size; all formulas are typeset."""
    resize(browser, width, height)
    browser.get(page.resolve().as_uri())
    browser.execute_async_script(READY)


def resize(browser, width, height):
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})


def findings(browser):
    """(number of slides, list of (slide, what is wrong with it)) of the page that is open.

    Wrong is what is cut off, overlaps, is too small to read, or is empty.
    """
    count, found = browser.execute_script(MEASURE, TEXT, CODE)
    return count, [tuple(pair) for pair in found]


def sheets(browser, columns=4, rows=5, width=480):
    """Pictures (PIL.Image) of all slides of the page that is open, columns x rows on each."""
    import base64

    from PIL import Image

    height, made = width * HEIGHT // WIDTH, []
    total = browser.execute_script("return Reveal.getTotalSlides()")
    for number in range(total):
        browser.execute_script(SHOW + "show(Reveal.getSlides()[arguments[0]])", number)
        shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]
        place = number % (columns * rows)
        if place == 0:
            made.append(Image.new("RGB", (columns * (width + 6), rows * (height + 6)), "gray"))
        slide = Image.open(io.BytesIO(base64.b64decode(shot))).convert("RGB")
        made[-1].paste(slide.resize((width, height), Image.Resampling.LANCZOS),
                       (place % columns * (width + 6) + 3, place // columns * (height + 6) + 3))
    return made
