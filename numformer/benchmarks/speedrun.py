"""Time to a loss: the preset speedrun against PyTorch with the options of nanogpt-cpu."""

import time
from dataclasses import replace
from importlib.util import find_spec

import numpy as np

from numformer import backend
from numformer.models import KINDS
from numformer.recipes import PRESETS, recipe_of
from numformer.data import CharacterTokenizer
from numformer.data import BlockStream, consecutive_blocks
from numformer.training import Trainer, TrainingConfig, learning_rate

RECIPE, LOSS, SEEDS = "nanogpt-cpu", 1.898, 5


def trainer(preset, corpus, seed):
    """The trainer of a preset, as in `numformer train`."""
    chosen = PRESETS[preset]
    tokenizer = CharacterTokenizer.of(corpus.text)
    config = replace(TrainingConfig(**chosen.training), seed=seed)
    ids, validation = (tokenizer.encode(part) for part in corpus.split())
    options = KINDS[chosen.kind][1](vocab_size=len(tokenizer), **chosen.model)
    recipe = recipe_of(chosen.kind, chosen.recipe)
    model = recipe.model(chosen.kind, options, np.random.default_rng([seed, 0]))
    stream = BlockStream(ids, model.config.context_length, config.batch_size, seed)
    return Trainer(model, stream, consecutive_blocks(validation, model.config.context_length),
                   config)


def run(preset, corpus, seed):
    """(validation loss, seconds of training) of one run, evaluation not counted."""
    racer = trainer(preset, corpus, seed)
    for _ in range(racer.config.steps):
        racer.train_step()
    return racer.evaluate(), racer.seconds


def torch_run(corpus, seed):
    """The same for PyTorch with the options of nanogpt-cpu, eager, with fused AdamW."""
    import torch

    from numformer.benchmarks.torch_decoder import torch_decoder

    torch.set_num_threads(backend.get_threads())
    ours = trainer(RECIPE, corpus, seed)
    model, c = torch_decoder(ours.model), ours.config
    groups = [{"params": [p for p in model.parameters() if p.ndim >= 2],
               "weight_decay": c.weight_decay},
              {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=c.learning_rate, betas=(c.beta1, c.beta2), fused=True)
    started = time.perf_counter()
    for step in range(c.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(c.schedule, step, c.steps, c.learning_rate,
                                        c.min_learning_rate, c.warmup_steps)
        batch = ours.stream.batch(step)
        optimizer.zero_grad(set_to_none=True)
        model.loss(torch.from_numpy(batch.inputs), torch.from_numpy(batch.targets)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), c.clip_norm)
        optimizer.step()
    seconds, total, tokens = time.perf_counter() - started, 0.0, 0
    with torch.inference_mode():
        for batch in ours.validation:
            loss = model.loss(torch.from_numpy(batch.inputs), torch.from_numpy(batch.targets))
            total += float(loss) * batch.n_targets
            tokens += batch.n_targets
    return total / tokens, seconds


def race(corpus, progress=lambda message: None):
    """The results of `numformer bench speedrun`.

    Returns
    -------
    dict
        ``speedrun``: (loss, seconds) of each seed, and their medians; ``long``: one run of the
        preset speedrun-long; ``torch``: PyTorch's (loss, seconds), or None; ``of_torch``: the
        median time relative to PyTorch's; ``warm_up_seconds``: the time to compile or load the
        kernels, which is not counted.
    """
    started = time.perf_counter()
    for preset in ("speedrun", "speedrun-long"):
        racer = trainer(preset, corpus, 0)
        racer.train_step()
    found = {"warm_up_seconds": time.perf_counter() - started}
    runs = []
    for seed in range(SEEDS):
        progress(f"speedrun, seed {seed}")
        runs.append(run("speedrun", corpus, seed))
    found["speedrun"] = {"runs": runs, "loss": float(np.median([loss for loss, _ in runs])),
                         "seconds": float(np.median([seconds for _, seconds in runs]))}
    progress("speedrun-long")
    found["long"] = run("speedrun-long", corpus, 0)
    found["torch"] = None
    if find_spec("torch") is not None:
        progress(f"PyTorch, {RECIPE}")
        found["torch"] = torch_run(corpus, TrainingConfig(steps=1).seed)
        found["of_torch"] = found["speedrun"]["seconds"] / found["torch"][1]
    return found
