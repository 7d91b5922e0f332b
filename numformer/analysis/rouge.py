"""ROUGE-L: how much of a reference a summary has, in the same order."""

from numformer.checks import check_number


def rouge_l(candidate, reference, beta=1.0):
    r"""The F-measure of the longest common subsequence of a summary and its reference.

    .. math::

        P = \frac{\mathrm{LCS}}{m}, \qquad R = \frac{\mathrm{LCS}}{n}, \qquad
        F = \frac{(1 + \beta^2) P R}{R + \beta^2 P}
          = \frac{P R}{w R + (1 - w) P}, \qquad w = \frac{1}{1 + \beta^2}

    for m words of the candidate and n of the reference. Words of a subsequence are in the same
    order in both, but not always next to each other. F is 0 where no word is common.

    Parameters
    ----------
    candidate, reference : sequence
        Words or token ids. An empty one has nothing in common with any other.
    beta : float, above 0
        How many times as important recall is as precision. Summaries of one sentence are usually
        compared with 1; the paper uses larger values.

    Returns
    -------
    float
        From 0 to 1.

    Raises
    ------
    ValueError, TypeError
        If a text is given instead of its words, or beta is not above 0.

    References
    ----------
    Lin (2004), "ROUGE: A Package for Automatic Evaluation of Summaries", section 3.1, eqs. 2 to 4.

    Examples
    --------
    >>> reference = "police killed the gunman".split()
    >>> rouge_l("police kill the gunman".split(), reference)
    0.75
    >>> rouge_l("the gunman kill police".split(), reference)
    0.5
    """
    for name, words in (("candidate", candidate), ("reference", reference)):
        if isinstance(words, str):
            raise TypeError(f"rouge_l: {name} is a text; split it into words first.")
    check_number("rouge_l", "beta", beta, above=0)
    common = longest_common_subsequence(candidate, reference)
    if not common:
        return 0.0
    precision, recall = common / len(candidate), common / len(reference)
    w = 1 / (1 + float(beta) * float(beta))                           # 0 where beta^2 is too large
    return precision * recall / (w * recall + (1 - w) * precision)


def longest_common_subsequence(one, other):
    r"""How many items the longest common subsequence of two sequences has.

    .. math::

        L_{i,j} = \begin{cases} L_{i-1,j-1} + 1 & a_i = b_j \\
            \max(L_{i-1,j}, L_{i,j-1}) & \text{otherwise} \end{cases}

    Parameters
    ----------
    one, other : sequence

    Returns
    -------
    int

    Examples
    --------
    >>> longest_common_subsequence("nematode", "empty")
    3
    """
    row = [0] * (len(other) + 1)                                      # L of the items of one so far
    for item in one:
        before, row = row, [0]
        for j, another in enumerate(other):
            row.append(before[j] + 1 if item == another else max(before[j + 1], row[j]))
    return row[-1]
