"""Which examples are held out: a property of the example, not of a random split."""

import hashlib


def is_held_out(example, share):
    r"""Whether an example is held out: its SHA-256, read as a fraction in [0, 1), is below `share`.

    So the two parts are disjoint by construction, however examples are sampled from them. A run
    with another seed trains on other examples, but is measured on the same part.

    Parameters
    ----------
    example : str
        What must not be seen in training; the same str for examples that give each other away.
    share : float in [0, 1]

    Returns
    -------
    bool

    Examples
    --------
    >>> sum(is_held_out(str(number), 0.1) for number in range(10_000))
    1018
    """
    return int.from_bytes(hashlib.sha256(example.encode()).digest()[:8]) < share * 2**64
