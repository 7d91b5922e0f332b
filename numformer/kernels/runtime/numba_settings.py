"""Import Numba: what it cannot read in the environment is one line.

Numba reads variables such as NUMBA_NUM_THREADS when it is imported. It shows a traceback for a
value that it cannot parse, and goes on; or it stops, without the name of the variable.
"""

import os
import re
import sys
import warnings

from numformer.terminal import printable, shortened

_NOT_PARSED = re.compile(r"Environment variable '(\w+)' is defined but its associated value")


def import_numba(imported=lambda: __import__("numba")):
    """Import it.

    Parameters
    ----------
    imported : callable
        Imports it.

    Raises
    ------
    ImportError
        If it is missing.
    ValueError
        If it refuses a setting of the environment.
    """
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            imported()
        except ImportError:
            raise
        except Exception as error:
            settings = ", ".join(f"{name}={value}" for name, value in sorted(os.environ.items())
                                 if name.startswith("NUMBA_"))
            raise ValueError(_line(
                f"Numba cannot be imported: {error} Its settings in the environment are "
                f"{settings or 'none'}; correct them, or leave them out.")) from None
    for warning in found:
        name = _NOT_PARSED.match(str(warning.message))
        if name is None:
            warnings.warn_explicit(warning.message, warning.category, warning.filename,
                                   warning.lineno)
        else:
            print(_line(f"numformer: Numba cannot read {name[1]}={os.environ.get(name[1])} and "
                        "takes its default; correct the variable, or leave it out"),
                  file=sys.stderr, flush=True)


def _line(text):
    return shortened(printable(" ".join(text.split())))


import_numba()
