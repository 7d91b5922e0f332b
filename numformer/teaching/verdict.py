"""The result of `check`: right or wrong, and the text that a student reads."""

from dataclasses import dataclass, field, replace

from numformer.teaching.support.layout import box, wrapped

HEADS = {"right": ("\u2713 right", "#2e7d4f"), "wrong": ("\u2717 wrong", "#b3402f"),
         "random": ("\u2717 random", "#b3402f"),
         "not written": ("\u2026 not written yet", "#5b7fa6")}


@dataclass(frozen=True)
class Verdict:
    """The result of `check`: true if the function is right; printed, what a student reads.

    Printed, the text is wrapped at 80 columns and its numbers have four significant digits.

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
    written : bool
        False for a function that does nothing yet.
    seed : int or None
        Of the random problems: ``check(..., seed=seed)`` gives the same verdict again. It is the
        end of the text.
    random : bool
        Whether two calls with the same arguments gave different results.
    levels : tuple of str
        The levels that a right function was tested on.
    """

    ok: bool
    text: str
    output: str | None = None
    index: tuple | None = None
    # in the text, too; NaN is not equal to itself
    found: float | None = field(default=None, compare=False)
    reference: float | None = field(default=None, compare=False)
    error: float | None = field(default=None, compare=False)
    cause: str = ""
    remarks: tuple = ()
    written: bool = True
    seed: int | None = None
    random: bool = False
    levels: tuple = ()

    def of_seed(self, seed):
        """The verdict with its seed, with which its text ends."""
        between = " " if self.ok and not self.remarks else "\n"
        return replace(self, seed=seed, text=f"{self.text}{between}seed={seed}")

    def __bool__(self):
        return self.ok

    def __repr__(self):
        return wrapped(self.text)

    def _repr_html_(self):
        kind = ("right" if self.ok else "not written" if not self.written
                else "random" if self.random else "wrong")
        return box(*HEADS[kind], text=self.text)
