"""The task of pronouns: which weights are looked at, which head is right, and what is counted."""

import numpy as np
import pytest

from numformer.analysis import attention_by_layer
from numformer.data import Reference, reference, references
from numformer.recipes import PRESETS
from numformer.recipes.text_to_text import pronouns
from numformer.recipes.text_to_text.pronouns import finds_it, meaning

pytestmark = pytest.mark.usefixtures("few_examples")
TASK = PRESETS["translate-pronouns"].task


def test_a_head_is_right_if_what_is_meant_has_more_weight_than_the_other_noun():
    told = [Reference("", "", 4, (1, 3), 0), Reference("", "", 4, (0, 2), 1)]
    weights = np.zeros((1, 3, 2, 5))                                  # (layers, H, N, S)
    weights[0, 0, [0, 1], [1, 2]] = 1                                 # always the right one
    weights[0, 1, :, 2:4] = 0.5                                       # the later one
    weights[0, 2, :, 4] = 1                                           # the pronoun itself
    assert finds_it(weights, told)[0].tolist() == [[True, True], [False, True], [False, False]]


def test_weights_are_those_of_the_pronoun_and_of_the_word_that_translates_it(model, tokenizer):
    told = references(5)
    found = TASK.attention(model, tokenizer, told)
    assert {stack: each.shape[:3] for stack, each in found.items()} == {
        "encoder": (2, 2, 5), "cross": (2, 2, 5)}
    for n, each in enumerate(told):
        source, target = tokenizer.encode(each.english), tokenizer.encode(each.french)
        weights = attention_by_layer(model, source[None], np.array([len(source)]),
                                     np.concatenate([[1], target])[None])         # after BOS
        words = [tokenizer.decode([token]) for token in target]
        at = max(k for k, word in enumerate(words) if word == "était") - 1
        assert words[at] == meaning(each.french).replace("'", " ").split()[-1]
        for layer in range(2):
            for stack, name, row in (
                    ("encoder", f"encoder.blocks.{layer}.attention", each.pronoun),
                    ("cross", f"blocks.{layer}.cross_attention", at)):
                np.testing.assert_allclose(found[stack][layer, :, n, :len(source)],
                                           weights[name][0, :, row], rtol=1e-4, atol=1e-6)
    assert each.english.split()[each.pronoun] in ("it", "she", "he")


class Translator(type(TASK)):
    """Translates as it is told, by a function of the right translation."""

    def __init__(self, change):
        self.change = change

    def answers(self, model, tokenizer, sources):
        right = dict(pronouns._pairs().held_out)
        return [self.change(right[source]) for source in sources]


@pytest.mark.parametrize("change, exact, meant", [
    (str, 1, 1), (lambda french: french.replace("trop", "trop trop"), 0, 1),
    (lambda french: french.partition(" parce ")[0], 0, 0), (lambda french: "", 0, 0)])
def test_a_translation_is_exact_or_says_what_is_meant(change, exact, meant, model, tokenizer):
    figures = Translator(change).measure(model, tokenizer, None)
    assert (figures["exact"], figures["meant"]) == (exact, meant)
    told = references(pronouns.HELD_OUT, held_out=True)
    nearest = [each.nouns[each.meant] == max(each.nouns) for each in told]
    assert figures["nearest_meant"] == np.mean(nearest) and 0 < figures["nearest_meant"] < 1


def test_the_pictures_exchange_one_word_and_with_it_what_is_meant():
    for one, other in (pronouns.SHOWN[:2], pronouns.SHOWN[2:]):
        words = list(zip(one.english.split(), other.english.split()))
        assert sum(a != b for a, b in words) == 1 and one.meant != other.meant
    assert pronouns.SHOWN[0] == reference("animal", "did not cross", "street", "it", "tired")
