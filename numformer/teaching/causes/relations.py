"""How the student's output follows from the right one: a sign, a factor, an order, a part."""

from itertools import combinations, permutations

import numpy as np

from numformer.teaching.causes.evidence import SAME, same

IN_ANOTHER_ORDER = "the gradients are right, but in another order"
SOME, ENOUGH, ALL = range(3)                              # how much a relation says


def relation(evidence):
    """(the cause that the first wrong output shows by itself or "", how much it says).

    ALL: the order of all outputs; no other cause is looked for. ENOUGH: no changed line says more.
    SOME: a factor, of which a changed line may tell where it comes from.
    """
    name, place = evidence.wrong, evidence.place
    wrong = [case for case in evidence.cases if not _is_right(case, place)]
    pairs = [(case.found[place], np.asarray(case.expected[name])) for case in wrong]
    for find in (_order_of_outputs, _shape, _factor):
        cause = find(name, pairs, wrong, evidence)
        if cause:
            if cause.startswith(IN_ANOTHER_ORDER):
                return cause, ALL
            return cause, (ENOUGH if find is not _factor or "sign" in cause or "zero" in cause
                           else SOME)
    return "", SOME


def _is_right(case, place):
    right = list(case.expected.values())[place]
    return same(case.found[place], right, right)


def _order_of_outputs(name, pairs, cases, evidence):
    """All outputs are right, but in another order; or this one is another output."""
    expected = [list(case.expected.values()) for case in cases]
    n, names = len(expected[0]), list(cases[0].expected)
    if n < 2:
        return ""
    for order in permutations(range(n)) if n <= 5 else [tuple(range(n))[::-1]]:
        if order != tuple(range(n)) and all(
                len(case.found) == n and all(
                    case.found[i] is not None and same(case.found[i], right[j], right[i])
                    for i, j in enumerate(order))
                for case, right in zip(cases, expected)):
            found = ", ".join(names[j] for j in order)
            return f"{IN_ANOTHER_ORDER}: {found}"
    for other in range(n):
        if names[other] != name and all(
                same(found, right[other], right[evidence.place])
                for (found, _), right in zip(pairs, expected)):
            return f"{name} is {names[other]}"
    return ""


def _shape(name, pairs, cases, evidence):
    """The numbers are right up to axes: transposed, not summed, summed too far, reversed."""
    def everywhere(test):
        return all(_holds(test, found, right) for found, right in pairs)

    found, right = pairs[0]
    if found.ndim >= 2 and everywhere(lambda a, b: np.swapaxes(a, -1, -2)):
        return f"{name} is transposed: its last two axes are exchanged"
    if found.ndim == right.ndim and found.ndim > 2:
        for axes in permutations(range(found.ndim)):
            if axes != tuple(range(found.ndim)) and everywhere(
                    lambda a, b: a.transpose(np.argsort(axes))):
                return f"{name} has its axes in the order {axes}"
    if found.size == right.size and found.shape != right.shape and everywhere(
            lambda a, b: a.reshape(b.shape)):
        return (f"the numbers of {name} are right, but its shape is not: an axis of size 1 is kept "
                "or lost, or axes are merged")
    for n in range(1, found.ndim + 1):
        for axes in combinations(range(found.ndim), n):
            listed = ", ".join(map(str, axes))
            if found.ndim > right.ndim and everywhere(lambda a, b: a.sum(axis=axes)):
                return (f"{name} is not summed over its axes {listed}, along which the argument "
                        "was broadcast or shared" if n > 1 else
                        f"{name} is not summed over its axis {listed}, along which the argument "
                        "was broadcast or shared")
            if found.ndim > right.ndim and everywhere(lambda a, b: a.mean(axis=axes)):
                return f"{name} must be averaged over its axes {listed}"
            if everywhere(lambda a, b: np.flip(a, axes)):
                return (f"{name} is in reverse order along axis {listed}")
    for n in range(1, right.ndim + 1):
        for axes in combinations(range(right.ndim), n):
            for what, reduce in (("summed", np.sum), ("averaged", np.mean)):
                for keep in (False, True):
                    reduced = [reduce(b, axis=axes, keepdims=keep) for _, b in pairs]
                    if all(np.shape(a) == np.shape(c) and same(a, c, b)
                           for (a, b), c in zip(pairs, reduced)):
                        return f"{name} is {what} over {_of_axes(axes, right.ndim)} too, which " + (
                            "must be kept" if n == 1 else "must all be kept")
    for axis in range(right.ndim):
        for index, which in ((0, "first"), (-1, "last")):
            if all(a.shape == b.shape and a.shape[axis] > 1
                   and same(a, np.repeat(b.take([index], axis), b.shape[axis], axis), b)
                   for a, b in pairs):
                return f"{name} is the {which} entry along axis {axis}, repeated"
        for step in (1, -1):
            if everywhere(lambda a, b: np.roll(a, -step, axis)):
                return f"{name} is moved by one position along axis {axis}"
    return ""


def _of_axes(axes, ndim):
    """The axes of an array in words."""
    if len(axes) == ndim > 1:
        return "all its axes"
    listed = ", ".join(map(str, axes))
    return ("its last axis" if axes == (ndim - 1,) else
            f"its axis {listed}" if len(axes) == 1 else f"its axes {listed}")


def _holds(change, found, right):
    try:
        return same(np.asarray(change(found, right)), right, found)
    except (ValueError, IndexError):
        return False


def _factor(name, pairs, cases, evidence):
    """The wrong output is the right one times one number in every entry."""
    factors = []
    for found, right in pairs:
        if found.shape != right.shape or not np.isfinite(found).all() or not right.any():
            return ""
        factor = float((found * right).sum() / (right ** 2).sum())
        if abs(factor) >= SAME and not same(found, factor * right, right):
            return ""
        if abs(factor) < SAME and np.abs(found).max() > SAME * np.abs(right).max():
            return ""
        factors.append(factor)
    if all(abs(factor) < SAME for factor in factors):
        return f"{name} is zero everywhere"
    if all(abs(factor + 1) < SAME for factor in factors):
        return f"the sign of {name} is wrong"
    first = f"{name} is {factors[0]:.6g} times the reference everywhere"
    if len(factors) < 2:
        return first if pairs[0][1].size > 1 else ""
    if max(factors) - min(factors) < SAME * abs(factors[0]):
        if _may_be_constant(factors[0], cases):
            return f"{first}, for all shapes: a constant factor is wrong"
        return first
    sizes = size_formulas(factors, cases)
    if len(sizes) == 1 and any(option in sizes[0] for option in cases[0].options | {
            name: 0 for name, value in cases[0].arguments.items() if type(value) is float}):
        return f"{first}: the factor {sizes[0]} is one too many"
    if len(sizes) == 1:
        sign = ", and the sign is wrong" if factors[0] < 0 else ""
        return (f"{first}, and {factors[1]:.6g} times for other shapes: a mean instead of a sum, "
                f"or a factor that depends on a size, here {sizes[0]}{sign}")
    if sizes:
        return (f"{first}, and {factors[1]:.6g} times for other shapes: a mean instead of a sum, "
                "or a factor that depends on a size")
    if pairs[0][1].size < 2:
        return ""                                         # every wrong number is a multiple
    other = next(factor for factor in factors if abs(factor - factors[0]) > SAME)
    return f"{first}, and {other:.6g} times on another problem: a factor is wrong"


def _sizes(case):
    """{where: size} of all axes and whole numbers that came in, and of products of them."""
    found = {}
    for name, value in {**case.arguments, **case.options, "dy": case.dy}.items():
        if isinstance(value, np.ndarray) and value.dtype != bool:
            for axis, size in enumerate(value.shape):
                found[f"{name}.shape[{axis}]"] = size
            found[f"{name}.size"] = value.size
            if value.ndim > 2:
                found[f"{name}.shape[0] * {name}.shape[1]"] = value.shape[0] * value.shape[1]
            if value.ndim > 1:
                found[f"{name}.size // {name}.shape[-1]"] = value.size // value.shape[-1]
        elif type(value) in (int, float) and name != "dy":
            found[name] = value
            if name == "rate":
                found["1 - rate"] = 1 - value
    return found


def _may_be_constant(factor, cases):
    """Whether no number that came in has this value, or its root, on all these problems."""
    powers = {abs(factor) ** power for power in (1, -1, 2, -2, 0.5, -0.5)}
    given = [[*_sizes(case).values(), *(value for value in [
        *case.arguments.values(), *case.options.values(), case.dy] if type(value) is float)]
             for case in cases]
    for numbers in given:
        numbers += [1 - number for number in numbers if type(number) is float]
    fixed = [numbers[0] for numbers in zip(*given) if len(set(numbers)) == 1]
    if len(set(map(len, given))) > 1:
        fixed = given[0]
    ratios = []
    for a, b in combinations(range(len(given[0])), 2) if len(set(map(len, given))) == 1 else ():
        quotients = {numbers[a] / numbers[b] if numbers[b] else 0.0 for numbers in given}
        if len(quotients) == 1:
            ratios.append(quotients.pop())
    return not any(number and abs(power - number) < SAME or number and abs(
        power - 1 / number) < SAME for number in [*fixed, *ratios] for power in powers
        if abs(number) != 1)


def size_formulas(factors, cases):
    """The sizes whose power the factor is on all problems: "1 / x.shape[0]"."""
    sizes = [_sizes(case) for case in cases]
    found = {}
    for where in sizes[0]:
        for shown, power in (("1 / {}", -1), ("{}", 1), ("sqrt({})", 0.5), ("1 / sqrt({})", -0.5)):
            if all(where in each and each[where] and abs(each[where] ** power / abs(factor) - 1)
                   < SAME for each, factor in zip(sizes, factors)):
                found.setdefault(tuple(each[where] ** power for each in sizes),
                                 shown.format(where if " " not in where else f"({where})"))
    return list(found.values())
