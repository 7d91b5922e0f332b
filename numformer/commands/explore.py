"""numformer explore: write an HTML page to explore a run's attention by layer, head and query.

    numformer explore run --out run.html
"""

from pathlib import Path

import numpy as np

from numformer.checks import check_whole
from numformer.commands import UsageError
from numformer.commands.shared.output import print_json
from numformer.commands.shared.run_arguments import add_run_arguments, add_text_argument
from numformer.explorer import explore
from numformer.explorer.live import BITS
from numformer.explorer.page import MOST
from numformer.files import write_atomically
from numformer.recipes import TextTask
from numformer.runs import load_run
from numformer.terminal import printable


def add_arguments(parser):
    add_run_arguments(parser)
    add_text_argument(parser)
    parser.add_argument("--start", type=int, default=0, metavar="N",
                        help="first token of the text to use, from 0")
    parser.add_argument("--most", type=int, default=MOST, metavar="N",
                        help=f"largest number of tokens (default: {MOST})")
    parser.add_argument("--weights", choices=list(BITS), default="float16",
                        help="how a live page stores the weights; float16 rounds them and halves "
                        "the file (default: float16)")
    parser.add_argument("--out", metavar="FILE", default=None, help="an .html file (default: "
                        "explore.html in the run)")


@np.errstate(over="ignore", invalid="ignore")         # of parameters that are very large
def run(arguments):
    out = Path(arguments.out or Path(arguments.run) / "explore.html")
    if out.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"explore: --out {out} must end in .html.")
    if arguments.text == "":
        raise UsageError("--text is empty; give at least one token, or leave it out.")
    try:
        check_whole("explore", "--start", arguments.start, least=0)
        check_whole("explore", "--most", arguments.most)
    except ValueError as error:
        raise UsageError(str(error)) from None
    model, tokenizer, facts, task = load_run(arguments.run, arguments.best)
    has_text = arguments.text is not None and tokenizer is not None
    if not has_text and (arguments.start, arguments.most) != (0, MOST):
        raise UsageError("--start and --most choose a part of --text; give --text, or leave them "
                         "out.")
    try:
        text, note = cut(task, model, tokenizer, arguments) if has_text else (arguments.text, "")
        reading = task.reading(model, tokenizer, text)
    except ValueError as error:
        raise UsageError(f"--text: {error}" if arguments.text is not None else str(error)) from None
    try:
        page = explore(model, reading, f"{printable(Path(arguments.run).name)}: "
                       f"{type(model).__name__}", note, tokenizer, arguments.most,
                       arguments.weights)
    except ValueError as error:
        raise UsageError(f"{arguments.run}: {error}") from None
    write_atomically(out, page.html.encode())
    if note:
        print(note)
    print(f"wrote {printable(out)}; open it in a browser")
    if page.why_not_live is not None:
        print(f"The page shows one input and does not compute the model: {page.why_not_live}.")
    if arguments.json:
        print_json({"files": [str(out)], "note": note, "live": page.why_not_live is None})
    return 0


def cut(task, model, tokenizer, arguments):
    """(text, note): the part of a text to use, and a note if that is not all of it."""
    # Parts are cut from the text alone, without what a template has around it
    ids = (tokenizer.encode(arguments.text) if isinstance(task, TextTask)
           else task.source_ids(tokenizer, arguments.text))
    longest = task.max_tokens(model.config)
    most, start = min(arguments.most, longest or arguments.most), arguments.start
    if start >= len(ids):
        raise UsageError(f"--start {start} must be less than the number of tokens of --text, "
                         f"{len(ids)}.")
    if start == 0 and len(task.source_ids(tokenizer, arguments.text)) <= most:
        return arguments.text, ""
    for stop in range(min(start + most, len(ids)), start, -1):
        part = tokenizer.decode(ids[start:stop])
        broken = part.count("\ufffd") > arguments.text.count("\ufffd")  # a character was cut in two
        # a part may be encoded differently
        if not broken and len(task.source_ids(tokenizer, part)) <= most:
            return part, (f"The text has {len(ids)} tokens; shown are tokens {start} to "
                          f"{stop - 1}. --start N chooses the first, --most N their number (at "
                          f"most {longest or 'any number'} for this model).")
    raise UsageError(f"--start {start} and --most {most} split a character; choose others.")
