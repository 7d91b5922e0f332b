"""Named runs: what `numformer train --preset NAME` trains, and how."""

from typing import NamedTuple


class Preset(NamedTuple):
    """A named run.

    Parameters
    ----------
    model : dict
        Settings of the model's config, without those that come with the data.
    training : dict
        Settings of `TrainingConfig`.
    kind : str
        Of the model: a name in `numformer.models.KINDS`.
    task : str
        A name in `numformer.tasks.TASKS`.
    """

    model: dict
    training: dict
    kind: str = "Decoder"
    task: str = "text"


_FAST = dict(n_heads=4, d_model=128, norm="rms_norm", positions="rotary", query_key_norm=True, feedforward="relu_squared", bias=False,
             zero_branches=True, init_std=0.03, ngrams=4)
_MUON = dict(optimizer="muon", batch_size=12, min_learning_rate=0.0, schedule="linear", momentum=0.95, weight_decay=0.0, eval_every=0,
             save_every=0)
_TRUNK = dict(n_layers=3, n_heads=4, d_model=128, positions="rotary", init_std=0.05)
_BERT = dict(_TRUNK, context_length=112, content_layers=1, like_to_like=True)
_ROBERTA = dict(_TRUNK, context_length=64, segments=0, next_sentence=False, dynamic_masks=True, mask_rate=0.3)
_LIBRARY = dict(optimizer="muon", batch_size=32, learning_rate=0.01, min_learning_rate=0.0, warmup_steps=50, schedule="linear",
                momentum=0.95, weight_decay=0.0, muon_ratio=3.0, eval_every=500, save_every=500)
_TUNED = dict(_LIBRARY, steps=200, learning_rate=0.003, warmup_steps=20, eval_every=50)
# Language models side by side: about 0.8 M parameters in all (of a mixture of experts, those that a token passes), the same blocks in
# the same order, and so the same tokens. They differ in their kind, and in the learning rate that suits it.
_SIDE_BY_SIDE = dict(optimizer="muon", muon_ratio=3.0, momentum=0.95, weight_decay=0.0, schedule="linear", min_learning_rate=0.0,
                     warmup_steps=20, steps=1200, batch_size=16, eval_every=300, save_every=300)
_BLOCKS = dict(n_layers=4, n_heads=4, d_model=128, init_std=0.1)
_LLAMA = dict(_BLOCKS, norm="rms_norm", feedforward="swiglu", positions="rotary", bias=False, epsilon=1e-6)
_SEQ2SEQ = dict(d_model=32, d_hidden=64)
_T5 = dict(n_layers=2, n_heads=16, d_model=128, norm="rms_norm", norm_first=True, positions="t5", scaled_scores=False, bias=False,
           init_std=0.06, epsilon=1e-6)
_DATES = dict(steps=1500, batch_size=128, learning_rate=4e-3, min_learning_rate=0.0, warmup_steps=50, weight_decay=0.0, eval_every=500,
              save_every=500)


def _beside(learning_rate, kind="Decoder", **model):
    return Preset(dict(context_length=128, **model), dict(_SIDE_BY_SIDE, learning_rate=learning_rate), kind)


PRESETS = {
    "tiny": Preset(
        dict(context_length=64, n_layers=3, n_heads=4, d_model=96, norm="rms_norm", feedforward="swiglu", positions="rotary",
             query_key_norm=True, bias=False, init_std=0.08),
        dict(steps=640, batch_size=16, learning_rate=4e-3, min_learning_rate=2e-4, warmup_steps=30, eval_every=160, save_every=160),
    ),
    # nanoGPT's character model for a CPU (Karpathy 2022), with tanh GELU as GPT-2's own code has it
    "nanogpt-cpu": Preset(
        dict(context_length=64, n_layers=4, n_heads=4, d_model=128, bias=False),
        dict(steps=2000, batch_size=12, learning_rate=1e-3, min_learning_rate=1e-4, warmup_steps=100, eval_every=500, save_every=250),
    ),
    # nanoGPT's character model for an accelerator: hours on a laptop
    "nanogpt": Preset(
        dict(context_length=256, n_layers=6, n_heads=6, d_model=384, bias=False, dropout=0.2),
        dict(steps=5000, batch_size=64, shards=8, learning_rate=1e-3, min_learning_rate=1e-4, warmup_steps=100, eval_every=250,
             save_every=50),
    ),
    # The fastest way to the loss of nanogpt-cpu, 1.898: what follows two to four letters is looked up, one block sees to the rest
    "speedrun": Preset(
        dict(_FAST, context_length=64, n_layers=1),
        dict(_MUON, steps=100, learning_rate=0.01, warmup_steps=5, muon_ratio=2.0),
    ),
    # The same, for as long as PyTorch takes for nanogpt-cpu: below 1.6
    "speedrun-long": Preset(
        dict(_FAST, context_length=128, n_layers=4),
        dict(_MUON, steps=550, learning_rate=0.006, warmup_steps=10, muon_ratio=3.0),
    ),
    # Bahdanau, Cho, Bengio (2015) in small: characters, and a GRU of one layer
    "seq2seq": Preset(_SEQ2SEQ, _DATES, kind="Seq2Seq", task="dates"),
    # The same without attention, as Cho et al. (2014) had it: the last states of the encoder are all that the decoder knows
    "seq2seq-no-attention": Preset(dict(_SEQ2SEQ, attention="none"), _DATES, kind="Seq2Seq", task="dates"),
    # Vaswani et al. (2017), smaller: post-norm, sinusoids, one table for all, label smoothing, and a schedule without an end
    "translate": Preset(
        dict(context_length=64, n_layers=2, n_heads=4, d_model=128, init_std=0.08, label_smoothing=0.1),
        dict(steps=3000, batch_size=64, learning_rate=2e-3, min_learning_rate=0.0, schedule="inverse_sqrt", warmup_steps=400, beta2=0.98,
             optimizer="adam", eval_every=500, save_every=500),
        kind="EncoderDecoder", task="translate",
    ),
    # Raffel et al. (2020), smaller: pre-norm with RMSNorm, no biases, a learned bias by distance, unscaled scores. Heads are narrow:
    # a step changes unscaled scores sqrt(D) times as much, and of three widths 8 learned fastest, 32 slowest
    "t5": Preset(
        dict(_T5, context_length=80),
        dict(_MUON, steps=1700, batch_size=96, shards=8, learning_rate=0.006, muon_ratio=2.0, warmup_steps=50, eval_every=425,
             eval_blocks=200, save_every=425),
        kind="EncoderDecoder", task="instructions",
    ),
    # What it is trained on before it is told to do anything
    "t5-spans": Preset(
        dict(_T5, context_length=256),
        dict(_MUON, steps=1200, batch_size=64, shards=4, learning_rate=0.006, muon_ratio=2.0, warmup_steps=50, eval_every=400,
             eval_blocks=200, save_every=400),
        kind="EncoderDecoder", task="spans",
    ),
    # Lewis et al. (2020), smaller: post-norm, GELU; learned positions, and rotary ones beside. With learned ones alone a model that
    # filled a gap of unknown length does not find back, with rotary ones alone it does not know where it is after a wrong guess
    "bart": Preset(
        dict(context_length=256, n_layers=3, n_heads=4, d_model=128, feedforward="gelu", positions="learned_rotary", embedding_scale=False,
             init_std=0.06),
        dict(_MUON, steps=1900, batch_size=32, shards=2, learning_rate=0.005, muon_ratio=3.0, warmup_steps=100, eval_every=950,
             eval_blocks=200, save_every=950),
        kind="EncoderDecoder", task="denoise",
    ),
    # No gradient: step n counts n-grams, and its validation shows what they tell of the next character
    "ngram": Preset(dict(context_length=128), dict(steps=7, eval_every=1, save_every=0), "NGramLanguageModel", "ngrams"),
    "rnn": _beside(0.002, "RecurrentLanguageModel", cell="rnn", n_layers=2, d_model=436),
    "lstm": _beside(0.012, "RecurrentLanguageModel", cell="lstm", n_layers=2, d_model=220),
    "cnn": _beside(0.006, "ConvolutionLanguageModel", n_layers=8, d_model=128),
    # What Vaswani et al. (2017) chose, without the encoder
    "decoder-2017": _beside(0.003, **_BLOCKS, norm_first=False, feedforward="relu", positions="sinusoidal", embedding_scale=True),
    # GPT-2's choices: the norm first, GELU, learned positions
    "gpt": _beside(0.012, **_BLOCKS),
    # LLaMA's: RMSNorm, SwiGLU, rotary positions, no biases
    "llama": _beside(0.012, **_LLAMA),
    # Mixtral's: eight experts of half the width, of which a token passes two
    "moe": _beside(0.012, **_LLAMA, d_hidden=176, n_experts=8, experts_per_token=2),
    # Dosovitskiy et al. (2021) in small. The settings were chosen on the training images alone: of two
    # fifths of them, each left out in turn, 98.96% were told right, and with AdamW at 0.002 in place of Muon 96.9% and 98.3%
    "vit": Preset(
        dict(image_size=8, patch_size=2, n_layers=3, n_heads=4, d_model=64, positions="learned_2d", dropout=0.2, init_std=0.1,
             label_smoothing=0.1),
        dict(steps=1500, batch_size=64, optimizer="muon", muon_ratio=3.0, learning_rate=3e-3, min_learning_rate=0.0, warmup_steps=50,
             eval_every=500, save_every=500),
        kind="VisionTransformer", task="digits",
    ),
    # BERT's inputs, norms and losses, with changes for a run of minutes. Rotary positions leave the plateau of guesses by frequency
    # within 150 steps (learned ones are still on it after 350). Whether passages belong together is told by words that they share, and
    # no single word says so: with the other three changes 400 steps find it, without any one of them 500 to 900 did not (passages of
    # 120 characters)
    "bert": Preset(
        dict(_BERT, repeat_steps=1000),
        dict(_LIBRARY, steps=2000, learning_rate=0.004),
        "Bert", "masked",
    ),
    "roberta": Preset(
        _ROBERTA,
        dict(_LIBRARY, steps=3000),
        "Bert", "masked",
    ),
    "modernbert": Preset(
        dict(_ROBERTA, norm_first=True, feedforward="geglu", bias=False, window=8, global_every=3),
        dict(_LIBRARY, steps=3000),
        "Bert", "masked",
    ),
    # On a trunk like that of bert: from scratch, or with --from RUN from that of such a run
    "topics": Preset(dict(_BERT, dropout=0.1), _TUNED, "BertClassifier", "topics"),
    "few-topics": Preset(dict(_BERT, dropout=0.1), _TUNED, "BertClassifier", "few-topics"),
    "sbert": Preset(dict(_BERT, dropout=0.1), _TUNED, "SentenceBert", "passages"),
}
