"""Texts of a picture that cover others or leave it."""

from matplotlib.text import Text


def drawn_texts(figure, monkeypatch):
    """[(text, extent)] of all texts that are drawn, without slanted ones."""
    found, draw = {}, Text.draw

    def recorded(text, renderer, *arguments, **options):
        found[text] = None
        return draw(text, renderer, *arguments, **options)

    figure.draw_without_rendering()                                   # a first layout
    with monkeypatch.context() as patch:
        patch.setattr(Text, "draw", recorded)
        figure.draw_without_rendering()
    return [(text.get_text(), text.get_window_extent()) for text in found
            if text.get_visible() and text.get_text().strip() and text.get_rotation() % 90 == 0]


def faults(picture, monkeypatch):
    """Pairs of texts that overlap by more than their margins, and texts outside."""
    figure = picture.figure
    while figure.figure is not figure:                                # of subfigures
        figure = figure.figure
    texts = drawn_texts(figure, monkeypatch)
    assert texts
    right, high = figure.bbox.width + 2, figure.bbox.height + 2
    for n, (name, box) in enumerate(texts):
        if box.x0 < -2 or box.y0 < -2 or box.x1 > right or box.y1 > high:
            yield name, "is outside"
        for other, its_box in texts[:n]:
            across = min(box.x1, its_box.x1) - max(box.x0, its_box.x0)
            down = min(box.y1, its_box.y1) - max(box.y0, its_box.y0)
            if across > 1.5 and down > 0.22 * min(box.height, its_box.height):
                yield name, other
