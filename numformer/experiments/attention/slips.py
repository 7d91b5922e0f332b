"""What a misprint of an equation costs: each is trained, and tested.

CONVENTIONS, section Equations, lists the misprints of the lecture notes. Four of them no training
run can express: an index in C ("Just doing a softmax"), which names the same number; W_3 of shape
D x H in A, for which the product does not exist; p(x_t) = x_t in D, eq. 11, which is no loss; and
the exchanged queries and keys of E in cross-attention, with two lengths.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from numformer import seeds
from numformer.experiments.attention.slip_parts import attention, others
from numformer.experiments.attention.slip_parts.checks import first_notice, noticed_by
from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.training import trainer_of
from numformer.functional import cross_entropy
from numformer.layers import Identity
from numformer.models import TRANSFORMER_2017, Decoder
from numformer.recipes import Claim, Preset
from numformer.recipes.text.characters import TEXT
from numformer.training.evaluation import mean_loss

# The decoder of 2017 with RMSNorm, because one of the misprints is in its equation
OPTIONS = dict(TRANSFORMER_2017, norm="rms_norm", bias=False)
BASE = Preset(
    dict(OPTIONS, context_length=32, n_layers=2, n_heads=2, d_model=40, d_hidden=120,
         init_std=0.1),
    dict(steps=240, batch_size=16, optimizer="muon", muon_ratio=3.0, momentum=0.95,
         weight_decay=0.0, learning_rate=0.012, min_learning_rate=0.0, schedule="linear",
         warmup_steps=20, eval_every=0, save_every=0),
    TEXT)
BLOCKS = 96                                                   # of the validation text that count
LAST = 20  # steps whose mean is the training loss
PROMPT, CHARACTERS = "the ", 60                               # of a generated text
COPIES = "transposed_mask", "no_mask"                         # models that see the next token
SHOWN = "right", "transposed_mask", "no_mask", "softmax_over_queries"


class Slip(NamedTuple):
    """A misprint: the deck, what is printed in its words or in ours, and how a decoder gets it."""

    deck: str
    printed: str
    change: object


def _attention(kind):
    """A change of the attention function of all blocks."""
    def change(model):
        for block in model.blocks:
            block.attention.positions = kind()

    return change


def _sinusoids(table_of):
    def change(model):
        width = model.config.d_model
        model.positions = others.WrittenSinusoids(width, table_of(model.config.n_heads))

    return change


def _without_values(model):
    for block in model.blocks:
        block.attention.value = Identity()


def _norms_over_vectors(model):
    for block in model.blocks:
        for k, branch in enumerate(block.branches.values(), start=1):
            norm = others.RMSNormOverVectors(model.config.d_model, dtype=branch.norm.weight.data
                                             .dtype)
            norm.weight.data[...] = branch.norm.weight.data
            branch.sum_norm = norm
            setattr(block, f"norm{k}", norm)


def _sum_not_normalized(model):
    model.blocks[:] = [others.SumNotNormalized(block) for block in model.blocks]


RIGHT = "right"
SLIPS = {
    RIGHT: Slip("-", "the equations as they should be", _attention(attention.WrittenAttention)),
    "two_sines": Slip("D", "sine for even and odd coordinates",
                      _sinusoids(lambda H: others.two_sines)),
    "cosine_first": Slip("E", "cosine for 2i, exponent (2i + 1)/p for the sine",
                         _sinusoids(lambda H: others.cosine_first)),
    "width_of_a_head": Slip("E", "10000^(2i/p), p the width of a head",
                            _sinusoids(others.width_of_a_head)),
    "without_root": Slip("C, E", "no root, or one that cancels",
                         _attention(attention.WithoutRoot)),
    "no_softmax": Slip("D", "(Q K' / sqrt d) V", _attention(attention.NoSoftmax)),
    "softmax_over_queries": Slip("A", "softmax of H x N x N scores, dim = 1",
                                 _attention(attention.SoftmaxOverQueries)),
    "own_key": Slip("D", "weights from q_i and k_i", _attention(attention.OwnKey)),
    "without_values": Slip("A", "Y = A X", _without_values),
    "shared_values": Slip("E", "one V for all heads", _attention(attention.SharedValues)),
    "exchanged": Slip("E", "V softmax(Q' K / sqrt p), in columns",
                      _attention(attention.Exchanged)),
    "transposed_mask": Slip("E", "the same + M, 0 where j <= i",
                            _attention(attention.TransposedMask)),
    "no_mask": Slip("A, B", "is_causal is not used", _attention(attention.NoMask)),
    "last_token_alone": Slip("D", "p(x_t given x_(t-1))", _attention(attention.LastTokenAlone)),
    "norm_over_vectors": Slip("A", "RMSNorm: mean over N, the number of vectors",
                              _norms_over_vectors),
    "sum_not_normalized": Slip("E", "(X + Z) + R, with X + Z before its norm",
                               _sum_not_normalized),
}


def slipped(name, model):
    """Put a misprint into a decoder of `OPTIONS`; returns the model."""
    SLIPS[RIGHT].change(model)                        # written out in steps, which a slip replaces
    SLIPS[name].change(model)
    return model


def loss_from_prefixes(model, ids):
    """The mean loss when every token is predicted as in generation: nothing after it is there.

    Parameters
    ----------
    model : Decoder
    ids : ndarray of int, shape (B, T + 1)

    Returns
    -------
    float
        In nats. That of a causal model is its loss on all positions at once.
    """
    T = ids.shape[1] - 1
    last = ((model.features(ids[:, :t])[0][:, -1], ids[:, t]) for t in range(1, T + 1))
    return float(np.mean([cross_entropy(model.head(x), targets)[0] for x, targets in last]))


def loss_but_last(model, ids):
    """The mean loss of all positions but the last of a block, after which there is no future."""
    return float(cross_entropy(model(ids[:, :-1])[:, :-1], ids[:, 1:-1])[0])


def generated(model, ids, n, rng):
    """n tokens sampled one by one, each from the context before it; ids (T,) are the prompt."""
    most, ids = model.config.context_length, list(ids)
    for _ in range(n):
        logits = model(np.array([ids[-most:]]))[0, -1].astype(float) / 0.8
        p = np.exp(logits - logits.max())
        ids.append(int(rng.choice(len(p), p=p / p.sum())))
    return ids


def measure(seed, steps=None):
    """Train a decoder with each misprint, from the same weights and on the same batches."""
    first, task, tokenizer = trainer_of(BASE, seed, steps)
    config = first.model.config
    held_out = task.validation(task.load(task.default_data), tokenizer, config, BLOCKS)
    ids = np.concatenate([np.concatenate([batch.inputs, batch.targets[:, -1:]], axis=1)
                          for batch in held_out])                     # (blocks, T + 1)
    figures, rows, texts = {}, [], []
    for name, slip in SLIPS.items():
        model = slipped(name, Decoder(config, seeds.branch(seed, seeds.WEIGHTS)))
        trainer = task.trainer(model, first.stream, [], first.config)
        losses = [trainer.train_step()["loss"] for _ in range(first.config.steps)]
        row = {"name": name, "deck": slip.deck, "printed": slip.printed,
               "train_loss": float(np.mean(losses[-LAST:])),
               "val_loss": mean_loss(model, held_out),
               "generating": loss_from_prefixes(model, ids)}
        row |= noticed_by(partial(slipped, name), SLIPS[RIGHT].change, OPTIONS)
        rows.append(row | {"notice": first_notice(row)})
        figures |= {f"{name}_{key}": row[key] for key in ("train_loss", "val_loss", "generating")}
        if name in SHOWN:
            text = generated(model, tokenizer.encode(PROMPT), CHARACTERS, np.random.default_rng(0))
            texts.append(f"{slip.printed}: {tokenizer.decode(text)!r}")
        if name in COPIES:
            figures[f"{name}_loss_but_last"] = loss_but_last(model, ids)
        if name == "transposed_mask":
            SLIPS[RIGHT].change(model)
            figures["transposed_mask_with_the_right_one"] = mean_loss(model, held_out)
    for kind in ("shapes", "gradcheck", "gradients", "reference"):
        figures[f"noticed_by_{kind}"] = sum(
            row["gradcheck"] if kind == "gradcheck" else row["notice"] == kind for row in rows)
    return Outcome(figures, partial(_drawn, rows, seed), "\n".join([*_table(rows), "", *texts]))


def _table(rows):
    yield (f"{'':22}{'deck':6}{'train':>7}{'valid.':>8}{'generating':>12}{'cost':>8}   noticed by")
    for row in rows:
        found = [test for test in ("shapes", "gradcheck", "future", "unused", "reference")
                 if row[test]]
        yield (f"{row['name'].replace('_', ' '):22}{row['deck']:6}{row['train_loss']:7.3f}"
               f"{row['val_loss']:8.3f}{row['generating']:12.3f}"
               f"{row['generating'] - rows[0]['generating']:+8.3f}   {', '.join(found) or '-'}")


def _drawn(rows, seed):
    from numformer.plots import slip_costs

    return slip_costs(rows[0], rows[1:], title="What a misprint costs, and which test notices it "
                      f"(seed {seed})")


EXPERIMENT = Experiment(
    "What does each misprint of an equation cost, and which test notices it?", measure, (
        # in training the model sees what it predicts; in generation it does not
        Claim("transposed_mask_train_loss", 0.4, beats="right_train_loss"),
        Claim("transposed_mask_loss_but_last", 0.15),
        Claim("right_generating", beats="transposed_mask_generating"),
        Claim("right_generating", beats="transposed_mask_with_the_right_one"),
        Claim("no_mask_train_loss", 0.4, beats="right_train_loss"),
        Claim("no_mask_loss_but_last", 0.15),
        Claim("right_generating", beats="no_mask_generating"),
        Claim("softmax_over_queries_train_loss", beats="right_train_loss"),
        Claim("right_generating", beats="softmax_over_queries_generating"),
        Claim("right_generating", beats="no_softmax_generating"),
        Claim("right_generating", beats="last_token_alone_generating"),
        Claim("right_generating", beats="without_root_generating"),
        Claim("right_generating", beats="own_key_generating"),
        Claim("right_generating", beats="norm_over_vectors_generating"),
    ))
