"""The result of `check`: right or wrong, and the text that a student reads."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """The result of `check`: true if the function is right; printed, what a student reads.

    Parameters
    ----------
    ok : bool
        Whether the function is right.
    text : str
        The result in words.
    output : str or None
        The first gradient (or "y") that differs.
    index : tuple of int or None
        Where in it the first difference is.
    found, reference, error : float or None
        The two numbers there, and their relative error.
    cause : str
        The likely cause, or "".
    remarks : tuple of str
        What a right function could do better.
    """

    ok: bool
    text: str
    output: str | None = None
    index: tuple | None = None
    found: float | None = None
    reference: float | None = None
    error: float | None = None
    cause: str = ""
    remarks: tuple = ()

    def __bool__(self):
        return self.ok

    def __repr__(self):
        return self.text
