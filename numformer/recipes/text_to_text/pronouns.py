"""English sentences with pronouns to French, where a translator has to know what they mean."""

from functools import lru_cache

import numpy as np

from numformer.analysis import attention_by_layer
from numformer.data import WordTokenizer, pair_batch, reference, references
from numformer.recipes.preset import Preset, more
from numformer.recipes.text_to_text.pairs import SPECIAL, Pairs, PairTask
from numformer.recipes.text_to_text.senses import BY_MUON, SMALL

TRAINING, HELD_OUT = 12_000, 400                                      # sentences
CHOOSING = 400                                        # of training, by which a head is chosen
# Two pairs of sentences, each exchanging one word
SHOWN = tuple(reference(*words) for words in (
    ("animal", "did not cross", "street", "it", "tired"),
    ("animal", "did not cross", "street", "it", "wide"),
    ("tom", "called", "clara", "she", "tired"), ("tom", "called", "clara", "he", "tired")))


class PronounTask(PairTask):
    """Sentences with "it", "she" or "he" to French.

    Measured on held-out sentences by how often a pronoun is translated as what it means, and how
    often attention finds that.
    """

    name = "pronouns"
    longest = 24
    alignment = "Attention from French to English"
    measured_before = True

    def pairs(self):
        return _pairs()

    def tokenizer(self, dataset):
        """Words of both languages, and the apostrophe."""
        return WordTokenizer.of(" ".join(map(" ".join, dataset.training)), special=SPECIAL)

    def shown(self):
        return SHOWN[0].english

    def attention(self, model, tokenizer, told):
        """The weights of the pronouns of sentences, in the encoder and when they are translated.

        Parameters
        ----------
        told : list of Reference

        Returns
        -------
        dict of str to ndarray, each of shape (layers, H, N, S)
            ``"encoder"``: what the pronoun attends to in the English sentence; ``"cross"``: what
            the decoder does where it predicts "il", "elle" or the name.
        """
        pairs = self.encoded([(each.english, each.french) for each in told], tokenizer)
        batch = pair_batch(pairs, *self.special_ids(tokenizer))
        weights = attention_by_layer(model, batch.inputs, batch.lengths, batch.outputs)
        rows = {"encoder": [each.pronoun for each in told],
                "cross": [named_at(tokenizer.decode, target) for _, target in pairs]}
        N = range(len(told))
        return {stack: np.stack([each[N, :, at].swapaxes(0, 1)        # (N, H, S) to (H, N, S)
                                 for name, each in weights.items() if _stack(name) == stack])
                for stack, at in rows.items()}

    def pictures(self, model, tokenizer):
        """The alignment, and the sentences of `SHOWN` as the best heads attend to them."""
        from numformer.plots.axes import new_axes, panels
        from numformer.plots.meaning import attention_on_words

        size = (11, 7)
        axes = panels(new_axes(size), len(SHOWN), 2, size)
        of_shown = self.attention(model, tokenizer, SHOWN)
        heads = self.best_heads(model, tokenizer)
        for column, (stack, where) in zip(axes.T, (
                ("encoder", "encoder"), ("cross", "cross-attention that translates it"))):
            for row, (ax, each) in enumerate(zip(column, SHOWN)):
                words, (layer, head) = each.english.split(), heads[stack, kind_of(each)]
                attention_on_words(
                    words, of_shown[stack][layer, head, row, :len(words)], each.pronoun,
                    [each.nouns[each.meant]], f"{where}: layer {layer + 1}, head {head + 1}", ax)
        return {**super().pictures(model, tokenizer), "pronouns.png": axes[0, 0].figure}

    def best_heads(self, model, tokenizer):
        """The heads that find what is meant most often in sentences of training.

        Returns
        -------
        dict of (str, str) to (int, int)
            Layer and head, by the stack and the kind of pronoun: see `kind_of`.
        """
        found = {}
        for kind, told in by_kind(references(CHOOSING)).items():
            for stack, weights in self.attention(model, tokenizer, told).items():
                right = finds_it(weights, told).mean(axis=-1)         # (layers, H)
                found[stack, kind] = np.unravel_index(right.argmax(), right.shape)
        return found

    def measure(self, model, tokenizer, dataset):
        """How often translations are exact, and name what is meant; and heads that find it.

        ``nearest_meant`` is the fraction of pronouns that mean the nearest noun. A head is right
        if the noun that is meant has more of its weight than the other one: for "it", and for
        "she" and "he", that of the best head of the encoder and of cross-attention.
        """
        told = references(HELD_OUT, held_out=True)
        answers = self.answers(model, tokenizer, [each.english for each in told])
        figures = {
            "exact": np.mean([one == each.french for one, each in zip(answers, told)]),
            "meant": np.mean([meaning(one) == meaning(each.french)
                              for one, each in zip(answers, told)]),
            "nearest_meant": np.mean([each.meant == 1 for each in told])}
        heads = self.best_heads(model, tokenizer)
        for kind, own in by_kind(told).items():
            figures[f"nearest_meant_{kind}"] = np.mean([each.meant == 1 for each in own])
            for stack, weights in self.attention(model, tokenizer, own).items():
                figures[f"{stack}_head_{kind}"] = finds_it(weights, own)[heads[stack, kind]].mean()
        return {name: float(value) for name, value in figures.items()}


def kind_of(told):
    """The kind of a `Reference`: "it" or "she_he"."""
    return "it" if told.english.split()[told.pronoun] == "it" else "she_he"


def by_kind(told):
    """{kind: those of a list of `Reference`}."""
    return {kind: [each for each in told if kind_of(each) == kind] for kind in ("it", "she_he")}


def meaning(french):
    """What a translation says after "parce": "il", "elle", or the name; empty if it says nothing.

    Examples
    --------
    >>> meaning("le chien a vu la rue parce qu'elle était trop large")
    "qu'elle"
    >>> meaning("tom a suivi rosa parce que rosa était trop lente")
    'que rosa'
    """
    return french.partition(" parce ")[2].partition(" était ")[0]


def named_at(decode, target):
    """The position in a target at which "il", "elle" or the name is: before "était"."""
    return [decode([token]) for token in target].index("était") - 1


def finds_it(weights, told):
    """Whether a head gives the noun that is meant more weight than the other one.

    Parameters
    ----------
    weights : ndarray, shape (layers, H, N, S)
    told : list of Reference

    Returns
    -------
    ndarray of bool, shape (layers, H, N)
    """
    N = range(len(told))
    meant, other = ([each.nouns[each.meant ^ flip] for each in told] for flip in (0, 1))
    return weights[:, :, N, meant] > weights[:, :, N, other]


def _stack(name):
    return "cross" if "cross" in name else "encoder" if name.startswith("encoder") else "decoder"


@lru_cache(maxsize=1)
def _pairs():
    training, held_out = ([(each.english, each.french) for each in references(count, held_out=part)]
                          for count, part in ((TRAINING, False), (HELD_OUT, True)))
    return Pairs("sentences with pronouns", training, held_out)


PRESETS = {
    "translate-pronouns": Preset(
        SMALL, dict(BY_MUON, steps=250, eval_every=125, save_every=125), PronounTask(),
        "EncoderDecoder",
        claims=(more("meant", 0.95, beats="nearest_meant"),
                *(more(f"{stack}_head_she_he", beats=other)
                  for stack in ("encoder", "cross")
                  for other in ("nearest_meant_she_he", f"{stack}_head_she_he_before")))),
}
