"""Compare an optimizer or a learning-rate schedule with ours, step by step."""

import inspect
from functools import partial
from itertools import combinations

import numpy as np

from numformer.checks import check_choice, check_number, check_whole
from numformer.layers import Linear
from numformer.other_libraries import as_array
from numformer.parameter import Layer, Parameter
from numformer.testing.steps import optimizer_rules, schedule_rules
from numformer.training import SCHEDULES, SGD, Adam, AdamW, Muon, clip_factor
from numformer.verify.adapters import positional_names

OWNER = "assert_steps_match"
OPTIMIZERS = {"adam": Adam, "adamw": AdamW, "muon": Muon, "sgd": SGD}
SHAPES = ((5, 3), (3,), (2, 6), (2, 3, 4), (1,))
STEPS = 12
FEW = 2                                               # steps, which most mistakes do not pass
RTOL = {"float64": 1e-9, "float32": 1e-4}
# The settings of each optimizer, and another value, for what the function has a parameter for
OTHER = {"beta1": 0.8, "beta2": 0.95, "epsilon": 1e-6, "weight_decay": 0.1, "momentum": 0.7,
         "ratio": 4.0, "iterations": 3, "max_norm": 2.0}
# Names under which others know them
ALIASES = {"lr": "learning_rate", "eta": "learning_rate", "eps": "epsilon", "wd": "weight_decay",
           "lambda_": "weight_decay", "step": "t", "steps": "t", "b1": "beta1", "b2": "beta2",
           "beta_1": "beta1", "beta_2": "beta2", "clip": "max_norm", "mu": "momentum"}
OF_SCHEDULES = {"total_steps": "steps", "max_steps": "steps", "n_steps": "steps", "S": "steps",
                "max_lr": "peak", "lr": "peak", "learning_rate": "peak", "base_lr": "peak",
                "min_lr": "floor", "warmup_steps": "warmup", "n_warmup": "warmup", "w": "warmup"}
PROBLEMS = ({"steps": 20, "peak": 1.0, "floor": 0.0, "warmup": 0},
            {"steps": 13, "peak": 0.3, "floor": 0.02, "warmup": 4},
            {"steps": 9, "peak": 0.004, "floor": 0.001, "warmup": 1})


def assert_steps_match(name, step, convert=None, dtype="float64", rtol=None, seed=0, **settings):
    """Assert that an optimizer, or a schedule, takes the same steps as ours.

    Parameters
    ----------
    name : str
        "sgd", "adam", "adamw" or "muon"; or a schedule: "constant", "linear", "cosine" or
        "inverse_sqrt".
    step : callable
        Of an optimizer, either a function ``step(parameters, gradients, ...)`` of two lists of
        arrays, which moves the parameters in place, or returns new ones. It also gets what it has
        parameters for: `learning_rate`, `t`, the number of the step from 1 on, `state`, a dict
        that is empty at first and stays its own, and settings, such as `beta1`, `weight_decay`, or
        `max_norm`, to which the norm of all gradients together is clipped.
        Or a function or class of one argument, the list of parameters, that makes an optimizer:
        one of PyTorch, such as `torch.optim.AdamW` with ``convert=torch.from_numpy``, or anything
        with a method ``step(gradients, ...)``.
        Of a schedule, a function of the step, from 0 on, and of what it has parameters for:
        `steps`, `peak`, `floor` and `warmup`.
    convert : callable, optional
        Applied to each array that `step` gets, such as `torch.from_numpy`.
    dtype : "float64" or "float32"
        Of the arrays.
    rtol : float, optional
        The largest error of a step, relative to it; 1e-9 in float64 and 1e-4 in float32.
    seed : int
        Of the parameters and gradients.
    **settings
        Of ours, where it shall have other than its default: ``weight_decay=0.1``;
        `decay_vectors`, whether vectors decay, too, as in PyTorch without parameter groups;
        `learning_rate`, for a step that does not take it, 0.001 unless given. For a schedule
        `steps`, `peak`, `floor` and `warmup`.

    Returns
    -------
    str
        What was tested, and which settings were not, as there are no such parameters.

    Raises
    ------
    AssertionError
        If a step differs: which one first, in which array and where, both steps and their ratio,
        and the likely cause, a mistake that gives the same steps; or two of them.
    ValueError, TypeError
        If an argument is not as above.

    Notes
    -----
    There are twelve steps of five arrays of 1 to 3 axes, with learning rates that change and
    gradients of many sizes, from about 1e-10 to 10. In "muon", the arrays with two axes are hidden
    matrices.

    Examples
    --------
    >>> def adam(parameters, gradients, state, t, learning_rate):
    ...     for k, (p, g) in enumerate(zip(parameters, gradients)):
    ...         m, v = state.get(k, (0, 0))
    ...         state[k] = m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    ...         p -= learning_rate * m / (1 - 0.9 ** t) / np.sqrt(v / (1 - 0.999 ** t) + 1e-8)
    >>> assert_steps_match("adam", adam)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: adam: step 1 is wrong in parameter 0 ...
    Likely cause: epsilon is inside the root.
    ...
    """
    __tracebackhide__ = True
    check_choice(OWNER, "name", name, [*OPTIMIZERS, *SCHEDULES])
    check_choice(OWNER, "dtype", dtype, list(RTOL))
    check_whole(OWNER, "seed", seed, least=0)
    if not callable(step) or not (convert is None or callable(convert)):
        raise TypeError(f"{OWNER}: step and convert must be functions.")
    if rtol is not None:
        check_number(OWNER, "rtol", rtol, above=0)
    rtol = RTOL[dtype] if rtol is None else rtol
    if name in SCHEDULES:
        wrong, text = _schedule(name, step, rtol, settings)
    else:
        wrong, text = _optimizer(name, step, convert, dtype, rtol, seed, settings)
    if wrong:
        raise AssertionError(text)
    return text


def _optimizer(name, step, convert, dtype, rtol, seed, given):
    """(whether it is wrong, the text)."""
    usual = defaults_of(name)
    rate = given.pop("learning_rate", 1e-3)
    for key, value in given.items():
        check_choice(OWNER, "setting", key, list(usual))
        if key == "decay_vectors":
            check_choice(OWNER, key, value, [True, False])
        else:
            check_number(OWNER, key, value, least=0)
    check_number(OWNER, "learning_rate", rate, above=0)
    usual |= given
    theirs = _Step(step, convert)
    taken = [key for key in usual if key in theirs.takes and key not in given]
    runs = [usual] + ([usual | {key: OTHER[key] for key in taken if key in OTHER}] if taken else [])
    problems = [Problem(name, settings, dtype, seed + k, None if theirs.takes_rate else rate)
                for k, settings in enumerate(runs)]
    found, remark = [], ""
    for problem in problems:
        found.append(theirs.steps(problem))
        difference = problem.difference(found[-1], rtol)
        if difference and _explains({"clip": "added"}, problems, found, rtol):
            remark = " It adds 1e-6 to the norm by which it clips, as PyTorch does."
            continue
        if difference:
            # what the first runs say, too: a cause explains all of them
            return True, "\n".join([f"{name}: {difference}", *_cause(name, problems, found, rtol),
                                    problem.words()])
    missing = [key for key in usual if key not in theirs.takes and key not in given
               and key not in ("decay_vectors",)]
    text = f"{name}: right over {STEPS} steps of {len(SHAPES)} arrays"
    missing += [] if theirs.takes_rate else ["learning_rate"]
    more = f" Not tested, as there are no such parameters: {', '.join(missing)}." if missing else ""
    return False, f"{text}.{remark}{more}"


def defaults_of(name):
    """The settings of an optimizer of ours, with its defaults, and those of any."""
    parameters = inspect.signature(OPTIMIZERS[name].__init__).parameters.values()
    found = {p.name: p.default for p in parameters if p.name not in ("self", "model")}
    decays = {"decay_vectors": False} if "weight_decay" in found else {}
    return found | {"max_norm": 0.0} | decays


class _Model(Layer):
    """Parameters by number; in Muon, matrices are those of linear maps."""

    def __init__(self, arrays, linear):
        self.parts = []
        for x in arrays:
            part = Parameter(x)
            if linear and x.ndim == 2:
                part = Linear(*x.shape, None, bias=False)
                part.weight = Parameter(x)
            self.parts.append(part)


class Problem:
    """Parameters, gradients and learning rates of several steps, and where ours go."""

    def __init__(self, name, settings, dtype, seed, rate=None):
        rng = np.random.default_rng(seed)
        self.name, self.settings, self.dtype = name, settings, dtype
        self.begin = [rng.standard_normal(shape).astype(dtype) for shape in SHAPES]
        sizes = [10.0 ** rng.uniform(-8, 1, shape) for shape in SHAPES]
        growth = 10.0 ** rng.uniform(-2.5, 0.5, STEPS)                # some norms are clipped
        self.gradients = [[(factor * size * rng.standard_normal(shape)).astype(dtype)
                           for shape, size in zip(SHAPES, sizes)] for factor in growth]
        self.rates = [rate or 0.01 * (1 + 0.8 * np.sin(k)) for k in range(STEPS)]
        self.expected = self._ours()

    def _ours(self):
        """The arrays after each step, in float64, by our optimizer itself."""
        settings = dict(self.settings)
        most, vectors = settings.pop("max_norm"), settings.pop("decay_vectors", False)
        model = _Model([x.astype(np.float64) for x in self.begin], self.name == "muon")
        kind = OPTIMIZERS[self.name]
        if vectors:
            kind = type(kind.__name__, (kind,), {
                "group_of": lambda self, name: "hidden" if name in getattr(self, "hidden", ())
                else "matrices"})
        optimizer, found = kind(model, **settings), []
        for gradients, rate in zip(self.gradients, self.rates):
            for parameter, g in zip(model.parameters(), gradients):
                parameter.grad[...] = g
            optimizer.step(rate, clip_factor(optimizer.gradient_norm(), most))
            found.append([parameter.data.copy() for parameter in model.parameters()])
        return found

    def with_mistake(self, mistake, most=STEPS):
        """The arrays after each step, of so many at most, with a mistake."""
        parameters, state, found = [x.astype(np.float64) for x in self.begin], {}, []
        settings = self.settings | mistake.get("settings", {})
        given = list(zip(self.gradients, self.rates))[:most]
        for t, (gradients, rate) in enumerate(given, start=1):
            parameters = optimizer_rules.moved(
                self.name, parameters, [np.float64(g) for g in gradients], state, t, rate,
                settings, mistake)
            found.append(parameters)
        return found

    def difference(self, found, rtol, expected=None):
        """The first step that differs, in words; "" if none does."""
        expected = self.expected if expected is None else expected
        before, theirs_before = ([np.float64(x) for x in self.begin] for _ in range(2))
        allowed = [0.0] * len(SHAPES)
        for t, (right, theirs) in enumerate(zip(expected, found), start=1):
            for k, (p, x) in enumerate(zip(right, theirs)):
                move = p - before[k]
                allowed[k] = allowed[k] + rtol * (np.abs(move) + 0.01 * np.abs(move).max()) \
                    + 4 * np.finfo(self.dtype).eps * np.abs(p)
                if np.shape(x) != p.shape:
                    return (f"step {t} returns shape {np.shape(x)} for parameter {k} of shape "
                            f"{p.shape}.")
                wrong = ~((np.abs(x - p) <= allowed[k]) | np.isnan(x) & np.isnan(p))
                if wrong.any():
                    with np.errstate(all="ignore"):
                        excess = np.where(wrong, np.abs(x - p) / allowed[k], 0)
                    worst = np.unravel_index(np.argmax(excess), p.shape)
                    return self._words(t, k, wrong, worst, x - theirs_before[k], move)
            before, theirs_before = right, theirs
        return ""

    def _words(self, t, k, wrong, index, found, move):
        index = tuple(int(i) for i in index)
        with np.errstate(all="ignore"):
            ratios = found / move
        ratio = ratios[index]
        equal = wrong.sum() > 1 and np.allclose(ratios[wrong], ratio, rtol=1e-3)
        more = " in all of them" if equal else ""
        return (f"step {t} is wrong in parameter {k} {found.shape}, in {wrong.sum()} of "
                f"{wrong.size} entries, most at {index}: it moves by {found[index]:.6g}, numformer "
                f"by {move[index]:.6g}, ratio {_digits(ratio)}{more}"
                f"{f'; steps before it are right' if t > 1 else ''}.")

    def words(self):
        """The settings, for an error."""
        settings = ", ".join(f"{key}={value}" for key, value in self.settings.items())
        return f"Settings: {settings}, learning rates {self.rates[0]:.4g}, {self.rates[1]:.4g}, ..."


def _digits(ratio):
    """A ratio with so many digits that one near 1 is not 1."""
    return f"{ratio:.6g}" if f"{ratio:.6g}" != "1" else f"{ratio:.12g}"


class _Step:
    """What a caller gave, as steps of lists of arrays."""

    def __init__(self, step, convert):
        self.step, self.convert = step, convert
        try:
            parameters = inspect.signature(step).parameters.values()
        except (TypeError, ValueError):
            parameters = ()
        needed = [p for p in parameters if p.default is p.empty and p.kind in (
            p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self.makes = len(needed) == 1
        self.names = [] if self.makes else positional_names(step, keywords=True)[2:]
        self.takes = {ALIASES.get(name, name) for name in self.names}
        self.takes_rate = self.makes or "learning_rate" in self.takes

    def steps(self, problem):
        """The arrays after each step."""
        given = [self._given(x) for x in problem.begin]
        move, found = self._mover(given, problem), []
        for t, (gradients, rate) in enumerate(zip(problem.gradients, problem.rates), start=1):
            with np.errstate(all="ignore"):
                returned = move(given, [self._given(g) for g in gradients], t, rate)
            if isinstance(returned, (list, tuple)) and len(returned) == len(given):
                given = list(returned)
            elif returned is not None:
                raise TypeError(
                    f"{OWNER}: step must move the parameters in place and return None, or return a "
                    f"list of {len(given)} arrays, but returned {type(returned).__name__}.")
            found.append([np.array(as_array(x), np.float64) for x in given])
        return found

    def _given(self, x):
        x = x.copy()
        return self.convert(x) if self.convert else x

    def _mover(self, given, problem):
        """A function (parameters, gradients, t, rate) for one run."""
        if not self.makes:
            return partial(self._called, self.step, self.names, {}, problem.settings)
        made = self.step(given)
        if hasattr(made, "param_groups"):
            return partial(_of_torch, made)
        made = getattr(made, "step", made)
        if not callable(made):
            raise TypeError(f"{OWNER}: {made!r} was made of the parameters, but cannot be called "
                            "and has no step(gradients).")
        names = positional_names(made, keywords=True)[1:]
        return lambda parameters, gradients, t, rate: _without(
            made(gradients, **_options(names, {}, t, rate, problem.settings)), parameters)

    def _called(self, step, names, state, settings, parameters, gradients, t, rate):
        returned = step(parameters, gradients, **_options(names, state, t, rate, settings))
        if "state" in names and isinstance(returned, tuple) and len(returned) == 2:
            returned, new = returned
            if new is not state and isinstance(new, dict):
                state.clear()
                state.update(new)
        return returned


def _without(returned, parameters):
    """None for a result that is not a list of parameters."""
    return returned if isinstance(returned, list) and len(returned) == len(parameters) else None


def _options(names, state, t, rate, settings):
    """The arguments of these names."""
    values = {"state": state, "t": t, "learning_rate": rate, **settings}
    return {name: values[ALIASES.get(name, name)] for name in names
            if ALIASES.get(name, name) in values}


def _of_torch(optimizer, parameters, gradients, t, rate):
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()


def _cause(name, problems, found, rtol):
    """["Likely cause: ..."]: one mistake, or two, that give all the steps; else []."""
    mistakes = optimizer_rules.MISTAKES[name]

    values = {f"{key} is {value:g}": {"settings": {key: value}}
              for key, value in optimizer_rules.other_values(problems[-1].settings)}
    return _likely(mistakes, lambda mistake: _explains(mistake, problems, found, rtol), values)


def _explains(mistake, problems, found, rtol):
    """Whether a mistake gives all the steps; the first of them are compared first."""
    with np.errstate(all="ignore"):
        return all(not problem.difference(steps, rtol, problem.with_mistake(mistake, most))
                   for most in (FEW, STEPS) for problem, steps in zip(problems, found))


def _likely(mistakes, explains, values=()):
    known = {**mistakes, **dict(values)}
    for words, mistake in known.items():
        if explains(mistake):
            return [f"Likely cause: {words}."]
    for (one, first), (other, second) in combinations(known.items(), 2):
        both = _both(first, second)
        if both and explains(both):
            return [f"Likely causes, two: {one}; {other}."]
    return []


def _both(first, second):
    """Two mistakes at once; None where both change the same."""
    settings = [mistake.get("settings", {}) for mistake in (first, second)]
    if first.keys() & second.keys() - {"settings"} or settings[0].keys() & settings[1].keys():
        return None
    return {**first, **second, "settings": {**settings[0], **settings[1]}}


def _schedule(name, f, rtol, given):
    """(whether it is wrong, the text)."""
    for key, value in given.items():
        check_choice(OWNER, "setting", key, list(PROBLEMS[0]))
        check_number(OWNER, key, value, least=0)
    names = positional_names(f, keywords=True)[1:]
    taken = {OF_SCHEDULES.get(key, key): key for key in names}
    fixed = {key: value for key, value in PROBLEMS[0].items() if key not in taken} | given
    problems = list({tuple((each | fixed).items()): each | fixed for each in PROBLEMS}.values())

    def theirs(step, problem):
        found = as_array(f(step, **{taken[key]: value for key, value in problem.items()
                                    if key in taken}))
        if np.ndim(found) or not np.issubdtype(np.asarray(found).dtype, np.number):
            raise TypeError(f"{OWNER}: a schedule must return a number, but returned "
                            f"{type(found).__name__}.")
        return float(found)

    found = [[theirs(step, problem) for step in range(problem["steps"])] for problem in problems]
    for problem, rates in zip(problems, found):
        right = [SCHEDULES[name](step, **problem) for step in range(problem["steps"])]
        for step, (rate, expected) in enumerate(zip(rates, right)):
            if not abs(rate - expected) <= rtol * problem["peak"]:
                def explains(mistake):
                    return all(np.allclose(each, [
                        schedule_rules.rate(name, s, mistake=mistake, **of)
                        for s in range(of["steps"])], rtol, rtol * of["peak"])
                        for each, of in zip(found, problems))
                ratio = rate / expected if expected else np.inf
                settings = ", ".join(f"{key}={value}" for key, value in problem.items())
                text = (f"{name}: the learning rate of step {step} is {rate:.6g}, but must be "
                        f"{expected:.6g}, ratio {ratio:.6g}.")
                return True, "\n".join([text, *_likely(schedule_rules.MISTAKES, explains),
                                        f"Settings: {settings}; steps count from 0."])
    missing = [key for key in PROBLEMS[0] if key not in taken and key not in given]
    text = f"{name}: right on {sum(map(len, found))} steps of {len(problems)} runs."
    return False, text + (f" Not tested, as there are no such parameters: {', '.join(missing)}."
                          if missing else "")
