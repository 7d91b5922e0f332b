"""Output of the verbs: progress of a training, pictures and JSON."""

import io
import json
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from textwrap import wrap

import numpy as np

from numformer import backend
from numformer.commands import UsageError
from numformer.commands.shared.process import Messages
from numformer.files import write_atomically
from numformer.finite import NotFinite, quiet
from numformer.seeds import SAMPLES, branch
from numformer.terminal import printable, show_text

FORMATS = (".png", ".svg", ".pdf")
COLUMNS = 80                                          # of a line that a run prints
# What makes a model large, of the fields of its config
SIZES = ("n_layers", "encoder_layers", "decoder_layers", "depths", "widths", "n_heads", "d_model")
FIRST_SECONDS = 2.0                                   # of training, before its time is estimated
SHORT = 20.0                                          # seconds: nobody needs to know before


class SampleNotFinite(NotFinite):
    """The model of a run gives no sample. One process alone finds it: the one that shows samples.
    """


class Progress:
    """A progress bar on a terminal, and a line and a sample at each validation."""

    def __init__(self, trainer, tokenizer, task):
        from tqdm import tqdm

        if not backend.can_start_threads():
            tqdm.monitor_interval = 0                 # its monitor is a thread
        self.trainer, self.tokenizer, self.task = trainer, tokenizer, task
        self.losses, self.tokens_before = [], trainer.n_targets
        self.first, self.told = None, False           # (step, seconds of training) of its first
        self.stream = Messages(sys.stderr)            # a closed pipe or a full disk ends no run
        self.bar = tqdm(total=trainer.config.steps, initial=trainer.step, unit="step", ascii=True,
                        disable=None, file=self.stream, dynamic_ncols=True)

    def begin(self, facts, path):
        """The model with its size, and the data with what is held out: a line each."""
        trainer = self.trainer
        config = facts["model"]["config"]
        sizes = ", ".join(f"{name}={config[name]}" for name in SIZES if name in config)
        n_parameters = sum(p.data.size for p in trainer.model.parameters())
        n_held_out = sum(batch.n_targets for batch in trainer.validation)
        estimate = trainer.config.eval_blocks
        self.write(lines_of(
            f"{facts.get('preset', 'model')}: {type(trainer.model).__name__}, {n_parameters:,} "
            f"parameters{f' ({sizes})' if sizes else ''}"))
        self.write(lines_of(
            f"{printable(facts['data']['name'])}: {facts['data']['characters']:,} characters; "
            f"validation on {n_held_out:,} targets"
            f"{f' (--eval-blocks {estimate})' if estimate else ''}; run {printable(path)}"))

    def stepped(self, metrics):
        self.losses.append(metrics["loss"])
        self._tell_time()
        self.bar.set_postfix_str(f"loss {metrics['loss']:.3f}, {self.tokens_per_second():,.0f} "
                                 "tokens/s", refresh=False)
        self.bar.update()

    def _tell_time(self):
        """Once, about how long the training takes: the first step, which may compile, left out."""
        step, now = self.trainer.step, self.trainer.seconds
        self.first = self.first or (step, now)
        first, began = self.first
        if self.told or now - began < FIRST_SECONDS:
            return
        self.told = True
        left = self.trainer.config.steps - step
        seconds = left * (now - began) / (step - first)
        if seconds > SHORT:
            self.write(f"{left:,} steps take about {in_words(seconds)}")

    def evaluated(self):
        trainer = self.trainer
        training = f"loss {np.mean(self.losses[-100:]):.4f}, " if self.losses else ""
        bits = self.task.bits_per_character(trainer.val_loss, trainer.validation, self.tokenizer)
        bits = "" if bits is None else f" ({bits:.3f} bits/character)"
        self.write(f"step {trainer.step}: {training}validation {trainer.val_loss:.4f}{bits}, "
                   f"{self.tokens_per_second():,.0f} tokens/s")
        rng = branch(trainer.config.seed, SAMPLES, trainer.step)
        try:
            with quiet():                             # found by the checks of logits
                sample = self.task.sample(trainer.model, self.tokenizer, rng)
        except NotFinite as error:
            raise SampleNotFinite(f"step {trainer.step}: {error}") from None
        if sample:
            self.write("  sample: " + sample.replace("\n", "\n          "))

    def tokens_per_second(self):
        return (self.trainer.n_targets - self.tokens_before) / max(self.trainer.seconds, 1e-9)

    def write(self, text):
        with self.bar.external_write_mode(file=self.stream):
            show_text(text + "\n", self.stream)

    def close(self):
        self.bar.close()


class NoProgress:
    """The `Progress` of a process that shows nothing."""

    def __init__(self, trainer, tokenizer, task):
        pass

    def begin(self, facts, path):
        pass

    def stepped(self, metrics):
        pass

    def evaluated(self):
        pass

    def close(self):
        pass


def lines_of(text):
    """The same text in lines that fit a terminal, those after the first further in."""
    return "\n".join(wrap(text, COLUMNS, subsequent_indent="    ", break_on_hyphens=False,
                          break_long_words=False))


def table_of(head, rows):
    """Columns under their names; the last is wrapped, so that all fit a terminal.

    Examples
    --------
    >>> print(table_of(("kind", "what"), [("loss", "a curve"), ("lens", "each block")]))
    kind  what
    loss  a curve
    lens  each block
    """
    widths = [max(map(len, column)) for column in zip(head, *rows)][:-1]
    lines = []
    for *row, text in (head, *rows):
        start = "".join(f"{cell:{width}}  " for cell, width in zip(row, widths))
        lines += wrap(text, COLUMNS, initial_indent=start, subsequent_indent=" " * len(start),
                      break_on_hyphens=False)
    return "\n".join(lines)


def in_words(seconds):
    """A duration, roughly.

    Examples
    --------
    >>> in_words(95), in_words(20), in_words(9000), in_words(1e6)
    ('2 minutes', '20 seconds', '2.5 hours', '12 days')
    """
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60), ("seconds", 1)):
        if seconds >= 1.5 * length or length == 1:
            return f"{round(seconds / length, unit == 'hours'):g} {unit}"


def draw_pictures(folder, model, tokenizer, task, metrics):
    """Write the loss curve and the pictures of the task into the run's folder; return their names.
    """
    from numformer.plots import loss_curve

    pictures = {"loss.png": loss_curve(metrics, unit=task.unit_of(tokenizer))} if metrics else {}
    pictures |= task.pictures(model, tokenizer)
    for name, axes in pictures.items():
        save_picture(axes, folder.path / name)
    return list(pictures)


def add_style_arguments(parser):
    """The options --dark and --slides of pictures."""
    parser.add_argument("--dark", action="store_true", help="draw for a dark screen")
    parser.add_argument("--slides", action="store_true",
                        help="draw for slides: 16:9, with text of at least 18 points on a slide "
                        "13.33 inches wide, or a line that says how small it is")


@contextmanager
def style_of(arguments):
    """Draw and save pictures as --dark and --slides say."""
    from numformer.plots.axes import dark, slides

    with ExitStack() as stack:
        for chosen, style in ((arguments.dark, dark), (arguments.slides, slides)):
            if chosen:
                stack.enter_context(style())
        yield


def check_picture(flag, path):
    """Refuse, before anything is computed, a path that cannot become a picture."""
    if Path(path).suffix.lower() not in FORMATS:
        raise UsageError(f"{flag} {path} must end in {', '.join(FORMATS)}.")
    if not Path(path).parent.is_dir():
        raise UsageError(f"{flag} {path}: there is no folder {Path(path).parent}.")


def save_picture(picture, path):
    """Write Axes or a Figure as .png, .svg or .pdf; the same picture gives the same bytes.

    A .png keeps the words on it as its description.
    """
    kind, data = Path(path).suffix.lower(), io.BytesIO()
    metadata = {".png": {"Software": None, "Description": words_on(picture)},
                ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[kind]
    _warn_of_small_text(picture.figure, path)
    picture.figure.savefig(data, format=kind[1:], dpi=120, metadata=metadata)
    write_atomically(path, data.getvalue())


def _warn_of_small_text(figure, path):
    from numformer.plots.style import SLIDE_SIZE, in_slides, smallest_text

    if in_slides() and (points := smallest_text(figure)) < SLIDE_SIZE - 0.05:
        print(printable(f"numformer: {path} has text of {points:.0f} points on a slide, where "
                        f"{SLIDE_SIZE} are readable; show a part of it, such as draw --block 1"),
              file=sys.stderr)


def words_on(picture):
    """The texts on Axes or a Figure, a line each, without the labels of ticks."""
    return "\n".join(filter(None, _texts(picture.figure)))


def _texts(artist):
    from matplotlib.axis import Axis
    from matplotlib.text import Text

    if isinstance(artist, Text):
        yield artist.get_text()
    for child in artist.get_children():
        if isinstance(child, Axis):     # ticks depend on what was drawn or measured before
            yield child.label.get_text()
        else:
            yield from _texts(child)


def print_json(result):
    """One JSON object as the last line of stdout."""
    print(json.dumps(result), flush=True)
