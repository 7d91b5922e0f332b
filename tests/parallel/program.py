"""What every rank runs in test_ranks.py: a few trainings; rank 0 prints what came out, as JSON."""

import hashlib
import json
import sys
from types import SimpleNamespace

import numpy as np

from numformer import backend
from numformer.data import Batch, BlockStream, consecutive_blocks
from numformer.functional import IGNORE_INDEX
from numformer.models import Bert, BertConfig, Decoder, DecoderConfig
from numformer.training import NotFinite, Trainer, TrainingConfig

SIZES = dict(vocab_size=17, context_length=12, n_layers=3, n_heads=2, d_model=24, dropout=0.1)
# name: (options of the model, settings of the training)
CASES = {
    "adamw": ({}, {}), "muon": ({}, dict(optimizer="muon")), "sgd": ({}, dict(optimizer="sgd")),
    "five shards": ({}, dict(shards=5, accumulation=2)),
    "tied": (dict(tied=True), dict(optimizer="adam", clip_norm=0.0)),
    "float64": (dict(dtype="float64", norm="rms_norm", positions="rotary"), dict(clip_norm=0.1)),
    "few targets": ({}, dict(shards=6)),
    "two losses": ({}, dict(shards=6)), "frozen": ({}, dict(shards=4)),
}


def trainer(name):
    model, settings = CASES[name]
    training = TrainingConfig(**{**dict(steps=50, batch_size=6, shards=4, warmup_steps=2, seed=3),
                                 **settings})
    if name == "two losses":
        return Trainer(Bert(BertConfig(**SIZES), np.random.default_rng(0)),
                       SimpleNamespace(batch=pairs_of_passages),
                       [pairs_of_passages(step) for step in range(100, 105)], training)
    config = DecoderConfig(**{**SIZES, **model})
    text = np.random.default_rng(0).integers(0, 17, 3000)
    stream = BlockStream(text, 12, 6 * training.accumulation, training.seed)
    if name == "few targets":                         # most shards hold none
        whole = stream.batch

        def batch(step):
            found = whole(step)
            found.targets[np.arange(len(found.targets)) != step % 6] = IGNORE_INDEX
            return found

        stream.batch = batch
    decoder = Decoder(config, np.random.default_rng(0))
    if name == "frozen":                              # a block as a whole, and a part of another
        decoder.freeze("embedding", "blocks.0", "blocks.2.feedforward.hidden.weight")
    return Trainer(decoder, stream, consecutive_blocks(text[:400], 12), training)


def pairs_of_passages(step):
    """A batch of BERT: masked tokens in one or two rows, labels of next sentences in most rows."""
    rng = np.random.default_rng([7, step])
    ids = rng.integers(0, 17, (6, 12))
    masked = (np.arange(6) == step % 6)[:, None] | (rng.random((6, 12)) < 0.03)
    follows = np.where(np.arange(6) == step % 5, IGNORE_INDEX, rng.integers(0, 2, 6))
    return Batch(inputs=ids, targets=np.where(masked, ids, IGNORE_INDEX),
                 segments=np.zeros_like(ids), lengths=np.full(6, 12), follows=follows)


def result(made, steps=6):
    """What a training gives: (SHA-256 of all of its state, its metrics)."""
    metrics = [made.train_step() for _ in range(steps)]
    loss = made.evaluate()
    digest = hashlib.sha256()
    arrays, progress = made.state_dict()
    for name, array in arrays.items():
        digest.update(name.encode() + array.tobytes())
    return {"state": digest.hexdigest(), "metrics": metrics, "loss": loss, "progress": progress}


def on_ranks(comm):
    """The results of all cases, and what the ranks did."""
    from numformer.training.parallel.ranks import RankShards

    def joined(name):
        made = trainer(name)
        if comm.rank:                                 # those of rank 0 replace them
            made.optimizer.flat[0].data += 1
            for parameter in made.model.parameters():
                parameter.data += 0 if parameter.trained else 1
        made.parallel = RankShards(made.model, made.optimizer, made.config, comm)
        return made

    results = {}
    for name in CASES:
        made = joined(name)
        results[name] = result(made)
        own = sum(vector.nbytes for moments in made.optimizer.state for vector in moments.values())
        results[name] |= {"moments": comm.allgather(own), "bytes": comm.allreduce(
            made.parallel.bytes_sent) / 6, "parameters": sum(
                flat.data.nbytes for flat in made.optimizer.flat)}

    early = joined("adamw")
    order = []
    send, last = early.parallel._send, early.parallel.replicas[-1]
    backward = last.loss_backward
    early.parallel._send = lambda bucket: (order.append(bucket), send(bucket))
    last.loss_backward = lambda *arguments: (backward(*arguments), order.append("end"))
    early.train_step()

    broken, messages = joined("float64"), []
    try:
        broken.optimizer.flat[0].data[5] = np.nan
        broken.train_step()
    except NotFinite as error:
        messages.append(str(error))
    slow = joined("adamw")
    return {"results": results, "order": order, "messages": comm.allgather(messages),
            "agreed": [slow.agree(comm.rank == rank) for rank in range(comm.size)],
            "nobody": slow.agree(False),
            "abandoned": slow.evaluate(lambda: comm.rank == 0)}


if __name__ == "__main__":
    backend.set_threads(1 if "threads" not in sys.argv else 2)
    from mpi4py import MPI

    found = on_ranks(MPI.COMM_WORLD)
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps(found))
