"""numformer replay: the training of a run as a film, or as a page with a slider.

    numformer replay run --out run.gif
"""

from pathlib import Path
from shutil import which

import numpy as np

from numformer.commands import UsageError
from numformer.commands.shared.output import add_style_arguments, print_json, style_of
from numformer.commands.views.film import film_of
from numformer.commands.views.movies import FPS, HOLD, save_gif, save_mp4
from numformer.commands.views.states import States
from numformer.explorer.replay import replay_page
from numformer.files import write_atomically
from numformer.runs import read_metrics
from numformer.terminal import printable

FORMATS = (".gif", ".mp4", ".html")
MOST_FPS = 50.0


def add_arguments(parser):
    parser.add_argument("run", metavar="RUN", help="folder of a run, trained with --snapshots")
    parser.add_argument("--text", default=None, help="what the model reads, and continues or "
                        "answers (default: a text of its own)")
    parser.add_argument("--layer", type=int, default=None, metavar="N",
                        help="layer of the attention, from 1 (default: see --head)")
    parser.add_argument("--head", type=int, default=None, metavar="N", help="head, from 1 "
                        "(default: the one whose weights change most from the first to the last "
                        "state)")
    parser.add_argument("--frames", type=int, default=None, metavar="N",
                        help="at most this number of states (default: all)")
    parser.add_argument("--fps", type=float, default=None, metavar="X",
                        help=f"states per second (default: {FPS:g})")
    parser.add_argument("--seconds", type=float, default=None, metavar="X", help="duration of the "
                        f"film, instead of --fps; the last state stays {HOLD:g} s longer")
    parser.add_argument("--seed", type=int, default=0, metavar="N",
                        help="seed of the samples (default: 0)")
    add_style_arguments(parser)
    parser.add_argument("--out", metavar="FILE", default=None, help="a .gif, a .mp4 (with ffmpeg "
                        "installed) or a .html file with a slider (default: replay.gif in the run)")


@np.errstate(over="ignore", invalid="ignore")         # of parameters that are very large
def run(arguments):
    out = Path(arguments.out or Path(arguments.run) / "replay.gif")
    _check(arguments, out)
    states = States(arguments.run, arguments.frames)
    try:
        film = film_of(states, arguments, read_metrics(Path(arguments.run) / "metrics.jsonl"))
    except ValueError as error:
        raise UsageError(f"{arguments.run}: {error}") from None
    fps = arguments.fps or FPS
    if arguments.seconds is not None:
        fps = len(film.steps) / arguments.seconds
        if not fps <= MOST_FPS:
            raise UsageError(f"replay: --seconds {arguments.seconds:g} is too short for "
                             f"{len(film.steps)} states; give {len(film.steps) / MOST_FPS:g} or "
                             "more, or fewer --frames.")
    if out.suffix.lower() == ".html":
        write_atomically(out, replay_page(film, fps, arguments.dark).encode())
    else:
        save = save_gif if out.suffix.lower() == ".gif" else save_mp4
        with style_of(arguments):
            save(film, out, fps, HOLD)
    note = ("" if states.from_snapshots else "This run has no snapshots: shown are its best and "
            "its last checkpoint. Train with --snapshots 40 for a film.")
    if note:
        print(note)
    print(f"wrote {printable(out)}: {len(film.steps)} states, to step {film.steps[-1]}")
    if arguments.json:
        print_json({"files": [str(out)], "steps": film.steps, "head": film.head, "text":
                    film.prompt, "samples": film.samples, "note": note})
    return 0


def _check(arguments, out):
    """UsageError for options that cannot be meant, before anything is loaded."""
    if out.suffix.lower() not in FORMATS:
        raise UsageError(f"replay: --out {out} must end in {', '.join(FORMATS)}.")
    if arguments.out and not out.parent.is_dir():
        raise UsageError(f"replay: --out {out}: there is no folder {out.parent}.")
    if out.suffix.lower() == ".mp4" and which("ffmpeg") is None:
        raise UsageError(f"replay: --out {out} needs ffmpeg, which is not on the PATH; install it, "
                         "or write a .gif or a .html file.")
    if arguments.slides and out.suffix.lower() == ".html":
        raise UsageError("replay: --slides is for .gif and .mp4, because a page adapts to its "
                         "screen; leave it out.")
    if arguments.frames is not None and arguments.frames < 2:
        raise UsageError(f"replay: --frames {arguments.frames} must be 2 or more.")
    if arguments.seed < 0:
        raise UsageError(f"replay: --seed {arguments.seed} must be 0 or more.")
    if arguments.fps is not None and arguments.seconds is not None:
        raise UsageError("replay: --fps and --seconds both set the speed; give one of them.")
    if arguments.fps is not None and not 0.1 <= arguments.fps <= MOST_FPS:
        raise UsageError(f"replay: --fps {arguments.fps:g} must be 0.1 to {MOST_FPS:g}.")
    if arguments.seconds is not None and not 0 < arguments.seconds <= 3600:
        raise UsageError(f"replay: --seconds {arguments.seconds:g} must be above 0 and at most "
                         "3600.")
