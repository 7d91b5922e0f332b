"""Fonts of a few letters, made for a test, and the fonts of matplotlib alone."""

from contextlib import contextmanager
from pathlib import Path

import matplotlib
from matplotlib.font_manager import fontManager


def made_font(path, family, letters):
    """Write a font in which each letter is a square one em wide."""
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.ttGlyphPen import TTGlyphPen

    pen, blank = TTGlyphPen(None), TTGlyphPen(None).glyph()
    pen.moveTo((100, 0))
    for corner in ((900, 0), (900, 800), (100, 800)):
        pen.lineTo(corner)
    pen.closePath()
    square, names = pen.glyph(), {ord(letter): f"u{ord(letter):04X}" for letter in letters}
    font = FontBuilder(1000, isTTF=True)
    font.setupGlyphOrder([".notdef", *names.values()])
    font.setupCharacterMap(names)
    font.setupGlyf({".notdef": blank, **dict.fromkeys(names.values(), square)})
    font.setupHorizontalMetrics({name: (1000, 0) for name in (".notdef", *names.values())})
    font.setupHorizontalHeader(ascent=900, descent=-100)
    font.setupNameTable({"familyName": family, "styleName": "Regular"})
    font.setupOS2()
    font.setupPost()
    font.save(path)
    return path


@contextmanager
def fonts_of_matplotlib():
    """Inside, matplotlib knows its own fonts alone; fonts that are added are forgotten later."""
    before, own = fontManager.ttflist, Path(matplotlib.get_data_path())
    fontManager.ttflist = [entry for entry in before if own in Path(entry.fname).parents]
    try:
        yield
    finally:
        fontManager.ttflist = before
