"""Train a preset, or a changed one, within an experiment: without a run folder."""

from numformer.models import KINDS
from numformer.recipes import PRESETS, recipe_of
from numformer.seeds import WEIGHTS, branch
from numformer.training import TrainingConfig


def trainer_of(preset, seed, steps=None, *, model=None, training=None, recipe=None):
    """The trainer of a preset at step 0, as `numformer train` makes it.

    Parameters
    ----------
    preset : str or Preset
        A name in `PRESETS`, or a preset of the experiment's own.
    seed : int
        Of weights, batches and dropout.
    steps : int, optional
        Training steps, instead of the preset's.
    model, training, recipe : dict, optional
        Options of the config, the training and the recipe that replace the preset's.

    Returns
    -------
    trainer : Trainer
        Its ``model`` is the model to train, its ``validation`` all held-out batches.
    task : Task
    tokenizer : Tokenizer or None

    Examples
    --------
    >>> trainer, task, tokenizer = trainer_of("tiny", seed=0, steps=1, model=dict(n_layers=1))
    >>> trained(trainer).step, len(trainer.model.blocks)
    (1, 1)
    """
    chosen = PRESETS[preset] if isinstance(preset, str) else preset
    options = {**chosen.training, **(training or {}), "seed": seed}
    if steps is not None:
        options |= {"steps": steps, "warmup_steps": min(options.get("warmup_steps", 0), steps)}
    task = chosen.task.with_recipe(recipe_of(chosen.kind, {**chosen.recipe, **(recipe or {})}))
    dataset = task.load(task.default_data)
    tokenizer = task.tokenizer(dataset)
    config = KINDS[chosen.kind][1].from_dict(
        {**chosen.model, **(model or {}), **task.options(tokenizer)})
    training_config = TrainingConfig.from_dict(options)
    stream = task.stream(dataset, tokenizer, config, training_config)
    validation = task.validation(dataset, tokenizer, config, None)
    rng = branch(seed, WEIGHTS)
    made = task.recipe.model(chosen.kind, config, rng)
    return task.trainer(made, stream, validation, training_config), task, tokenizer


def trained(trainer, every=None, observe=None):
    """Take all steps of a trainer, and return it.

    Parameters
    ----------
    trainer : Trainer
    every : int, optional
        Call ``observe(trainer)`` before the first step, every `every` steps, and after the last.
    observe : callable, optional
    """
    steps = trainer.config.steps
    for step in range(steps + 1):
        if observe is not None and (step % every == 0 or step == steps):
            observe(trainer)
        if step < steps:
            trainer.train_step()
    return trainer
