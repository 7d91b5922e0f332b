"""The result of `check`: right or wrong, and the text that a student reads."""

from dataclasses import dataclass, field

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
    words : str
        The result in words; `text` also has what was not tested, the remarks and the seed.
    output : str or None
        The first gradient (or "y") that differs.
    index : tuple of int or None
        Where in it the first difference is.
    found, reference, error : float or None
        The two numbers there, and their relative error, Inf where the reference is 0.
    cause : str
        The likely cause, or "". Its names of arguments are the reference's; `words` has it in those
        of the function.
    remarks : tuple of str
        What a right function could do better.
    not_tested : tuple of str
        What could have been tested of a right function, and why it was not.
    beyond : tuple of str
        What of it no task has asked for: options that the function does not take, arguments that
        cannot be left out. The text says so, as nothing is missing there.
    written : bool
        False for a function that does nothing yet.
    seed : int or None
        Of the random problems: ``check(..., seed=seed)`` gives the same verdict again. It is the
        end of the text.
    raised : bool
        Whether it raised an exception.
    random : bool
        Whether two calls with the same arguments gave different results.
    levels : tuple of str
        The levels that a right function was tested on.
    apart : bool
        Whether the function ran in a process of its own, of which nothing but arrays came back.
        Otherwise, as in a notebook, the names of NumPy and Python were ours while the results were
        compared, but a function that sets out to deceive can change this package itself: such a
        verdict is for whoever wants to know, and no grade.
    """

    ok: bool
    words: str
    output: str | None = None
    index: tuple | None = None
    # in the text, too; NaN is not equal to itself
    found: float | None = field(default=None, compare=False)
    reference: float | None = field(default=None, compare=False)
    error: float | None = field(default=None, compare=False)
    cause: str = ""
    remarks: tuple = ()
    not_tested: tuple = ()
    beyond: tuple = ()
    written: bool = True
    seed: int | None = None
    raised: bool = False
    random: bool = False
    levels: tuple = ()
    apart: bool = field(default=False, compare=False)

    @property
    def text(self):
        """The whole verdict in words; it ends with the seed."""
        own = [each for each in self.not_tested if each not in self.beyond]
        missing = f" Not tested: {'; '.join(own)}." if own else ""
        if self.beyond and len(own) < len(self.not_tested):
            names = ", ".join(each.partition(" (")[0] for each in self.beyond)
            missing += f" (The library's function has more, which is not asked for: {names}.)"
        text = "\nRemark: ".join([self.words + missing, *self.remarks])
        if self.seed is None:
            return text
        return f"{text}{' ' if self.ok and not self.remarks else chr(10)}seed={self.seed}"

    def __bool__(self):
        return self.ok

    def __repr__(self):
        return wrapped(self.text)

    def _repr_html_(self):
        kind = ("right" if self.ok else "not written" if not self.written
                else "random" if self.random else "wrong")
        return box(*HEADS[kind], text=self.text)
