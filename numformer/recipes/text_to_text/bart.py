"""BART in small: restore documents with masked tokens, infilled spans or permuted sentences."""

import numpy as np

from numformer.data import hide_tokens, infill, permute_sentences
from numformer.recipes.text_to_text.documents import DocumentTask
from numformer.recipes.preset import Preset, more

MEASURED = 200                                                        # held-out documents
RATE = 0.3                                                            # of masked tokens
NOISES = {                                                            # of a list of sentences
    "masked": lambda sentences, mask, rng: hide_tokens(
        np.concatenate(sentences), mask, rng, RATE),
    "infilled": lambda sentences, mask, rng: infill(np.concatenate(sentences), mask, rng, RATE),
    "permuted": lambda sentences, mask, rng: np.concatenate(permute_sentences(sentences, rng)),
}


class DenoiseTask(DocumentTask):
    """Write the whole document after one of three noises, or of those that a subclass names.

    30% of its tokens are masked, or infilled, or its sentences are permuted. BART's final recipe
    permutes and infills at once. With two sentences, a model could not know then whether an
    infilled document was permuted as well; here a mask implies that it was not.
    """

    name = "denoise"
    noises = tuple(NOISES)
    marks = ("[MASK]",)
    wrong_inputs = 0.15                                               # recover from a wrong token

    def pair(self, sentences, marks, rng):
        noise = NOISES[rng.choice(self.noises)]
        return noise(sentences, *marks, rng), np.concatenate(sentences)

    def measure(self, model, tokenizer, dataset):
        """Similarity to the documents after each noise: of the restored text, and of the source.

        The source without its masks is what a model reaches that only copies.
        """
        measures, (mask,) = {}, self.mark_ids(tokenizer)
        documents = [[tokenizer.encode(sentence) for sentence in document]
                     for document in dataset.held_out[:MEASURED]]
        targets = [np.concatenate(sentences) for sentences in documents]
        for name in self.noises:
            sources = [NOISES[name](sentences, mask, np.random.default_rng(number))
                       for number, sentences in enumerate(documents)]
            restored = self.replies(model, tokenizer, sources)
            copied = [source[source != mask] for source in sources]
            measures[f"restored_{name}"] = mean_similarity(restored, targets)
            measures[f"copied_{name}"] = mean_similarity(copied, targets)
        return measures


def mean_similarity(texts, targets):
    """The mean `similarity` of token ids to their targets."""
    return float(np.mean([similarity(ids, target) for ids, target in zip(texts, targets)]))


def similarity(one, other):
    r"""One minus the normalized edit distance of two sequences of ids.

    .. math:: 1 - \frac{\text{edits}}{\max(\text{lengths})}

    where edits (insert, delete, replace) are the fewest that turn one into the other.

    Examples
    --------
    >>> similarity(np.array([1, 2, 3, 4]), np.array([1, 3, 4]))
    0.75
    >>> similarity(np.array([1, 2]), np.array([3, 4]))
    0.0
    """
    index = np.arange(len(other) + 1)
    edits = index                                                     # from nothing to each prefix
    for count, token in enumerate(one, 1):
        replaced = edits[:-1] + (other != token)
        row = np.minimum(edits + 1, np.append(count, replaced))       # delete; replace or keep
        edits = np.minimum.accumulate(row - index) + index            # insert any number
    return 1 - int(edits[-1]) / max(len(one), len(other), 1)


def _claims(noise):
    """Better than copying, except infilling: a wrong guess of a span's length shifts the rest."""
    beats = None if noise == "infilled" else f"copied_{noise}"
    return more(f"restored_{noise}", beats=beats), more(f"copied_{noise}")


PRESETS = {
    # Lewis et al. (2020), smaller: post-norm, GELU; learned positions, and rotary ones in addition.
    # With learned positions alone, the model loses track after filling a gap of unknown length;
    # with rotary ones alone, after a wrong guess
    "bart": Preset(
        dict(context_length=256, n_layers=3, n_heads=4, d_model=128, feedforward="gelu",
             positions="learned", embedding_scale=False, init_std=0.06),
        dict(optimizer="muon", steps=1900, batch_size=32, shards=2, learning_rate=0.005,
             min_learning_rate=0.0, schedule="linear", warmup_steps=100, muon_ratio=3.0,
             momentum=0.95, weight_decay=0.0, eval_every=950, eval_blocks=200, save_every=950),
        DenoiseTask(), "EncoderDecoder", recipe=dict(add_rotary=True),
        claims=tuple(claim for noise in NOISES for claim in _claims(noise))),
}
