"""The task of ambiguous words: whose vectors are looked at, and which sense is nearest."""

import numpy as np
import pytest

from numformer.data import Sense, senses
from numformer.recipes import PRESETS
from numformer.recipes.text_to_text import senses as page
from numformer.recipes.text_to_text.senses import nearest_mean_is_right

pytestmark = pytest.mark.usefixtures("few_examples")
TASK = PRESETS["translate-senses"].task


def test_the_nearest_mean_is_of_the_same_word():
    known_senses = [Sense("", "", "bank", 0, "rive"), Sense("", "", "bank", 0, "rive"),
                    Sense("", "", "bank", 0, "banque"), Sense("", "", "key", 0, "touche")]
    known = np.array([[0.0, 0.0], [2.0, 0.0], [4.0, 0.0], [1.0, 0.1]])
    told = [known_senses[0], known_senses[2], known_senses[0]]
    vectors = np.array([[1.0, 0.0], [1.5, 0.0], [2.5, 0.0]])          # the means: 1 and 4
    assert nearest_mean_is_right(known, known_senses, vectors, told).tolist() == [1, 0, 0.5]


def test_a_word_has_one_embedding_and_another_vector_in_another_sentence(model, tokenizer):
    told = [each for each in senses(60) if each.word == "bank"]
    embedding, *blocks = TASK.vectors(model, tokenizer, told)
    assert len(told) > 5 and len(blocks) == 2 and embedding.shape == (len(told), 8)
    of_same_place = [n for n, each in enumerate(told) if each.at == told[0].at]
    np.testing.assert_allclose(embedding[of_same_place], embedding[[0]].repeat(
        len(of_same_place), axis=0), rtol=1e-6)                       # with the same position
    differences = np.abs(blocks[-1][of_same_place] - blocks[-1][0]).max(axis=1)
    assert (differences[1:] > 1e-4).all()
    alone = TASK.vectors(model, tokenizer, told[-1:])[-1]
    np.testing.assert_allclose(alone, blocks[-1][-1:], rtol=1e-3, atol=1e-5)


class Translator(type(TASK)):
    """Translates as it is told, by a function of the right translation."""

    def __init__(self, change):
        self.change = change

    def answers(self, model, tokenizer, sources):
        right = {each.english: each.french for each in senses(page.HELD_OUT, held_out=True)}
        return [self.change(right[source]) for source in sources]


@pytest.mark.parametrize("change, exact, sense", [
    (str, 1, 1), (lambda french: f"{french} rouge", 0, 1), (lambda french: "", 0, 0)])
def test_a_translation_is_exact_or_has_the_sense(change, exact, sense, model, tokenizer):
    figures = Translator(change).measure(model, tokenizer, None)
    assert (figures["exact"], figures["sense"]) == (exact, sense)
    assert 0 <= figures["bank_of_vector"] <= 1 and 0 < figures["sense_of_vector"] <= 1
