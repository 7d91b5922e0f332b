"""Levels: the kinds of random instances on which an answer is compared with a function.

All sizes of an instance differ, so that no axis can be mistaken for another. The plain level is the
first. Options belong to a level: an answer without that option is not tested there.
"""

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Level:
    """One kind of random instances.

    Parameters
    ----------
    make : callable
        Takes a random generator and returns the arguments by name, in the order of the function,
        and the options.
    hint : str
        For a student who passes the levels before and fails this one.
    shows : callable, optional
        Takes the first wrong number and the right one, and says what they show, such as an
        overflow; what it says is the hint then, unless it is "".
    needs : tuple of str
        Parameters that a function must have to be tested here, in addition to the options.
    optional : bool
        Whether the last argument is left out here: for functions that have a default of None there.
    dy : float
        The size of the gradient of the output. Other than 1: a level of backwards only.
    arrange : callable, optional
        Takes an array and a number, and returns the same numbers in another layout of memory.
    dtype : type
        Of the arrays of floats.
    instances : int
        How many are tested.
    close : float, optional
        The relative error of a right answer; by default that of the dtype.
    required : bool
        If not, a function that fails here is still right, with a remark.
    ambiguous : bool
        Whether different mistakes may give the same numbers: these are very large or small, or few,
        or of other axes in each instance. Then the hint stands for a cause.
    may_refuse : bool
        Whether a function may raise an exception here, as it does not know a value of an option.
    """

    make: object
    hint: str = ""
    shows: object = None
    needs: tuple = ()
    optional: bool = False
    dy: float = 1.0
    arrange: object = None
    dtype: type = np.float64
    instances: int = 3
    close: float | None = None
    required: bool = True
    ambiguous: bool = False
    may_refuse: bool = False

    def __call__(self, rng):
        return self.make(rng)

    def hint_for(self, found, reference):
        """The hint, by the first wrong number and the right one; None where there are no numbers.

        """
        said = self.shows(found, reference) if self.shows and found is not None else ""
        return said or self.hint


class SomeOfSizeOne(np.random.Generator):
    """A generator with which `sizes` makes some sizes 1."""


class OneLong(np.random.Generator):
    """A generator with which `sizes` makes one size long: that of the axis seed % n.

    So n consecutive seeds make each axis long in turn. In every other round it is longer than most
    tiles, of 128 or less, and no multiple of them.
    """

    n_sizes = 0                                          # of the last call of `sizes`
    size = None                                          # of the long axis; drawn unless given

    @classmethod
    def of_seed(cls, seed, size=None):
        """That of an Instance with this seed; with another size of the long axis."""
        rng = cls(np.random.default_rng(seed).bit_generator)
        rng.size = size
        return rng


LONG = (15, 16, 17, 31, 33, 63, 65, 127, 129, 257)       # about the sizes of tiles and chunks
LONGER = LONG[-2:]


def sizes(rng, n):
    """`n` different sizes from 2 to 7, in random order.

    They depend on the last two digits of the seed alone, and two seeds in a row have the same. The
    seeds of different levels differ by hundreds, so their instances have few shapes together, and
    libraries that compile a function for each shape do so a few times only.
    """
    seed = rng.bit_generator.seed_seq.entropy
    of_sizes = np.random.default_rng(seed % 100 // 2)
    drawn = [int(size) for size in of_sizes.permutation(np.arange(2, 8))[:n]]
    if isinstance(rng, SomeOfSizeOne):
        ones = of_sizes.permutation(n)[:of_sizes.integers(1, n + 1)]
        drawn = [1 if i in ones else size for i, size in enumerate(drawn)]
    if isinstance(rng, OneLong):
        turn, axis = divmod(seed, n)
        drawn[axis] = int(of_sizes.choice(LONG if turn % 2 else LONGER))
        drawn[axis] = rng.size or drawn[axis]
        rng.n_sizes = n
    return drawn


def one_array(**options):
    """A maker of one array x, with these options."""
    def make(rng):
        rows, columns = sizes(rng, 2)
        return {"x": 1.5 * rng.standard_normal((rows, columns))}, options
    return make


def also(make, **options):
    """The maker of the same arguments with further options; one that is callable makes its value.

    It takes the arguments and the generator.
    """
    def more(rng):
        arguments, given = make(rng)
        return arguments, given | {name: value(arguments, rng) if callable(value) else value
                                   for name, value in options.items()}
    return more


def with_activations(make, names, default):
    """A level for each activation but the default; one instance of each but the first."""
    return {f'activation="{name}"': make(activation=name) if number == 0 else Level(
        make(activation=name), instances=1, may_refuse=True) for number, name in enumerate(
            name for name in names if name != default)}


def in_pairs(levels):
    """Levels in which two options meet: those of one level, and the numbers of another.

    A pair that some level has already is left out, and one of an option that a level needs.
    """
    options = {name: level(np.random.default_rng(0))[1] for name, level in levels.items()}
    numbers = {name: given for name, given in options.items() if given and levels[name].required
               and all(isinstance(value, (bool, int, float, str)) for value in given.values())}
    found, met = {}, [set(given) for given in options.values()]
    for one, level in list(levels.items())[1:]:
        for other, further in numbers.items():
            both = options[one].keys() | further.keys()
            if (level.required and not {*options[one], *level.needs} & further.keys()
                    and (not options[one] or not any(both <= each for each in met))):
                found[f"{one}, {other}"] = replace(
                    level, make=also(level.make, **further), instances=1,
                    needs=(*level.needs, *levels[other].needs))
                met.append(both)
    return found


def huge(rng):
    arguments, options = one_array()(rng)
    arguments["x"][0] *= 1e150
    return arguments, options


def elementwise(at_zero=None, **options):
    """The levels of a function of single numbers, with one for each option."""
    levels = {"plain": one_array()}
    levels.update({f"{name}={value}": one_array(**{name: value})
                   for name, value in options.items()})
    levels["numbers of 1e150"] = Level(huge, "The square or the cube of these numbers overflows.",
                                       required=False)
    if at_zero:
        levels["zeros"] = at_zero
    return levels
