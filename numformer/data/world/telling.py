"""Sentences with labels: templates, filled with people, things, places and numbers.

A template is tokens with spaces between them:

- ``word``: a word of the lexicon, with its part of speech and its entity label;
- ``word/sense``: an ambiguous word; a part of speech instead of a sense overrides the lexicon's;
- ``word=key``: a noun that a pronoun of the template, ``{key.it}``, may refer to later;
- ``{a}``: a person, a place or a number of the cast by its name; ``{a.he}``, ``{a.him}``,
  ``{a.his}``: a pronoun; ``{a.again}``: "he" or "she" where the sentence before had no other
  person of this gender, and the name elsewhere;
- ``{x.a}``, ``{x.the}``, ``{x.bare}``: a thing with an article or without; ``{x.it}`` and
  ``{x.obj}``: its pronoun as subject and as object;
- ``{were:x}``: a verb in the number of x, whose last mention in the sentence is its subject;
- ``{a+b}``: "they", for two people.
"""

from numformer.data.world.cast import Person, Place, Thing
from numformer.data.world.words import LEXICON, SINGULAR, lookup

NUMBERS = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
           "fifteen sixteen seventeen eighteen").split()
_PRONOUNS = {"he": ("he", "she"), "him": ("him", "her"), "his": ("his", "her")}


class Teller:
    """Collects the tokens of a tale with their labels, and remembers what was mentioned where."""

    def __init__(self):
        self.words, self.tags, self.entities, self.senses = [], [], [], []
        self.referents, self.heads, self.sentences = [], [], []
        self.mentions = {}                                            # of names and nouns: token
        self.before = set()                                           # people of the last sentence

    def tell(self, template, **cast):
        """Add a sentence.

        Returns
        -------
        dict of str to (int, int)
            The tokens, first and past the last, of each slot's last mention by name.
        """
        start, spans, here = len(self.words), {}, set()
        for part in template.split():
            if not part.startswith("{"):
                self._word(part)
                continue
            name, _, form = part[1:-1].partition(".")
            verb, _, subject = name.partition(":")
            if subject:
                self._verb(verb, cast.get(subject), subject)
            elif "+" in name:
                first, second = (cast[each] for each in name.split("+"))
                self._add("them" if form == "him" else "they", "PRON",
                          referent=self.mentions[first])
                here |= {first, second}
            else:
                item = cast.get(name, name)
                span = self._mention(item, form)
                if span is not None:
                    spans[name] = span
                if isinstance(item, Person):
                    here.add(item)
        self.sentences.append((start, len(self.words)))
        self.before = here
        return spans

    def _add(self, word, tag, entity="O", sense="", referent=-1, head=-1):
        for column, value in zip((self.words, self.tags, self.entities, self.senses,
                                  self.referents, self.heads),
                                 (word, tag, entity, sense, referent, head)):
            column.append(value)

    def _word(self, part):
        text, _, key = part.partition("=")
        word, _, sense = text.partition("/")
        self._add(*lookup(word, sense or None))
        if key:
            self.mentions[key] = len(self.words) - 1

    def _verb(self, verb, item, name):
        plural = isinstance(item, Thing) and item.plural
        key = name if item is None else self._key(item)               # a noun of the template
        word = verb if plural else SINGULAR[verb]
        self._add(word, LEXICON[verb][0], head=self.mentions[key])

    @staticmethod
    def _key(item):
        return item.noun if isinstance(item, Thing) else item

    def _mention(self, item, form):
        """Add a mention; (first, past the last) token of a name, None for a pronoun."""
        if isinstance(item, int):
            self._add(NUMBERS[item], "NUM", "B-NUMBER")
            return len(self.words) - 1, len(self.words)
        if isinstance(item, str) or form in ("it", "obj"):            # a noun of the template
            plural = isinstance(item, Thing) and item.plural
            word = ("them" if form == "obj" else "they") if plural else "it"
            self._add(word, "PRON", referent=self.mentions[self._key(item)])
            return None
        if isinstance(item, Person):
            return self._person(item, form)
        return self._noun(item, form)

    def _person(self, person, form):
        if form == "again":
            rivals = {other for other in self.before if other.gender == person.gender}
            form = "he" if rivals == {person} else ""
        if form:
            word = _PRONOUNS[form][person.gender == "f"]
            self._add(word, "DET" if form == "his" else "PRON", referent=self.mentions[person])
            return None
        return self._named(person, person.words, "PERSON", ["PROPN"] * len(person.words))

    def _noun(self, item, form):
        if isinstance(item, Place):
            self._add("the", "DET")
            tags = [LEXICON.get(word, ("NOUN",))[0] for word in item.words]
            return self._named(item, item.words, "PLACE", tags)
        if form != "bare":
            article = "the" if form == "the" else "some" if item.plural else "a"
            self._add(article, "DET")
        words = (item.noun,)
        if form == "a" and item.adjective:
            words = (item.adjective, item.noun)
        return self._named(item, words, "THING", ["ADJ", "NOUN"][-len(words):])

    def _named(self, item, words, label, tags):
        start = len(self.words)
        for i, (word, tag) in enumerate(zip(words, tags)):
            self._add(word, tag, f"{'I' if i else 'B'}-{label}")
        self.mentions[self._key(item)] = len(self.words) - 1
        return start, len(self.words)
