"""English sentences with ambiguous words to French, which has a word for each meaning."""

from functools import lru_cache

import numpy as np

from numformer.analysis import residual_stream
from numformer.backend import one_blas_thread
from numformer.data import WordTokenizer, pair_batch, senses
from numformer.recipes.preset import Preset, more
from numformer.recipes.text_to_text.pairs import SPECIAL, Pairs, PairTask

TRAINING, HELD_OUT = 6000, 400                                        # sentences
KNOWN = 600                                           # of training, whose vectors have means
MAPPED = "bank", "match"                              # words of the picture


class SenseTask(PairTask):
    """Sentences with ambiguous words to French.

    Measured on held-out sentences by how often the meaning is translated, and how often it is that
    of the nearest mean vector of the word's meanings.
    """

    name = "senses"
    longest = 24
    alignment = "Attention from French to English"
    measured_before = True

    def pairs(self):
        return _pairs()

    def tokenizer(self, dataset):
        """Words of both languages, and marks."""
        return WordTokenizer.of(" ".join(map(" ".join, dataset.training)), special=SPECIAL)

    def vectors(self, model, tokenizer, told):
        """The vectors of ambiguous words: of the embedding, and after each block of the encoder.

        Parameters
        ----------
        told : list of Sense

        Returns
        -------
        list of ndarray, each of shape (N, C)
        """
        batch = pair_batch(self.encoded([(each.english, each.french) for each in told], tokenizer),
                           *self.special_ids(tokenizer))
        with one_blas_thread():
            stream = residual_stream(model, batch.inputs, batch.lengths, batch.outputs)
        at = [each.at for each in told]
        return [x[np.arange(len(told)), at] for x in stream["encoder.blocks"]]

    def pictures(self, model, tokenizer):
        """The alignment, and vectors of words by their sense, before and after the encoder."""
        from numformer.plots.meaning import labelled_maps

        told = senses(HELD_OUT, held_out=True)
        vectors, maps = self.vectors(model, tokenizer, told), {}
        for layer, name in ((0, "embedding"), (-1, "after the encoder")):
            for word in MAPPED:
                own = [n for n, each in enumerate(told) if each.word == word]
                maps[word, name] = vectors[layer][own], np.array([told[n].sense for n in own])
        return {**super().pictures(model, tokenizer), "senses.png": labelled_maps(
            maps, len(MAPPED), "Vectors of ambiguous words, by their meaning")}

    def measure(self, model, tokenizer, dataset):
        """How often translations are exact and have the right sense, and so do vectors.

        A vector has the sense with the nearest mean over sentences of training: of the embedding
        ``sense_of_embedding``, after the last block ``sense_of_vector``, and the same of "bank".
        """
        told, known = senses(HELD_OUT, held_out=True), senses(KNOWN)
        answers = self.answers(model, tokenizer, [each.english for each in told])
        figures = {"exact": [one == each.french for one, each in zip(answers, told)],
                   "sense": [each.sense in one for one, each in zip(answers, told)]}
        before, after = (self.vectors(model, tokenizer, each) for each in (known, told))
        for name, layer in (("embedding", 0), ("vector", -1)):
            figures[f"sense_of_{name}"] = right = nearest_mean_is_right(
                before[layer], known, after[layer], told)
            figures[f"bank_of_{name}"] = right[[each.word == "bank" for each in told]]
        return {name: float(np.mean(each)) for name, each in figures.items()}


def nearest_mean_is_right(known, known_senses, vectors, told):
    """Whether each vector is nearest to the mean of its own sense, among those of its word.

    Of means that are equally near, none is the nearest: each counts as a part.

    Parameters
    ----------
    known : ndarray, shape (M, C)
    known_senses : list of Sense
        M of them.
    vectors : ndarray, shape (N, C)
    told : list of Sense
        N of them.

    Returns
    -------
    ndarray, shape (N,)
        1 or 0; 1/2 where both senses are equally near.
    """
    right = []
    for x, each in zip(vectors.astype(np.float64), told):
        means = {}
        for sense in sorted({one.sense for one in known_senses if one.word == each.word}):
            own = [one.sense == sense for one in known_senses]
            means[sense] = known[own].mean(axis=0, dtype=np.float64)
        distances = {sense: np.linalg.norm(x - mean) for sense, mean in means.items()}
        nearest = [sense for sense, distance in distances.items()
                   if distance <= min(distances.values()) + 1e-6]
        right.append((each.sense in nearest) / len(nearest))
    return np.array(right)


@lru_cache(maxsize=1)
def _pairs():
    training, held_out = ([(each.english, each.french) for each in senses(count, held_out=part)]
                          for count, part in ((TRAINING, False), (HELD_OUT, True)))
    return Pairs("sentences with ambiguous words", training, held_out)


SMALL = dict(context_length=32, n_layers=2, n_heads=4, d_model=64, positions="rotary",
             norm_first=True, embedding_scale=False, init_std=0.06)
BY_MUON = dict(batch_size=64, shards=2, optimizer="muon", muon_ratio=3.0, learning_rate=0.01,
               min_learning_rate=0.0, momentum=0.95, weight_decay=0.0, schedule="linear",
               warmup_steps=30)

PRESETS = {
    "translate-senses": Preset(
        SMALL, dict(BY_MUON, steps=150, eval_every=50, save_every=50), SenseTask(),
        "EncoderDecoder",
        claims=(more("sense", 0.95),
                *(more(f"{whose}_of_vector", beats=f"{whose}_of_{other}")
                  for whose in ("sense", "bank") for other in ("embedding", "vector_before")))),
}
