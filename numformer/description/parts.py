"""How layers and models describe themselves: what a diagram, a count and a cost need of them."""

from typing import NamedTuple


class Description(NamedTuple):
    """What a layer says of itself in its method `describe`.

    Parameters
    ----------
    name : str
        In the field's words.
    sizes : str
        Its sizes and options: see `to` and `by`.
    gradient : tuple of str
        The equations of its backward in mathtext, without dollar signs: dy is the gradient of the
        loss with respect to its output y, dx that with respect to its input x.
    weights : int
        How many numbers its own matrices have, those of its sublayers left out: each is multiplied
        once for a token.
    keys : int
        Multiplications for each key that a query attends to: q . k and p v of all heads.
    cache, state : int
        Numbers that inference keeps for each token, and for each sequence.
    idle : tuple of Layer
        The sublayers that a token does not pass, such as the other experts.
    recurrent : bool
        Whether it feeds its output back to itself.
    """

    name: str
    sizes: str = ""
    gradient: tuple = ()
    weights: int = 0
    keys: int = 0
    cache: int = 0
    state: int = 0
    idle: tuple = ()
    recurrent: bool = False


def by(*sizes):
    """Sizes as a diagram prints them.

    Examples
    --------
    >>> by(50257, 768)
    '50,257 x 768'
    """
    return " x ".join(f"{size:,}" for size in sizes)


def to(weight, *more):
    """From which width to which a matrix maps, and more about it.

    Examples
    --------
    >>> import numpy as np
    >>> to(np.zeros((768, 3072)), "GELU")
    '768 to 3,072, GELU'
    """
    C, F = weight.shape[-2:]
    return ", ".join([f"{C:,} to {F:,}", *more])


class Box(NamedTuple):
    """A layer or a function of a model, as a diagram shows it.

    Parameters
    ----------
    name : str
        In the field's words.
    detail : str
        Its sizes and options.
    shape : tuple of str and int
        Of its output; letters as in `Architecture.sizes`.
    parameters : int
        How many it has that no box before it has: a tied one is counted once.
    path : str
        The layer's name in the model, as in `named_layers`; empty for a function.
    page : str
        The file that defines it, below ``numformer/``.
    gradient : tuple of str
        The equations of its backward, each with its dollar signs.
    reads_memory : bool
        Whether it also reads the output of the column before.
    reads_input : bool
        Whether it reads the output of the part before; False for keys of another column alone.
    tied : bool
        Whether it has parameters, but all of them are those of boxes before it.
    recurrent : bool
        Whether it feeds its output back to itself.
    """

    name: str
    detail: str
    shape: tuple
    parameters: int
    path: str
    page: str
    gradient: tuple
    reads_memory: bool = False
    reads_input: bool = True
    tied: bool = False
    recurrent: bool = False


class Row(NamedTuple):
    """Series of parts next to each other: all read the same input, the next part reads them all."""

    series: tuple


class Residual(NamedTuple):
    """Parts in series, and the sum of their output with their input."""

    parts: tuple


class Stack(NamedTuple):
    """Equal blocks, `repeat` of them, each of these parts; `shared` boxes serve all of them."""

    repeat: int
    parts: tuple
    shared: tuple = ()


class Column(NamedTuple):
    """Parts in series from an input on, the name of which is `input`."""

    input: str
    parts: tuple


class Architecture(NamedTuple):
    """Columns next to each other, and parts that read the output of each.

    Parameters
    ----------
    columns : tuple of Column
        Without `joint` parts, the last one makes the output.
    joint : tuple
        Parts after all columns, such as the similarity of CLIP.
    sizes : dict of str to int or str
        What the letters of shapes mean in this model, such as C: 768, or T: "up to 1,024".
    """

    columns: tuple
    joint: tuple
    sizes: dict

    @property
    def parameters(self):
        """Their number: the sum over all boxes, a block as often as it is repeated."""
        return sum(box.parameters * times for box, times in self.boxes())

    def boxes(self):
        """All (box, how often it is there), from the input on."""
        for column in self.columns:
            yield from boxes_of(column.parts)
        yield from boxes_of(self.joint)


def boxes_of(parts, times=1):
    """All (box, how often it is there) of parts in series.

    Examples
    --------
    >>> box = Box("Linear", "", ("B", "C"), 6, "", "layers/linear.py", ())
    >>> list(boxes_of((box, Stack(3, (Residual((box,)),)))))[1][1]
    3
    """
    for part in parts:
        if isinstance(part, Box):
            yield part, times
        elif isinstance(part, Row):
            for series in part.series:
                yield from boxes_of(series, times)
        elif isinstance(part, Residual):
            yield from boxes_of(part.parts, times)
        else:
            yield from boxes_of(part.parts, times * part.repeat)
            yield from boxes_of(part.shared, times)
