"""Which weight of a module is which of ours: by shapes, by names, and by the order of names."""

import re
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from numformer.testing.layers.words import score

RECURRENT = re.compile(r"(.*?)(weight_ih|weight_hh|bias_ih|bias_hh)(_l\d+)?(_reverse)?$")
BY_ORDER = "by the order of names"
# The blocks of PyTorch in our order: its LSTM has i, f, g, o, and ours i, f, o, g
GATES = {1: [0], 3: [0, 1, 2], 4: [0, 1, 3, 2]}


@dataclass(frozen=True)
class Pair:
    """A part of a weight of theirs is a part of one of ours.

    Parameters
    ----------
    theirs, ours : str
    axes : tuple of int
        The order of their axes that is ours; neighbours are then merged to our shape.
    shape : tuple of int
        Of theirs as ours, before columns are taken.
    columns : (int, int)
        Of theirs, on the last axis of ours.
    ours_columns : (int, int)
    index : int or None
        Which of a stack of matrices, one for each expert.
    how : str
        Why they are a pair, in words.
    """

    theirs: str
    ours: str
    axes: tuple
    shape: tuple
    columns: tuple
    ours_columns: tuple
    index: int | None = None
    how: str = ""

    def view(self, x):
        """The part of a weight, or of a gradient, of theirs in our order."""
        x = x if self.index is None else x[self.index]
        return x.transpose(self.axes).reshape(self.shape)[..., slice(*self.columns)]

    def part(self, x):
        """The same part of ours."""
        return x[..., slice(*self.ours_columns)]

    def __str__(self):
        return f"{self.their_part} = {self.our_part}"

    @property
    def their_part(self):
        text = self.theirs + ("" if self.index is None else f"[{self.index}]")
        if self.columns != (0, self.shape[-1] if self.shape else 1):
            text += f"[{self.columns[0]}:{self.columns[1]}]"
        return text

    @property
    def our_part(self):
        text = self.ours
        if len(self.axes) == 2 and self.axes == (1, 0):
            text += " transposed"
        elif self.axes != tuple(range(len(self.axes))):
            text += f" with axes {self.axes}"
        return text + (f" ({self.how})" if self.how else "")


def table(pairs):
    """The pairs in lines: those of two weights that are cut alike are one."""
    lines = {}
    for pair in pairs:
        lines.setdefault((pair.theirs, pair.ours, pair.axes, pair.how != "added"), []).append(pair)
    return [str(each[0]) if len(each) == 1 else _together(each) for each in lines.values()]


def _together(pairs):
    """One line for several parts of two weights."""
    text = (f"{pairs[0].theirs}, blocks from {', '.join(str(pair.columns[0]) for pair in pairs)} = "
            f"{pairs[0].our_part.partition(' (')[0]}")
    hows = list(dict.fromkeys(pair.how for pair in pairs if pair.how))
    gates = [how.removeprefix("gate ") for how in hows if how.startswith("gate ")]
    return text + (f" (gates {', '.join(gates)})" if gates else f" ({hows[0]})" if hows else "")


def orders(theirs, ours):
    """All orders of the axes of a shape after which neighbours can be merged to another shape.

    Examples
    --------
    >>> orders((6, 4), (4, 6)), orders((4, 2, 3), (4, 6)), orders((3, 3), (3, 3))
    ([(1, 0)], [(0, 1, 2), (0, 2, 1)], [(0, 1), (1, 0)])
    """
    if np.prod(theirs, dtype=int) != np.prod(ours, dtype=int) or len(theirs) > 5:
        return []
    return [axes for axes in permutations(range(len(theirs)))
            if _merges([theirs[k] for k in axes], ours)]


def _merges(sizes, shape):
    ends, wanted = set(np.cumprod(sizes, dtype=int).tolist()), np.cumprod(shape, dtype=int).tolist()
    return len(sizes) >= len(shape) and all(end in ends for end in wanted)


class Pairing:
    """Pairs of all weights of a module with all of ours.

    Parameters
    ----------
    module : TorchModule or its like
        With `weights`, `axes` and `transposes`.
    layer : OurLayer
    names : dict, optional
        Their name to ours, or to a list of ours that theirs holds one after another; of weights, or
        of sublayers whose weights are then paired among themselves.

    Raises
    ------
    ValueError
        If a weight finds no other, with what to give in `names`.
    """

    def __init__(self, module, layer, names=None):
        self.module, self.layer = module, layer
        self.theirs = {name: x.shape for name, x in module.weights.items()}
        self.ours, self.pairs = dict(layer.shapes), []
        self._given(names or {})
        self._recurrent()
        self._fused(named=True)
        self._by_names(list(self.theirs), list(self.ours))
        self._fused(named=False)
        self._experts()
        if self.theirs or self.ours:
            raise ValueError(self._unpaired())
        self._orient()
        order = list(module.weights)
        self.pairs.sort(key=lambda pair: order.index(pair.theirs))

    def arrays(self, weights):
        """Our weights in float64 from theirs; those of several are added."""
        found = {name: np.zeros(shape) for name, shape in self.layer.shapes.items()}
        for pair in self.pairs:
            part = pair.part(found[pair.ours]) if found[pair.ours].ndim else found[pair.ours]
            part += pair.view(weights[pair.theirs]) if part.ndim else weights[pair.theirs].sum()
        return found

    def others(self):
        """Other pairings that shapes allow: square weights the other way, gates in any order."""
        before = list(self.pairs)
        square = [k for k, pair in enumerate(before) if self._is_free(pair)]
        if square:
            self.pairs = [replace(pair, axes=pair.axes[::-1]) if k in square else pair
                          for k, pair in enumerate(before)]
            yield self
            if len(square) <= 6:
                for number in range(1, 2 ** len(square) - 1):
                    turned = {k for n, k in enumerate(square) if number >> n & 1}
                    self.pairs = [replace(pair, axes=pair.axes[::-1]) if k in turned else pair
                                  for k, pair in enumerate(before)]
                    yield self
        for pairs in self._other_gates(before):
            self.pairs = pairs
            yield self
        self.pairs = before

    def other_blocks(self):
        """The pairs with the parts of joint weights in another order; yields that order."""
        before, joint = list(self.pairs), {}
        for pair in before:
            if pair.index is None and pair.shape and not RECURRENT.match(pair.theirs):
                if pair.columns[1] - pair.columns[0] < pair.shape[-1]:
                    joint.setdefault(pair.theirs, []).append(pair)
        sizes = {tuple(pair.columns[1] - pair.columns[0] for pair in pairs)
                 for pairs in joint.values()}
        if len(sizes) == 1 and len(set(*sizes)) == 1 and len(*sizes) <= 3:
            for order in permutations(range(len(*sizes))):
                moved = {id(pair): replace(pair, columns=pairs[k].columns)
                         for pairs in joint.values() for pair, k in zip(pairs, order)}
                self.pairs = [moved.get(id(pair), pair) for pair in before]
                theirs = next(iter(joint))
                yield theirs, [pair.ours for pair in sorted(
                    (pair for pair in self.pairs if pair.theirs == theirs),
                    key=lambda pair: pair.columns)]
        self.pairs = before

    def _other_gates(self, before):
        blocks = {name: part for name, part in self.layer.owners.items()
                  if getattr(part, "gates", 1) > 1}
        recurrent = {f"{name}" for name in self.layer.shapes
                     if any(name == key or name.startswith(f"{key}.") for key in blocks)}
        gates = {part.gates for part in blocks.values()}
        if len(gates) != 1 or any(RECURRENT.match(pair.theirs) for pair in before):
            return
        n = gates.pop()
        for order in permutations(range(n)):
            found = []
            for pair in before:
                width = (pair.columns[1] - pair.columns[0]) // n
                if pair.ours not in recurrent or width * n != pair.columns[1] - pair.columns[0]:
                    found.append(pair)
                    continue
                for k, block in enumerate(order):
                    start, ours = pair.columns[0] + block * width, pair.ours_columns[0] + k * width
                    found.append(replace(pair, columns=(start, start + width),
                                         ours_columns=(ours, ours + width),
                                         how="with these blocks, y is the same"))
            yield found

    def _is_free(self, pair):
        """Whether a weight is square and nothing says which axis is which."""
        return (len(pair.axes) == 2 and len(set(self._shape(pair))) == 1 and not pair.how
                and self.module.axes(pair.theirs) is None and not self._is_table(pair.ours))

    def _shape(self, pair):
        return self.module.weights[pair.theirs].shape[0 if pair.index is None else 1:]

    def _is_table(self, name):
        return type(self.layer.owners.get(name)).__name__ in (
            "Embedding", "LMHead", "SoftCappedLMHead", "LearnedPositions")

    def _add(self, theirs, ours, axes=None, columns=None, ours_columns=None, index=None, how=""):
        """Pair two weights, or parts of them; `axes` of None are chosen in the end."""
        shape = self.layer.shapes[ours]
        width = shape[-1] if shape else 1
        whole = shape if columns is None else None
        self.pairs.append(Pair(theirs, ours, axes, whole, columns or (0, width),
                               ours_columns or (0, width), index, how))

    def _done(self, theirs, *ours):
        self.theirs.pop(theirs, None)
        for name in ours:
            self.ours.pop(name, None)

    def _given(self, names):
        for theirs, ours in names.items():
            listed = [ours] if isinstance(ours, str) else list(ours)
            unknown = [name for name in listed if not _under(name, self.layer.shapes)]
            if unknown or not _under(theirs, self.module.weights):
                raise ValueError(
                    f"assert_layer_matches: names has {theirs!r}: {ours!r}, but " + (
                        f"{unknown[0]!r} is none of ours: {', '.join(self.layer.shapes)}"
                        if unknown else f"{theirs!r} is none of theirs: "
                        f"{', '.join(self.module.weights)}") + ".")
            one = self.layer.shapes.get(listed[0]) if len(listed) == 1 else None
            if theirs in self.module.weights and one is not None:
                shape = self.module.weights[theirs].shape
                if not orders(shape, one):
                    raise ValueError(
                        f"assert_layer_matches: names has {theirs!r}: {ours!r}, but their shapes "
                        f"{shape} and {one} differ.")
                self._add(theirs, listed[0], how="names")
                self._done(theirs, *listed)
            elif theirs in self.module.weights and self._split(theirs, listed, "names"):
                self._done(theirs, *listed)
            elif theirs not in self.module.weights and len(listed) == 1:
                self._by_names(_under(theirs, self.theirs), _under(listed[0], self.ours))
            else:
                raise ValueError(
                    f"assert_layer_matches: names has {theirs!r}: {ours!r}, but the shapes "
                    f"{[self.layer.shapes.get(name) for name in listed]} do not add up to "
                    f"{self.module.weights[theirs].shape}.")

    def _recurrent(self):
        """PyTorch's RNNs, whose two biases are added, and whose gates are in another order."""
        cells = {}
        for name in self.theirs:
            found = RECURRENT.match(name)
            if found:
                cells.setdefault((found[1], found[3], found[4] or ""), {})[found[2]] = name
        ours = [(name, part) for name, part in self.layer.layer.named_layers()
                if hasattr(part, "recurrent_weight") and hasattr(part, "gates")]
        for theirs, (prefix, part) in zip(cells.values(), ours):
            dot = f"{prefix}." if prefix else ""
            width, n = part.recurrent_weight.data.shape[0], part.gates
            if self.theirs[theirs["weight_hh"]] != (n * width, width):
                continue
            for k, block in enumerate(GATES[n]):
                how = "" if GATES[n] == list(range(n)) else f"gate {'ifgo'[block]}"
                cut = dict(columns=(block * width, (block + 1) * width), how=how)
                place = (k * width, (k + 1) * width)
                self._add(theirs["weight_ih"], f"{dot}input.weight", (1, 0), ours_columns=place,
                          **cut)
                self._add(theirs["weight_hh"], f"{dot}recurrent_weight", (1, 0),
                          ours_columns=place, **cut)
                if "bias_ih" not in theirs or f"{dot}input.bias" not in self.ours:
                    continue
                self._add(theirs["bias_ih"], f"{dot}input.bias", (0,), ours_columns=place, **cut)
                inside = f"{dot}recurrent_bias" in self.ours and k == n - 1
                self._add(theirs["bias_hh"], f"{dot}recurrent_bias" if inside
                          else f"{dot}input.bias", (0,),
                          ours_columns=(0, width) if inside else place,
                          **{**cut, "how": how or ("" if inside else "added")})
            done = [name for key, name in theirs.items()
                    if key.startswith("weight") or f"{dot}input.bias" in self.ours]
            for name in done:
                self._done(name)
            for key in ("input.weight", "recurrent_weight", *(
                    ["input.bias", "recurrent_bias"] if len(done) > 2 else [])):
                self.ours.pop(dot + key, None)

    def _fused(self, named):
        """One weight of theirs that holds several of ours, such as queries, keys and values."""
        for theirs in list(self.theirs):
            if named and not re.search(r"qkv|in_proj|c_attn|query_key_value|gate_up|kv_proj|to_kv",
                                       theirs):
                continue
            runs = [run for run in self._runs() if self._splits(theirs, run)]
            if runs:
                best = max(runs, key=lambda run: score(theirs, ".".join(run)))
                self._split(theirs, best, "")
                self._done(theirs, *best)

    def _runs(self):
        """Two or more neighbours of ours of one kind that are not paired: weights, or biases."""
        groups = {}
        for name in self.ours:
            owner, _, kind = name.rpartition(".")
            groups.setdefault((owner.rpartition(".")[0], kind), []).append(name)
        for group in groups.values():
            for start in range(len(group)):
                for stop in range(len(group), start + 1, -1):
                    yield group[start:stop]

    def _splits(self, theirs, run, shape=None):
        """(axes, the joint shape) if these of ours, side by side, have the size of theirs."""
        shape = self.module.weights[theirs].shape if shape is None else shape
        shapes = [self.layer.shapes[name] for name in run]
        if len({shape[:-1] for shape in shapes}) != 1:
            return None
        joint = (*shapes[0][:-1], sum(shape[-1] for shape in shapes))
        found = orders(shape, joint)
        known = self.module.axes(theirs)
        return ((known if known in found else found[-1 if self.module.transposes and len(
            joint) == 2 else 0]), joint) if found else None

    def _split(self, theirs, run, how, index=None):
        shape = self.module.weights[theirs].shape
        found = self._splits(theirs, run, shape if index is None else shape[1:])
        if found is None:
            return False
        axes, shape = found
        start = 0
        for name in run:
            stop = start + self.layer.shapes[name][-1]
            self.pairs.append(Pair(theirs, name, axes, shape, (start, stop),
                                   (0, stop - start), index, how))
            start = stop
        return True

    def _experts(self):
        """A stack (E, ...) of theirs, whose matrices are weights of our experts."""
        for theirs, (n, *shape) in [(name, shape) for name, shape in self.theirs.items()
                                    if len(shape) > 1]:
            groups = {}
            for name in self.ours:
                kind = re.sub(r"(experts?)\.\d+", r"\1", name)
                if kind != name and orders(tuple(shape), self.layer.shapes[name]):
                    groups.setdefault(kind, []).append(name)
            groups = {kind: names for kind, names in groups.items() if len(names) == n}
            if groups:
                best = groups[max(groups, key=lambda kind: score(theirs, kind))]
                for k, name in enumerate(best):
                    self._add(theirs, name, index=k)
                self._done(theirs, *best)
                continue
            runs = [run for run in self._runs() if "experts." in run[0]
                    and self._splits(theirs, run, tuple(shape))]
            first = [name for name in runs[0]] if runs else []
            number = re.search(r"experts\.(\d+)", first[0])[1] if runs else ""
            for k in range(n if runs else 0):         # several of each expert, side by side
                run = [re.sub(r"experts\.\d+", f"experts.{int(number) + k}", name)
                       for name in first]
                if all(name in self.ours for name in run):
                    self._split(theirs, run, "", k)
                    self._done(theirs, *run)

    def _by_names(self, theirs, ours):
        """Pair those whose shapes fit, so that their names fit best, and their order where those
        do not say it."""
        from scipy.optimize import linear_sum_assignment

        theirs = [name for name in theirs if name in self.theirs]
        ours = [name for name in ours if name in self.ours]
        if not theirs or not ours:
            return
        cost = np.full((len(theirs), len(ours)), 1e6)
        for i, a in enumerate(theirs):
            for j, b in enumerate(ours):
                if self._fits(a, b):
                    place = abs(i / len(theirs) - j / len(ours))
                    cost[i, j] = -score(a, b) + 0.1 * place
        rows, columns = linear_sum_assignment(cost)
        for i, j in zip(rows, columns):
            if cost[i, j] < 1e6:
                tied = any(m != i and cost[i, n] < 1e6 and cost[m, j] < 1e6 and np.isclose(
                    score(theirs[i], ours[j]) + score(theirs[m], ours[n]),
                    score(theirs[i], ours[n]) + score(theirs[m], ours[j]))
                    for m, n in zip(rows, columns))
                self._add(theirs[i], ours[j], how=BY_ORDER if tied else "")
                self._done(theirs[i], ours[j])

    def _fits(self, theirs, ours):
        """Whether a weight of theirs can be one of ours: of a known module, in its order."""
        found = orders(self.theirs[theirs], self.ours[ours])
        known = None if self._is_table(ours) else self.module.axes(theirs)
        return found and (known is None or known in found)

    def _orient(self):
        """Choose the order of axes of each pair: by shape, by the module's class, as others do."""
        votes = [self._possible(pair)[0] for pair in self.pairs if pair.axes is None
                 and len(self._shape(pair)) == 2 and len(self._possible(pair)) == 1
                 and not self._is_table(pair.ours) and min(self._shape(pair)) > 1]
        usual = (1, 0) if (1, 0) in votes or not votes and self.module.transposes else (0, 1)
        for k, pair in enumerate(self.pairs):
            if pair.axes is not None:
                shape = pair.shape or tuple(np.array(self._shape(pair))[list(pair.axes)].tolist())
                self.pairs[k] = replace(pair, shape=shape)
                continue
            possible = self._possible(pair)
            known = None if self._is_table(pair.ours) else self.module.axes(pair.theirs) or usual
            axes = known if known in possible else possible[0]
            self.pairs[k] = replace(pair, axes=axes)

    def _possible(self, pair):
        return orders(self._shape(pair), self.layer.shapes[pair.ours])

    def _unpaired(self):
        def listed(shapes):
            return ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "none"
        first = next(iter(self.theirs), "")
        give = (f"Give names={{{first!r}: {next(iter(self.ours))!r}, ...}} (a list of ours where "
                "theirs holds several), or build" if self.theirs and self.ours else "Build")
        return (f"assert_layer_matches: some weights of {self.module.name} and "
                f"{self.layer.name} find no partner by shape and name; theirs: "
                f"{listed(self.theirs)}; ours: {listed(self.ours)}. {give} a layer with the same "
                "options, such as bias.")


def _under(name, names):
    """The names that are this one, or of a sublayer of this name."""
    return [each for each in names if each == name or each.startswith(f"{name}.")]
