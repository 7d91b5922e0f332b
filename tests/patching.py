"""A function with one change in its source."""

import inspect
import textwrap


def patched(function, old, new, **more):
    """The function with `old` replaced by `new` in its source; `more` adds to its globals."""
    function = inspect.unwrap(function)
    source = textwrap.dedent(inspect.getsource(function))
    found = source.count(old)
    assert found == 1, f"{old!r} occurs {found} times in {function.__name__}"
    names = {**function.__globals__, **more}
    exec(source.replace(old, new), names)
    return names[function.__name__]
