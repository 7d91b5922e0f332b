"""T5's and BART's pretraining on tales of the small world: masked spans, infilled spans."""

from functools import lru_cache

from numformer.data import WordTokenizer, tales
from numformer.data.world import joined
from numformer.recipes.text_to_text.bart import DenoiseTask
from numformer.recipes.text_to_text.documents import Documents
from numformer.recipes.text_to_text.pairs import SPECIAL
from numformer.recipes.text_to_text.t5 import MODEL, TRAINING, SpanTask
from numformer.recipes.preset import Preset, more

TRAINING_TALES, HELD_OUT = 8000, 400


class TaleDocuments:
    """Whole tales as documents, and words as tokens. In held-out tales, people have other things.

    The first base class of a task, before a `DocumentTask`.
    """

    longest = 130

    def pairs(self):
        return _documents()

    def sentences(self, dataset):
        """All sentences, those that several tales have as often as they come."""
        return [sentence for document in dataset.training for sentence in document]

    def tokenizer(self, dataset):
        return WordTokenizer.of("".join(self.sentences(dataset)), special=(*SPECIAL, *self.marks))


class TaleSpanTask(TaleDocuments, SpanTask):
    """Predict the masked spans of a tale, as `SpanTask` does for two sentences of the library."""

    name = "tale-spans"
    n_gram = 8                                                        # better here than 5
    training_rate = 0.3


class TaleInfillTask(TaleDocuments, DenoiseTask):
    """Write a tale whose spans are infilled, as `DenoiseTask` does, without its other noises."""

    name = "tale-infilling"
    noises = ("infilled",)


@lru_cache(maxsize=1)
def _documents():
    def documents(count, held_out):
        return [tuple(f"{joined(told.words[first:last])}\n" for first, last in told.sentences)
                for told in tales(count, held_out=held_out)]
    return Documents("tales", documents(TRAINING_TALES, False), documents(HELD_OUT, True))


PRESETS = {
    # The preset "t5-spans" with what learned faster here: wide heads with rotary positions, larger
    # steps, cross-attention that begins like to like, and twice as many masked tokens
    "world-spans": Preset(
        dict(MODEL, d_model=96, n_heads=4, context_length=128, positions="rotary",
             scaled_scores=True),
        dict(TRAINING, steps=600, batch_size=32, shards=2, learning_rate=0.01, muon_ratio=3.0,
             eval_every=300, save_every=300),
        TaleSpanTask(), "EncoderDecoder", recipe=dict(like_to_like=True),
        claims=(more("span_accuracy", beats="n_gram_accuracy"), more("n_gram_accuracy"))),
    # The preset "bart", smaller
    "world-infilling": Preset(
        dict(context_length=144, n_layers=2, n_heads=4, d_model=96, feedforward="gelu",
             positions="learned", embedding_scale=False, init_std=0.06),
        dict(optimizer="muon", steps=400, batch_size=16, shards=2, learning_rate=0.005,
             min_learning_rate=0.0, schedule="linear", warmup_steps=50, muon_ratio=3.0,
             momentum=0.95, weight_decay=0.0, eval_every=200, save_every=200),
        TaleInfillTask(), "EncoderDecoder", recipe=dict(add_rotary=True),
        claims=(more("restored_infilled", beats="copied_infilled"), more("copied_infilled"))),
}
