"""The table of the decks: from every slide of the five decks of lecture notes to the formula, the
code, the picture and the experiment of this project.

`numformer deck` prints it. A deck has a page of data, ``a.toml`` to ``e.toml``; its lines are those
of the text of the deck, as in `CONVENTIONS.md`, whose rows on misprints the table names.

Examples
--------
>>> row = DECKS["B"].row_at(131)
>>> row.title
'Rotary positions: products that depend on the distance alone'
>>> row.picture
('figures/rotary_proof.png',)
"""

from numformer.teaching.deck.row import Deck, Row, Slide, Slip

DECKS = {letter: Deck.load(letter) for letter in "ABCDE"}

__all__ = ["DECKS", "Deck", "Row", "Slide", "Slip"]
