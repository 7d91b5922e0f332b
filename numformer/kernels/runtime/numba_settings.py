"""Import Numba: what it cannot read in the environment is one line.

Numba reads variables such as NUMBA_NUM_THREADS when it is imported. It shows a traceback for a
value that it cannot parse, and goes on; or it stops, without the name of the variable. What it
passes on to LLVM, the names of a processor and of its features, LLVM reads when it compiles: there
it prints lines of its own, and may end the process. So those are tried in another process first.
"""

import os
import re
import subprocess
import sys
import warnings

from numformer.terminal import printable, shortened

# Compiles a function for the processor and the features of its two arguments; Numba's if empty
_TRIAL = """if True:
    import sys
    from llvmlite import binding as llvm
    name, features = sys.argv[1:]
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=name or llvm.get_host_cpu_name(), features=features)
    machine.emit_object(llvm.parse_assembly(
        "define double @f(double %x) {\\n %y = fadd double %x, %x\\n ret double %y\\n}"))
"""
SETTINGS_FILE = ".numba_config.yaml"                  # which Numba reads in the working folder
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
            raise ValueError(_line(f"Numba cannot be imported: {_why(error)}")) from None
    for warning in found:
        name = _NOT_PARSED.match(str(warning.message))
        if name is None:
            warnings.warn_explicit(warning.message, warning.category, warning.filename,
                                   warning.lineno)
        else:
            print(_line(f"numformer: Numba cannot read {name[1]}={os.environ.get(name[1])} and "
                        "takes its default; correct the variable, or leave it out"),
                  file=sys.stderr, flush=True)


def check_processor(name, features):
    """ValueError if LLVM does not know a processor or one of its features; None is this machine's.

    Examples
    --------
    >>> check_processor(None, None)
    """
    if name is None and features is None:
        return
    try:
        trial = subprocess.run([sys.executable, "-c", _TRIAL, name or "", features or ""],
                               capture_output=True, text=True, errors="replace", timeout=60)
    except (OSError, ValueError, subprocess.TimeoutExpired):           # it cannot be tried here
        return
    if trial.returncode or trial.stderr.strip():
        words = trial.stderr.strip().partition("\n")[0].partition(" (ignoring")[0]
        raise ValueError(_line(
            f"Numba cannot compile: {words or 'LLVM ends'}. Its settings in the environment are "
            f"{_settings()}; correct them, or leave them out."))


def _why(error):
    """What Numba does not take, and the cure: its file, the working folder, or its variables."""
    try:
        os.getcwd()
    except OSError:
        return "the working folder no longer exists; change to another one."
    words = str(error) or type(error).__name__
    if os.path.lexists(SETTINGS_FILE) and (SETTINGS_FILE in words or _settings() == "none"
                                           or getattr(error, "filename", "") == SETTINGS_FILE):
        return f"{words}; correct or remove {os.path.abspath(SETTINGS_FILE)}."
    if _settings() == "none":
        return words
    return (f"{words} Its settings in the environment are {_settings()}; correct them, or leave "
            "them out.")


def _settings():
    """The variables of Numba, in words."""
    return ", ".join(f"{name}={value}" for name, value in sorted(os.environ.items())
                     if name.startswith("NUMBA_")) or "none"


def _line(text):
    return shortened(printable(" ".join(text.split())))


def _import_and_check():
    import_numba()
    config = sys.modules["numba"].config
    check_processor(config.CPU_NAME, config.CPU_FEATURES)


_import_and_check()
