"""numformer import: a folder of published weights becomes a run.

    numformer import published --out imported
"""

import sys
from contextlib import closing
from pathlib import Path
from reprlib import repr as brief
from typing import Callable, NamedTuple

from numformer import backend
from numformer.commands import UsageError
from numformer.commands.published.export_folder import SPECIAL_KEYS
from numformer.commands.shared.folders import new_folder
from numformer.commands.shared.output import print_json
from numformer.files import MIB, parse_json, read_file, undone_after_errors
from numformer.interop import load, read_published, text_settings
from numformer.interop.chat_template import has_template
from numformer.recipes import TASKS, Task, TextTask, fine_tuned, kinds_of, recipe_of
from numformer.recipes.text_to_text.pairs import SPECIAL
from numformer.runs import save_checkpoint
from numformer.runs.padded_tokenizer import is_padded
from numformer.terminal import shell_word, show_text
from numformer.training import TrainingConfig
from numformer.training.trainer import PROGRESS


class Imported(NamedTuple):
    """What an imported model of some kind is a run of.

    Parameters
    ----------
    task : Task
        Its examples are those that other verbs use, unless others are given.
    settings : callable
        ``settings(source, tokenizer)``: those of the recipe, from other files of the folder.
    """

    task: Task
    settings: Callable = lambda source, tokenizer: {}


def add_arguments(parser):
    parser.add_argument("folder", metavar="FOLDER", help="folder of a published model, with "
                        "config.json, model.safetensors and tokenizer.json; nothing is downloaded")
    parser.add_argument("--out", metavar="RUN", default=None,
                        help="folder of the run (default: a new one in runs/)")


def run(arguments):
    source = Path(arguments.folder)
    if not source.is_dir():
        raise UsageError(f"there is no folder {source}; give one with config.json and "
                         "model.safetensors.")
    model, tokenizer = load(source, note=lambda line: show_text(f"{line}\n", sys.stderr))
    kind = type(model).__name__
    if kind not in IMPORTED:
        raise UsageError(f"{source}: its model is a {kind}, but a run can hold one of "
                         f"{', '.join(IMPORTED)}; numformer.interop.load gives it in Python.")
    task = IMPORTED[kind].task
    if task.has_tokens:
        _check_tokenizer(source, model, tokenizer)
    published = _published(source, model, task)
    facts = facts_of(source, kind, model.config, tokenizer) | {"published": published}
    arrays = {f"model.{name}": parameter.data for name, parameter in model.named_parameters()}
    with closing(new_folder(arguments.out, source.resolve().name)) as folder:
        path = folder.path
        with undone_after_errors(path):
            save_checkpoint(folder.checkpoint, arrays, facts)
            folder.open()
            folder.describe(facts)
    parameters = sum(parameter.data.size for parameter in model.parameters())
    tokens = len(tokenizer) if task.has_tokens else None
    chats = isinstance(task, TextTask) and has_template(published)
    prompt = f" --prompt {task.needed_prompt}" if task.needed_prompt else ""
    nexts = [f"sample {shell_word(path)}{prompt}",
             *[f"chat {shell_word(path)}"] * chats]
    show_text(f"{path}: {parameters:,} parameters"
              f"{f', {tokens:,} tokens' if task.has_tokens else ''}. Next:\n"
              + "".join(f"  numformer {line}\n" for line in nexts), sys.stdout)
    if arguments.json:
        print_json({"run": str(path), "parameters": parameters, "tokens": tokens})
    return 0


def _published(source, model, task):
    """The files that travel with the run; UsageError if one is malformed."""
    try:
        found = read_published(source)
        if isinstance(task, TextTask):
            text_settings(found, model.config.vocab_size)             # refused now, not in sample
        return found
    except ValueError as error:
        raise UsageError(f"{source}: {error}") from None


def _check_tokenizer(source, model, tokenizer):
    """UsageError if a run of the model could not use the tokenizer."""
    if tokenizer is None:
        raise UsageError(f"{source} has no tokenizer.json that can be read, and a run needs a "
                         "tokenizer; numformer.interop.load gives the model alone in Python.")
    size = model.config.vocab_size
    if len(tokenizer) != size and not is_padded(tokenizer, size):
        raise UsageError(f"{source}: its tokenizer has {len(tokenizer)} ids, but its model "
                         f"vocab_size={size}; they do not belong together.")


def facts_of(source, kind, config, tokenizer):
    """The facts of a checkpoint at step 0, whose data are the default ones of its task."""
    task, settings = IMPORTED[kind]
    recipe = recipe_of(kind, settings(source, tokenizer))
    if task.has_tokens:
        try:
            task.with_recipe(recipe).source_ids(tokenizer, "")        # needs its special tokens
        except ValueError as error:
            raise UsageError(f"{source}: {error}") from None
    corpus = task.load(task.default_data)
    return {
        "task": task.name, "from": str(source.resolve()),
        "data": {"argument": task.default_data, "name": corpus.name, "sha256": corpus.sha256,
                 "characters": len(corpus)},
        "model": {"kind": kind, "config": config.as_dict()},
        "recipe": recipe.as_dict(), "training": TrainingConfig(steps=1).as_dict(),
        "tokenizer": tokenizer.to_json() if task.has_tokens else None,
        "blas": backend.blas_label(), "progress": PROGRESS,
    }


def special_tokens(source, tokenizer):
    """The names of padding, BOS and EOS of an encoder-decoder, from its config.json.

    Its generation_config.json has priority, as in the published code.
    """
    facts = {}
    for path in (source / "config.json", source / "generation_config.json"):
        try:
            found = parse_json(read_file(path, 16 * MIB)) if path.exists() else {}
            facts |= {key: found[key] for key in SPECIAL_KEYS if found.get(key) is not None}
        except (ValueError, AttributeError) as error:
            raise UsageError(f"{path} is no config ({error}).") from None
    names = {}
    for name, key in zip(SPECIAL, SPECIAL_KEYS):
        value = facts.get(key)
        known = [one for one in tokenizer.special if tokenizer.special_id(one) == value]
        if type(value) is not int or not known:
            raise UsageError(f"{source}: {key} is {brief(value)} in its config.json, but must be "
                             "the id of a special token of its tokenizer; add it there.")
        names[name] = known[0]
    return {"special_tokens": names}


# By kind of model
IMPORTED = {
    **dict.fromkeys(sorted(kinds_of(TASKS["text"])), Imported(TASKS["text"])),
    "EncoderDecoder": Imported(TASKS["instructions"], special_tokens),
    "Bert": Imported(TASKS["masked"]),
    "SentenceBert": Imported(TASKS["passages"]),
    "VisionTransformer": Imported(TASKS["images"]),
    **{kind: Imported(task) for task in fine_tuned.TASKS for kind in task.kinds},
}
