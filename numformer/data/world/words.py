"""The words of the world: the part of speech of each, its entity label, and ambiguous senses."""

TAGS = ("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "NOUN", "NUM", "PART", "PRON", "PROPN",
        "PUNCT", "SCONJ", "VERB")                                     # of Universal Dependencies
ENTITIES = ("O", "B-PERSON", "I-PERSON", "B-PLACE", "I-PLACE", "B-THING", "I-THING", "B-NUMBER",
            "I-NUMBER")

_THINGS = """apples pears eggs shells stones buttons coins nuts cakes books
            ball kite cup doll drum hat whistle spade keys gloves boots skates box basket bag
            drawer bucket cupboard lamp lamps table tables chair chairs door doors dog cat engine
            pump clock piano shop bath tree trees lock wood candle finger cave owl stamp ducks
            fish fire word telephone envelope mill"""
_PLACES = "park market school farm garden harbour library river hill station hall yard"

LEXICON = {}                                          # word: (part of speech, entity label)
for _tag, _label, _words in (
        ("NOUN", "B-THING", _THINGS),
        ("NOUN", "B-PLACE", _PLACES),
        ("NOUN", "O", """morning afternoon evening day week water grass money clerk line
            people night home end friend boy girl women men boys girls team score song paper
            summer town train time wings wind noise music floor room corner pupils food help game
            sun gold oil bread paint noises boat nothing"""),
        ("NUM", "B-NUMBER", """one two three four five six seven eight nine ten eleven twelve
            thirteen fourteen fifteen"""),
        ("DET", "O", "the a an some this every no all his her its their"),
        ("PRON", "O", "he she it they him them who what everybody nobody both"),
        ("ADP", "O", "to in at of with from under behind near on by for into between over as up"),
        ("AUX", "O", "was were is are had has did could does do have"),
        ("CCONJ", "O", "and but or"),
        ("SCONJ", "O", "because when while if where"),
        ("PART", "O", "not"),
        ("ADV", "O", """then later first now still there again so too how soon out
            back never"""),
        ("ADJ", "O", """red blue green small big new hungry old happy wet cold long many
            dark empty white dusty clean safe more broken dry full hot last good"""),
        ("VERB", "O", """went gave found had brought lent met bought put took looked
            searched thanked kept carried walked waited stood sat swam counted asked wanted liked
            hid helped won wrote read sent slept hit played sang came stayed saw got knew lie
            lies see open sleep cleaned tease give lose find get need hide seen laughed lost shone
            learned made"""),
        ("PUNCT", "O", ". , ?")):
    for _word in _words.split():
        LEXICON.setdefault(_word, (_tag, _label))

# Ambiguous words: sense: (part of speech, entity label)
SENSES = {
    "bank": {"river": ("NOUN", "B-PLACE"), "money": ("NOUN", "B-PLACE")},
    "ran": {"move": ("VERB", "O"), "work": ("VERB", "O"), "manage": ("VERB", "O"),
            "fill": ("VERB", "O")},
    "bat": {"animal": ("NOUN", "B-THING"), "club": ("NOUN", "B-THING")},
    "light": {"lamp": ("NOUN", "B-THING"), "weight": ("ADJ", "O"), "bright": ("ADJ", "O")},
    "ring": {"jewel": ("NOUN", "B-THING"), "sound": ("NOUN", "O")},
    "match": {"game": ("NOUN", "O"), "fire": ("NOUN", "B-THING")},
    "key": {"lock": ("NOUN", "B-THING"), "piano": ("NOUN", "B-THING")},
    "letter": {"mail": ("NOUN", "B-THING"), "alphabet": ("NOUN", "O")},
    "watch": {"clock": ("NOUN", "B-THING"), "guard": ("NOUN", "O")},
    "rose": {"flower": ("NOUN", "B-THING"), "climb": ("VERB", "O")},
    "will": {"future": ("AUX", "O")},
    "may": {"permission": ("AUX", "O")},
    "mark": {"stain": ("NOUN", "O")},
}
SINGULAR = {"were": "was", "are": "is", "have": "has", "lie": "lies", "do": "does"}


def lookup(word, sense=None):
    """of a"""
    if sense is None:
        return (word, *LEXICON[word], "")
    if sense in TAGS:
        return word, sense, "O", ""
    return (word, *SENSES[word][sense], f"{word}.{sense}")
