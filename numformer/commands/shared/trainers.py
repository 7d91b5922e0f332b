"""The trainer of a run: of a new one from a preset and flags, or of one that is resumed."""

import sys
from dataclasses import MISSING, fields
from pathlib import Path

from numformer import backend
from numformer.commands import UsageError
from numformer.commands.shared.flags import check_flags, chosen_preset, flag_of, overrides
from numformer.commands.shared.memory import check_memory
from numformer.commands.shared.teachers import (
    check_student, with_teacher, with_teacher_again)
from numformer.models import (
    KINDS, BertEncoderConfig, DecoderClassifierConfig, backbone_options, load_pretrained_backbone)
from numformer.parameter import Layer
from numformer.recipes import RECIPES, Recipe, TextTask, recipe_of
from numformer.recipes.bert_recipes import BertEncoderRecipe
from numformer.runs import load_checkpoint, load_run
from numformer.runs.load_run import (
    MISSHAPEN, UNKNOWN, blame, check_options, data_argument, read_facts, run_corpus)
from numformer.seeds import WEIGHTS, branch
from numformer.training import TrainingConfig

CHANGEABLE = {"steps", "patience"}                    # may differ from the run's when it is resumed


def new_run(arguments, preset):
    """Begin a run.

    Parameters
    ----------
    arguments : Namespace
        Of `numformer train`.
    preset : str

    Returns
    -------
    task : Task
    trainer : Trainer
        At step 0.
    tokenizer : Tokenizer or None
    facts : dict
        For the checkpoint.

    Raises
    ------
    UsageError
        If the preset, a flag or a value is not allowed.
    """
    chosen = chosen_preset(preset)
    kind, task = chosen.kind, chosen.task
    if kind not in KINDS:
        raise UsageError(f"the preset {preset} trains a {kind}, which numformer.models.KINDS does "
                         "not list; import it in numformer/models/__init__.py.")
    config = KINDS[kind][1]
    training = _made(TrainingConfig, {**chosen.training, **overrides(arguments, TrainingConfig)})
    if arguments.shards is not None and training.shards > training.batch_size:
        raise UsageError(f"--shards {training.shards} must be at most --batch-size "
                         f"{training.batch_size}, because a shard is a part of a batch.")
    # Some options come from the data. All others are checked before the data are read.
    has_teacher = task.teachers and arguments.start is not None
    start, start_tokenizer, start_recipe, published = (
        (None, None, {}, {}) if has_teacher and not task.begins_as_teacher else
        _start(arguments, kind, preset))
    if task.begins_as_teacher:
        start_recipe = {}                             # how it learned, which is this run's own
    options = {**chosen.model, **_start_options(start, kind), **overrides(arguments, config)}
    check_flags(arguments, kind, task, preset)
    recipe = {**chosen.recipe, **start_recipe,
              **overrides(arguments, RECIPES.get(kind, Recipe))}
    unknown = {field.name: 1 for field in fields(config)
               if field.name in task.from_the_data and field.default is MISSING}
    recipe = _recipe(kind, recipe, _made(config, {**options, **unknown}))
    task = task.with_recipe(recipe)
    data = task.default_data if arguments.data is None else arguments.data
    corpus = task.load(data)
    tokenizer = task.tokenizer(corpus) if start is None else start_tokenizer
    if has_teacher:
        task, teacher = with_teacher(task, tokenizer, arguments.start)
    whole = start is not None and _is_whole(start, kind)              # all weights, and all sizes
    model = _made(config, options if whole else {**options, **task.options(tokenizer)})
    try:
        check_options(task, tokenizer, model)
    except ValueError as error:
        raise UsageError(f"--from {arguments.start}: {error}") from None
    facts = {
        "preset": preset, "task": task.name,
        "data": {"argument": data_argument(data), "name": corpus.name, "sha256": corpus.sha256,
                 "characters": len(corpus)},
        "model": {"kind": kind, "config": model.as_dict()},
        "recipe": recipe.as_dict(),
        "training": training.as_dict(),
        "tokenizer": tokenizer.to_json() if task.has_tokens else None,
        "blas": backend.blas_label(),
    }
    if has_teacher:
        check_student(model, task)
        facts["teacher"] = teacher
    trainer = new_trainer(task, kind, model, training, tokenizer, corpus)
    if start is not None:
        facts["from"] = str(Path(arguments.start).resolve())
        if published and type(start) is KINDS[kind][0]:
            facts["published"] = published
        try:
            (_load_weights if whole else load_pretrained_backbone)(trainer.model, start)
        except ValueError as error:
            raise UsageError(f"--from {arguments.start}: {error} "
                             "Leave out the options that change its shape.") from None
    if task.measured_before:
        facts["before"] = task.measure(trainer.model, tokenizer, corpus)
    return task, trainer, tokenizer, facts


def resumed_run(arguments, checkpoint):
    """Continue a run from a checkpoint, with the options stored there, not those of today's
    presets.

    Parameters
    ----------
    arguments : Namespace
        Of `numformer train`.
    checkpoint : Path

    Returns
    -------
    task, trainer, tokenizer, facts
        As from `new_run`; the trainer in the state of the checkpoint.

    Raises
    ------
    UsageError
        If a flag differs from the run's options.
    CheckpointError
        If the checkpoint is broken.
    """
    arrays, facts = load_checkpoint(checkpoint)
    task, kind, model, tokenizer = read_facts(arrays, facts, checkpoint)
    run = checkpoint.parent
    if "preset" not in facts and "from" in facts:
        raise UsageError(f"{run} was imported, and has no training to resume; begin one with "
                         f"--from {run}.")
    facts.setdefault("task", task.name)
    progress = facts.pop("progress", None)
    if arguments.preset not in (None, facts.get("preset")):
        raise UsageError(f"--preset {arguments.preset} is not the preset of {run}, "
                         f"{facts.get('preset')}; leave it out.")
    check_flags(arguments, kind, task, run)
    options = {**facts["model"]["config"], **facts["recipe"], **facts["training"]}
    given = {name: value for config in (KINDS[kind][1], type(task.recipe), TrainingConfig)
             for name, value in overrides(arguments, config).items()}
    for name, value in given.items():
        if name not in CHANGEABLE and options.get(name) != value:
            raise UsageError(f"{flag_of(name)} {value} differs from that of {run}, "
                             f"{options.get(name)}; leave it out, or begin a new run.")
    with blame(checkpoint, UNKNOWN):
        training = TrainingConfig.from_dict(facts["training"])
    if task.teachers and "teacher" in facts:
        task = with_teacher_again(task, facts["teacher"])
        check_student(model, task)
    changed = {name: value for name, value in given.items() if name in CHANGEABLE}
    training = _made(TrainingConfig, {**training.as_dict(), **changed})
    facts["training"] = training.as_dict()
    corpus = run_corpus(task, facts, arguments.data)
    trainer = new_trainer(task, kind, model, training, tokenizer, corpus, facts.pop("frozen", ()))
    with blame(checkpoint, MISSHAPEN):
        trainer.load_state_dict(arrays, progress or {})
    if "steps" in changed and changed["steps"] < trainer.step:
        raise UsageError(f"--steps {changed['steps']} is less than the steps already taken: "
                         f"{run} is at step {trainer.step}.")
    blas, facts["blas"] = facts.get("blas"), backend.blas_label()
    if blas not in (None, facts["blas"]):
        print(f"note: {run} was trained with {blas}, and goes on with {facts['blas']}: equal to an "
              "uninterrupted run up to rounding only", file=sys.stderr)
    return task, trainer, tokenizer, facts


def new_trainer(task, kind, model_config, config, tokenizer, corpus, frozen=()):
    """A trainer at step 0 of a model of that kind and config; `frozen` are names of parameters."""
    check_memory(kind, model_config, config,
                 model_config.context_length if isinstance(task, TextTask) else 1)
    stream = task.stream(corpus, tokenizer, model_config, config)
    validation = task.validation(corpus, tokenizer, model_config, config.eval_blocks or None)
    rng = branch(config.seed, WEIGHTS)
    model = task.recipe.model(kind, model_config, rng)
    if frozen:
        model.freeze(*frozen)
    return task.trainer(model, stream, validation, config)


def _start(arguments, kind, preset):
    """(model, tokenizer, recipe options, published files) of the run of --from; (None, None, {},
    {}) without --from."""
    if arguments.start is None:
        return None, None, {}, {}
    model, tokenizer, facts, task = load_run(arguments.start)
    published = facts.get("published", {})
    found = facts["model"]["kind"]
    if _has_bert_backbone(kind):
        if not _has_bert_backbone(found):
            raise UsageError(f"--from {arguments.start}: its model, a {found}, has no BERT "
                             "backbone; give the run of a BERT.")
        names = [field.name for field in fields(BertEncoderRecipe)]
        options = {name: getattr(task.recipe, name) for name in names}
        return model, tokenizer, options, published
    if found == "Decoder" and (_has_decoder_backbone(kind) or _has_same_fields(kind, found)):
        return model, tokenizer, {}, published
    if found != kind or not isinstance(model, Layer):
        raise UsageError(f"--from {arguments.start}: its model is a {found}, but {preset} trains "
                         f"{kind}; give a run of that kind, with weights, or another --preset.")
    return model, tokenizer, task.recipe.as_dict(), published


def _start_options(start, kind):
    """What a model takes of that of --from: the options of its backbone, or all but dropout."""
    if start is None:
        return {}
    if not _is_whole(start, kind):
        return backbone_options(start.config)
    return {name: value for name, value in start.config.as_dict().items() if name != "dropout"}


def _is_whole(start, kind):
    """Whether all of a model is taken, and not its backbone alone."""
    return type(start) is KINDS[kind][0] or not (
        _has_bert_backbone(kind) or _has_decoder_backbone(kind))


def _has_bert_backbone(kind):
    return issubclass(KINDS[kind][1], BertEncoderConfig)


def _has_decoder_backbone(kind):
    return issubclass(KINDS[kind][1], DecoderClassifierConfig)


def _has_same_fields(kind, other):
    """Whether two kinds of models differ in their loss alone: one inherits config and parameters.
    """
    config, base = KINDS[kind][1], KINDS[other][1]
    return issubclass(config, base) and fields(config) == fields(base)


def _load_weights(model, start):
    """Copy all weights; of trained positions only the first, if the model's context is shorter."""
    state = {name: parameter.data for name, parameter in start.named_parameters()}
    for name, parameter in model.named_parameters():
        if name.endswith("positions.weight") and name in state:
            state[name] = state[name][:len(parameter.data)]
    model.load_state_dict(state)


def _made(config, options):
    try:
        return config.from_dict(options)
    except (TypeError, ValueError) as error:          # an option is missing, unknown or wrong
        raise UsageError(str(error)) from None


def _recipe(kind, options, config):
    try:
        recipe = recipe_of(kind, options)
        recipe.check(config)
        return recipe
    except ValueError as error:
        raise UsageError(str(error)) from None
