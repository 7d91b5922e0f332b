"""numformer explore: one HTML file to look at a model's attention with."""

from pathlib import Path

from numformer.checks import check_whole
from numformer.commands import UsageError
from numformer.commands.runs import add_run_arguments, add_text_argument, load_run
from numformer.commands.show import print_json
from numformer.explorer import explore
from numformer.training import write_atomically

MOST = 64                                                             # pieces of a text: more are hard to look at


def add_arguments(parser):
    add_run_arguments(parser)
    add_text_argument(parser)
    parser.add_argument("--start", type=int, default=0, metavar="N", help="the first piece of the text that is read, from 0")
    parser.add_argument("--most", type=int, default=MOST, metavar="N", help=f"pieces of a text that are read at most (default: {MOST})")
    parser.add_argument("--out", metavar="FILE", default=None, help="an .html (default: explore.html in the run)")


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
    if (arguments.text is None or tokenizer is None) and (arguments.start, arguments.most) != (0, MOST):
        raise UsageError("--start and --most are for --text, of which they choose a part; leave them out.")
    try:
        text, note = (arguments.text, "") if arguments.text is None or tokenizer is None else cut(task, model, tokenizer, arguments)
        reading = task.reading(model, tokenizer, text)
    except ValueError as error:
        raise UsageError(f"--text: {error}" if arguments.text is not None else str(error)) from None
    try:
        page = explore(model, reading, f"{Path(arguments.run).name}: what the {type(model).__name__} looks at", note)
    except ValueError as error:
        raise UsageError(f"{arguments.run}: {error}") from None
    write_atomically(out, page.html.encode())
    if note:
        print(note)
    print(f"written: {out}; open it in a browser")
    if arguments.json:
        print_json({"files": [str(out)], "note": note})
    return 0


def cut(task, model, tokenizer, arguments):
    """(text, note): the part of a text that is read, and what is to be said of it where that is not all."""
    ids = task.source_ids(tokenizer, arguments.text)
    room, start = min(arguments.most, task.room(model.config) or arguments.most), arguments.start
    if start >= len(ids):
        raise UsageError(f"--start {start} lies behind the text, which has {len(ids)} pieces.")
    if start == 0 and len(ids) <= room:
        return arguments.text, ""
    for stop in range(min(start + room, len(ids)), start, -1):
        part = tokenizer.decode(ids[start:stop])
        broken = part.count("\ufffd") > arguments.text.count("\ufffd")                  # a character was cut in two
        if not broken and len(task.source_ids(tokenizer, part)) <= room:                # what was cut out may be encoded otherwise
            return part, (f"The text has {len(ids)} pieces; read are those from {start} to {stop - 1}. Others are chosen with --start N, "
                          f"more (this model has room for {task.room(model.config) or 'any number'}) with --most N.")
    raise UsageError(f"--start {start} and --most {room} cut a character in two; choose others.")
