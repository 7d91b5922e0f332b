"""Scenes around ambiguous words: the same frame for every sense, and a clue in the sentence before
or after it.

The words next to the ambiguous one are the same for all its senses, so that only the context tells
which sense it has. Frames and clues are templates of `Teller.tell`; ``@`` is the ambiguous word
with its sense.
"""

from typing import NamedTuple


class Scene(NamedTuple):
    """An ambiguous word, frames for it, and the clues of each sense.

    The frame and the clue come in either order, unless `clue_first`: then a frame may refer to
    what the clue mentions.
    """

    word: str
    frames: tuple
    clues: dict
    clue_first: bool = False


SCENES = (
    Scene("bank",
          ("{a} walked to the @ and stayed there for a long time .",
           "{a} and {b} met at the @ in the afternoon .",
           "in the afternoon {a} waited for {b} near the @ ."),
          {"river": ("the water=i was cold and fish swam in {i.it} .",
                     "ducks swam in the water and the grass was wet .",
                     "there/PRON were wet stones and the boat was broken ."),
           "money": ("the clerk counted coins and people stood in a long line .",
                     "people wanted money and the clerk wrote on paper .",
                     "there/PRON was a clerk for money behind a small door .")}),
    Scene("ran",
          ("{i.it} @ all day .", "{i.it} @ again in the morning .",
           "{i.it} @ for a long time ."),
          {"move": ("there/PRON was a dog=i in the yard and {i.it} wanted to/PART play/VERB .",
                    "a cat=i saw the dog in the yard .",
                    "a dog=i saw {a} near the door ."),
           "work": ("there/PRON was an engine=i in the yard and {i.it} was old .",
                    "{a} put oil in the pump=i of the mill .",
                    "{a} cleaned the clock=i in the hall .")
           }, clue_first=True),
    Scene("ran",
          ("{a} @ {i.it} in the evening .", "in the evening {b} @ {i.it} again .",
           "{a} @ {i.it} for {b} ."),
          {"manage": ("there/PRON was a shop=i at the corner .",
                      "people bought bread in the shop=i ."),
           "fill": ("there/PRON was a bath=i in the room .",
                    "the water in the bath=i was hot .")},
          clue_first=True),
    Scene("bat",
          ("{a} saw a @ on the floor .", "then {b} found a small @ behind the door .",
           "there/PRON was an old @=i in the corner and {a} looked at {i.it} ."),
          {"animal": ("it was dark and there/PRON were wings over the trees .",
                      "in the night an owl came out of a cave .",
                      "small wings made noise in the night ."),
           "club": ("the team wanted to/PART play/VERB in the grass .",
                    "the boys hit the stones into the grass .",
                    "the girls of the team won every game .")}),
    Scene("light",
          ("{a} saw that/SCONJ it was @ .", "then {b} knew that/SCONJ it was @ .",
           "{b} was happy because it was @ ."),
          {"weight": ("{a} carried a basket up to the table .",
                      "there/PRON was nothing in the bag ."),
           "bright": ("the sun rose/climb over the trees .",
                      "the sun shone on the floor .")}, clue_first=True),
    Scene("light",
          ("{a} looked for a @ .", "{b} asked {a} for a @ .", "there/PRON was no @ for {a} ."),
          {"lamp": ("the room was dark and the lamp was broken .",
                    "it was night and {b} could not see the door .")}),
    Scene("ring",
          ("then {a} knew the @ again .", "{b} waited for the @ all evening .",
           "it was the @ that/PRON {a} wanted ."),
          {"jewel": ("gold shone in a small box .", "a finger was too big for the gold ."),
           "sound": ("the telephone was on the table .", "there/PRON was a friend at the door .")}),
    Scene("match",
          ("{a} lost the @ in the end .", "it was the last @ of the day .",
           "{b} waited for a @ in the cold yard ."),
          {"game": ("the team played and everybody sang .",
                    "the score was two to/ADP three ."),
           "fire": ("the candle stood on the table and the room was dark .",
                    "there/PRON was dry wood but no fire .")}),
    Scene("key",
          ("{a} saw that/SCONJ a @ was broken .", "{b} looked at the old @ .",
           "the first/ADJ @ was white and clean ."),
          {"lock": ("the door of the shop had/VERB a new lock .",
                    "nobody could open the cupboard ."),
           "piano": ("{b} sat at the piano and played a song .",
                     "the music was good but the piano was old .")}),
    Scene("letter",
          ("{a} looked at the @ for a long time .", "then {b} read the last @ again .",
           "the @=i was small and {a} could not read/VERB {i.it} ."),
          {"mail": ("there/PRON was a stamp on the envelope .",
                    "a friend sent an envelope from the town ."),
           "alphabet": ("in school the pupils learned a new word .",
                        "there/PRON was a long word on the door .")}),
    Scene("watch",
          ("{a} wanted a @ .", "it was a good @ for {b} ."),
          {"clock": ("the old clock was broken and {b} never knew the time .",),
           "guard": ("there/PRON were noises in the night and {b} did not sleep .",)}),
    Scene("rose",
          ("{a} saw how {i.it} @ .", "{i.it} @ over the garden ."),
          {"climb": ("the sun=i was red in the morning .",
                     "the kite=i of a girl was in the wind .")}, clue_first=True),
    Scene("rose",
          ("{a} found a @ near the door .", "there/PRON was a @ on the table for {b} ."),
          {"flower": ("it was summer and the garden was full .",)}),
    Scene("will",
          ("everybody @ see {i.it} again soon .", "the team @ play/VERB {i.it} there again ."),
          {"future": ("the game=i was good and everybody laughed .",)}, clue_first=True),
    Scene("may",
          ("everybody @ see {i.it} now .", "every girl @ see {i.it} now ."),
          {"permission": ("the door of the hall=i was open/ADJ .",)}, clue_first=True),
    Scene("mark",
          ("there/PRON was a @ on the paper .", "{a} saw a red @ on the door ."),
          {"stain": ("the paint was still wet .",)}),
)
