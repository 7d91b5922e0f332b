"""The table of the decks: from every heading of the five decks of lecture notes to the formula, the
code, the picture and the experiment of this project.

`numformer deck` prints it. A deck has a page of rows; its lines are those of the text of the deck,
as in `CONVENTIONS.md`, whose rows on misprints the table names.

Examples
--------
>>> row = DECKS["B"].row_at(131)
>>> row.title
'Rotary positions: products that depend on the distance alone'
>>> row.names("picture")
['figures/rotary_proof.png', 'plots.rotary_proof']
"""

from numformer.teaching.deck import deck_a, deck_b, deck_c, deck_d, deck_e
from numformer.teaching.deck.row import Deck, Row

DECKS = {deck.letter: deck for deck in (
    Deck("A", "Attention and Transformers: from recurrent networks to mixtures of experts", 552,
         (1, 7, 15, 29, 47, 55, 103, 184, 216, 222, 226, 232, 246, 254, 260, 268, 351, 356, 404,
          414, 465, 487, 509, 518, 538), deck_a.ROWS),
    Deck("B", "Attention and Transformers: Fundamentals and Applications of LLMs (INFO-I590)", 620,
         (1, 13, 22, 34, 43, 60, 69, 83, 100, 116, 122, 129, 139, 149, 167, 181, 191, 197, 203,
          214, 222, 225, 228, 234, 246, 258, 270, 302, 320, 330, 378, 408, 419, 423, 437, 444,
          454, 466, 473, 483, 497, 508, 527, 541, 547, 550, 554, 563, 570, 584, 592, 600, 605,
          620), deck_b.ROWS),
    Deck("C", "Attention and Transformers: HPC-AI Lab of NUS", 782,
         (3, 11, 34, 49, 57, 77, 95, 106, 116, 124, 130, 136, 143, 162, 171, 178, 219, 234, 259,
          269, 294, 298, 327, 337, 356, 374, 403, 418, 431, 470, 483, 598, 616, 638, 648, 703,
          746, 754, 759, 765, 772, 782), deck_c.ROWS),
    Deck("D", "Attention Is All You Need: the Transformer from first principles", 534,
         (3, 16, 87, 146, 222, 266, 330, 346, 370, 441, 455, 490, 530), deck_d.ROWS),
    Deck("E", "Attention Layer, Attention Is All You Need (2017), BERT, GPT", 1149,
         (3, 15, 137, 587, 649, 681, 693, 724, 768, 778, 787, 802, 819, 878, 888, 897, 973, 982,
          994, 1006, 1011, 1015, 1021, 1026, 1048, 1056, 1066, 1073, 1089, 1093, 1100, 1104, 1119,
          1127, 1135, 1143), deck_e.ROWS),
)}

__all__ = ["DECKS", "Deck", "Row"]
