"""Local and global layers: a stack in which most layers attend within a window only."""

import numpy as np

from numformer.checks import check_whole
from numformer.functional.attention.masks import AttentionPattern


def layer_patterns(pattern, n_layers, window, global_every, global_first=True):
    """The pattern of each layer of a stack that alternates local and global attention.

    A local layer costs T times the window instead of T times T; the global layers between them
    carry information across the whole sequence.

    Parameters
    ----------
    pattern : AttentionPattern
        What holds in all layers: causal, lengths, documents.
    n_layers : int
    window : tuple (left, right)
        Of the local layers. Published numbers count differently: "128 tokens" of ModernBERT are
        (64, 64); a "sliding window of 4096" of Gemma, which counts the query itself, is (4095, 0).
    global_every : int
        One layer in so many is global.
    global_first : bool
        Whether a group begins with its global layer (ModernBERT: layers 0, 3, 6 ... of every 3) or
        ends with it (Gemma 2: layers 1, 3, 5 ... of every 2; Gemma 3: layers 5, 11 ... of every 6).

    Returns
    -------
    list of AttentionPattern
        One for each layer; only two different ones.

    Raises
    ------
    ValueError, TypeError
        If an argument is not of that form.

    References
    ----------
    Warner et al. (2024), "Smarter, Better, Faster, Longer" (ModernBERT), section 2.1.2. Gemma Team
    (2024), "Gemma 2", section 2.

    Examples
    --------
    >>> from numformer.functional import CAUSAL, EVERYWHERE
    >>> [p.window for p in layer_patterns(EVERYWHERE, 4, (64, 64), global_every=3)]
    [None, (64, 64), (64, 64), None]
    >>> [p.window for p in layer_patterns(CAUSAL, 4, (4095, 0), global_every=2, global_first=False)]
    [(4095, 0), None, (4095, 0), None]
    """
    if not isinstance(pattern, AttentionPattern):
        raise TypeError("layer_patterns: pattern must be an AttentionPattern, but is "
                        f"{type(pattern).__name__}.")
    check_whole("layer_patterns", "n_layers", n_layers)
    check_whole("layer_patterns", "global_every", global_every)
    if not isinstance(global_first, (bool, np.bool_)):
        raise TypeError(f"layer_patterns: global_first={global_first!r} must be True or False.")
    local = pattern.local(window)
    global_index = 0 if global_first else global_every - 1           # within each group
    return [pattern if i % global_every == global_index else local for i in range(n_layers)]
