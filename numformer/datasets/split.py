"""Which examples are held out: a property of the example itself."""

import hashlib


def is_held_out(example, share):
    r"""Whether an example belongs to the held-out part: its SHA-256, read as a fraction in [0, 1), lies below `share`.

    So the two parts are disjoint by construction, whatever is drawn from them, in which order and with which seed. A run
    with another seed learns from other examples, but is measured on the same part.

    Parameters
    ----------
    example : str
        What must not be seen in training. Examples that give each other away should have the same.
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
