"""numformer audit: check every gradient against the complex step.

    numformer audit relu --figure audit.png
"""

import sys
import time

from numformer import backend
from numformer.commands import UsageError
from numformer.commands.shared.output import check_picture, print_json, save_picture
from numformer.terminal import printable
from numformer.testing.layers.audit_file import audit_file
from numformer.verify.audit import audit
from numformer.verify.errors import largest


def add_arguments(parser):
    parser.add_argument("name", nargs="*", metavar="NAME", help="part of the names to check, such "
                        "as 'norm' or 'decoder' (default: all); or a file my_layers.py with layers "
                        "of your own, classes with forward and backward. Where they need arguments "
                        'or inputs of a certain shape, it gives examples: audit = {"Scale": '
                        '(Scale(4), [x], {"complex_safe": False})}; with the last, central '
                        "differences in place of the complex step")
    parser.add_argument("--figure", metavar="FILE",
                        help="also draw all errors (.png, .svg or .pdf)")


def run(arguments):
    started = time.perf_counter()
    if arguments.figure:
        check_picture("audit: --figure", arguments.figure)
    print(f"{'':5}{'name':48}{'kind':10}{'parameters':>11}{'inputs':>8}{'worst error':>13}"
          f"{'bound':>9}  {'method':18}{'seconds':>8}")
    try:
        files = [name for name in arguments.name if name.endswith(".py")]
        names = [name for name in arguments.name if name not in files]
        missing = []
        rows = [row for path in files for row in _of_file(path, missing.extend)]
        if names or not files:
            rows += audit(names, progress=_print_row, processes=backend.get_threads())
    except ValueError as error:
        raise UsageError(str(error)) from error
    wrong = [row for row in rows if not row["ok"]]
    worst = largest([row["max_error"] for row in rows])
    for row in wrong:
        print(f"FAIL {row['name']}: {'; '.join(row['findings']) or 'worst at ' + row['worst']}")
    for row in rows:
        for remark in row.get("remarks", ()) if row["kind"] == "own" else ():
            print(f"note {row['name']}: {remark}")
    if missing:
        print(f"not audited, as they are in no example: {', '.join(missing)}")
    print(f"{len(rows)} cases, {len(wrong)} wrong; {time.perf_counter() - started:.0f} s")
    if arguments.figure:
        _draw(rows, arguments.figure)
    if arguments.json:
        print_json({"cases": rows, "worst": worst, "ok": not wrong, "not_audited": missing})
    return 1 if wrong else 0


def _of_file(path, left_out):
    """The rows of a file with layers of somebody's own."""
    try:
        return audit_file(path, _print_row, left_out)
    except OSError as error:
        raise UsageError(f"audit: {error.filename}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"audit: {printable(str(error))}") from error


def _print_row(row):
    print(f"{'ok' if row['ok'] else 'FAIL':5}{row['name']:48}{row['kind']:10}"
          f"{row['parameters']:11,}{row['inputs']:8,}{row['max_error']:13.1e}{row['bound']:9.0e}  "
          f"{row['method']:18}{row['seconds']:8.2f}", flush=True)


def _draw(rows, path):
    from numformer.plots import audit_errors

    save_picture(audit_errors(rows), path)
    print(f"wrote {path}", file=sys.stderr)
