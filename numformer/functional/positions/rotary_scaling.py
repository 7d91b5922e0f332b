"""Scaled rotary positions: smaller frequencies, for texts longer than those of pretraining.

A model that was trained on L positions has never seen the angles of later ones. Each form below
makes a text of s L positions look like one of L: frequencies are divided by s, all of them
(`linear`) or only the slow ones (`llama3`, `yarn`), whose pairs of coordinates do not complete a
turn within L positions. What fast pairs say about near tokens then stays as it was.
"""

import math

import numpy as np

from numformer.checks import check_choice, check_number, check_whole
from numformer.functional.positions.rotary import rotary_frequencies

LONGEST = 2**53                                       # positions; every one is a float


def linear_frequencies(width, base=10000.0, factor=1.0):
    r"""Position interpolation: position t gets the angles of position t / s.

    .. math:: \theta'_i = \theta_i / s

    Parameters
    ----------
    width, base
        As in `rotary_frequencies`.
    factor : float, at least 1
        s.

    Returns
    -------
    ndarray, shape (D/2,), float64

    Raises
    ------
    ValueError
        If a number is out of range.

    References
    ----------
    Chen et al. (2023), "Extending Context Window of Large Language Models via Positional
    Interpolation", section 2.3.

    Examples
    --------
    >>> linear_frequencies(4, 100.0, factor=2.0)
    array([0.5 , 0.05])
    """
    check_number("linear_frequencies", "factor", factor, least=1)
    return rotary_frequencies(width, base) / factor


def llama3_frequencies(width, base=10000.0, factor=1.0, original_length=8192,
                       low_frequency_factor=1.0, high_frequency_factor=4.0):
    r"""Divide the frequencies of pairs that make few turns within L positions, as Llama 3.1 does.

    .. math::

        \theta'_i = (1 - \gamma_i)\, \theta_i / s + \gamma_i\, \theta_i, \qquad
        \gamma_i = \mathrm{clip}\!\left(\frac{r_i - \text{low}}{\text{high} - \text{low}},
                   0, 1\right), \qquad r_i = L\, \theta_i / 2 \pi

    where r are the turns within L positions.

    Parameters
    ----------
    width, base, factor
        As in `linear_frequencies`.
    original_length : int
        L, the context length of pretraining.
    low_frequency_factor, high_frequency_factor : float
        Pairs of at most `low` turns are divided by s; those of at least `high` turns stay.

    Returns
    -------
    ndarray, shape (D/2,), float64

    Raises
    ------
    ValueError
        If a number is out of range, or `high` is not above `low`.

    References
    ----------
    Meta's published code of Llama 3.1, `apply_scaling`. The ramp is that of Peng et al. (2023),
    "YaRN", section 3.2.

    Examples
    --------
    >>> llama3_frequencies(4, 1000.0, factor=8.0, original_length=100).round(5)
    array([1.     , 0.00395])
    """
    owner = "llama3_frequencies"
    check_number(owner, "factor", factor, least=1)
    check_whole(owner, "original_length", original_length, most=LONGEST)
    check_number(owner, "low_frequency_factor", low_frequency_factor, above=0)
    check_number(owner, "high_frequency_factor", high_frequency_factor, above=low_frequency_factor)
    frequencies = rotary_frequencies(width, base)                    # (D/2,)
    turns = original_length * frequencies / (2 * math.pi)
    with np.errstate(over="ignore"):                                 # Inf is clipped to 1
        ramp = (turns - low_frequency_factor) / (high_frequency_factor - low_frequency_factor)
    kept = np.clip(ramp, 0, 1)
    return (1 - kept) * frequencies / factor + kept * frequencies


def yarn_frequencies(width, base=10000.0, factor=1.0, original_length=8192, beta_fast=32.0,
                     beta_slow=1.0, truncate=True):
    r"""Divide the frequencies of pairs that make few turns within L positions, as YaRN does.

    .. math::

        \theta'_i = \gamma_i\, \theta_i / s + (1 - \gamma_i)\, \theta_i, \qquad
        \gamma_i = \mathrm{clip}\!\left(\frac{i - i(\beta_{fast})}
                   {i(\beta_{slow}) - i(\beta_{fast})}, 0, 1\right), \qquad
        i(r) = \frac{D \ln (L / 2 \pi r)}{2 \ln \text{base}}

    where the pair i(r) makes r turns within L positions. The ramp is linear in the index of the
    pair, as in the authors' code; their paper has one that is linear in its turns.

    Parameters
    ----------
    width, base, factor, original_length
        As in `llama3_frequencies`; base above 1.
    beta_fast, beta_slow : float
        Turns from which pairs stay, and up to which they are divided by s.
    truncate : bool
        Whether the ends of the ramp are rounded outwards to whole indices.

    Returns
    -------
    ndarray, shape (D/2,), float64

    Raises
    ------
    ValueError
        If a number is out of range, or `beta_fast` is not above `beta_slow`.

    References
    ----------
    Peng et al. (2023), "YaRN: Efficient Context Window Extension of Large Language Models",
    section 3.2, and their code.

    Examples
    --------
    >>> yarn_frequencies(4, 100.0, factor=2.0, original_length=64)
    array([1.   , 0.075])
    """
    owner = "yarn_frequencies"
    check_number(owner, "base", base, above=1)
    check_number(owner, "factor", factor, least=1)
    check_whole(owner, "original_length", original_length, most=LONGEST)
    check_number(owner, "beta_slow", beta_slow, above=0)
    check_number(owner, "beta_fast", beta_fast, above=beta_slow)
    check_choice(owner, "truncate", truncate, [True, False])
    frequencies = rotary_frequencies(width, base)                    # (D/2,)
    # the logarithm of a quotient as a difference: the quotient itself may over- or underflow
    first, last = (width * (math.log(original_length / (2 * math.pi)) - math.log(turns))
                   / (2 * math.log(base)) for turns in (beta_fast, beta_slow))
    if truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, width - 1)
    if first == last:
        last += 0.001                                                # a step, as in their code
    divided = np.clip((np.arange(width // 2) - first) / (last - first), 0, 1)
    return divided * frequencies / factor + (1 - divided) * frequencies


def yarn_attention_factor(factor):
    r"""What YaRN multiplies rotated queries and keys by, so that scores grow by its square.

    .. math:: \sqrt{1 / t} = 0.1 \ln s + 1

    References
    ----------
    Peng et al. (2023), "YaRN", eq. 22 of the preprint (15 in the later version).

    Examples
    --------
    >>> round(yarn_attention_factor(4.0), 4)
    1.1386
    """
    check_number("yarn_attention_factor", "factor", factor, least=1)
    return 0.1 * math.log(factor) + 1


# What each kind has to have, and may have, besides the factor
_NEEDED = {"linear": (), "llama3": ("original_length",), "yarn": ("original_length",)}
_OPTIONAL = {"linear": (), "llama3": ("low_frequency_factor", "high_frequency_factor"),
             "yarn": ("beta_fast", "beta_slow", "truncate", "attention_factor")}
_FUNCTIONS = {"linear": linear_frequencies, "llama3": llama3_frequencies, "yarn": yarn_frequencies}


def scaled_frequencies(width, base=10000.0, scaling=None):
    """The frequencies of a form by name, and what rotated vectors are multiplied by.

    Parameters
    ----------
    width, base
        As in `rotary_frequencies`.
    scaling : dict, optional
        ``kind``: "linear", "llama3" or "yarn"; ``factor``; and the further arguments of
        `linear_frequencies`, `llama3_frequencies` or `yarn_frequencies` by name, of which
        ``original_length`` must be there. For "yarn" also ``attention_factor``, which is
        `yarn_attention_factor` unless given. None: `rotary_frequencies`.

    Returns
    -------
    frequencies : ndarray, shape (D/2,), float64
    attention_factor : float
        1.0 but for "yarn".

    Raises
    ------
    ValueError, TypeError
        If the kind or a name is unknown, one is missing, or a number is out of range.

    Examples
    --------
    >>> scaled_frequencies(4, 100.0, dict(kind="linear", factor=2.0))
    (array([0.5 , 0.05]), 1.0)
    """
    if scaling is None:
        return rotary_frequencies(width, base), 1.0
    owner = "scaled_frequencies"
    if not isinstance(scaling, dict):
        raise TypeError(f"{owner}: scaling must be a dict such as dict(kind='linear', factor=2.0), "
                        f"or None, but is {scaling!r}.")
    numbers = dict(scaling)
    kind = numbers.pop("kind", None)
    check_choice(owner, "kind of scaling", kind, list(_FUNCTIONS))
    needed = {"factor", *_NEEDED[kind]}
    missing, unknown = needed - set(numbers), set(numbers) - needed - set(_OPTIONAL[kind])
    if missing or unknown:
        raise ValueError(f"{owner}: a scaling of kind {kind!r} does not fit; unknown: "
                         f"{sorted(map(str, unknown))}, missing: {sorted(missing)}.")
    attention_factor = numbers.pop("attention_factor", None)
    frequencies = _FUNCTIONS[kind](width, base, **numbers)
    if attention_factor is None:
        attention_factor = yarn_attention_factor(numbers["factor"]) if kind == "yarn" else 1.0
    check_number(owner, "attention_factor", attention_factor, least=1e-9, below=1e9)
    return frequencies, float(attention_factor)
