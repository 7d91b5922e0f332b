"""Where a function is wrong, if nothing else is known: which entries, and what they share."""


def location(evidence):
    return ""
