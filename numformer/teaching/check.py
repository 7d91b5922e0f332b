"""Check a function of a student on random problems, and name the likely cause of an error."""

from dataclasses import replace

import numpy as np

from numformer.checks import check_choice, check_whole
from numformer.specifications import Instance, find_problem
from numformer.teaching.apart.messages import NOT_WRITTEN, RAISED, Trouble
from numformer.teaching.calls import Ended, answers_to, call_of, student_of
from numformer.teaching.comparison import (
    are_different, is_upcast, strange_output, wrong_output)
from numformer.teaching.isolation import check_limits, student
from numformer.teaching.likely_cause import likely_cause
from numformer.teaching.own_names import in_own_names, own_names
from numformer.teaching.signatures import accepts, promises, takes_saved
from numformer.teaching.support.names import record_names
from numformer.teaching.support.solution import record_pass
from numformer.teaching.verdict import Verdict
from numformer.verify.adapters import positional_names

AGAIN = "the first call with the same arguments had a result"
LATER = "a later call with the same arguments had a result"
RANDOM = ("random: two calls with the same arguments gave different results. Fill every entry of "
          "np.empty, keep nothing between calls (in global variables, attributes, or arrays as "
          "defaults), and take random numbers only from an argument, such as rng")
UPCAST = ("Given float32, it returns float64, which is right, but needs more memory: somewhere it "
          "meets float64, such as np.zeros(shape), an array of int like np.arange(4), or a number "
          "of NumPy like np.sqrt(2); with math.sqrt(2) it would stay float32.")


def check(name, fn, seed=None, levels=None, seconds=10.0, memory=2 ** 30, process=None,
          cause=True):
    """Is this function right? Compare it with the reference on random problems of unseen shapes.

    Parameters
    ----------
    name : str
        A function of `numformer.functional`, such as "softmax", or its backward, such as
        "softmax_backward".
    fn : callable
        A forward takes the arguments of the reference and returns y, or a tuple that begins with y.
        A backward takes the gradient of the output and then the arguments of the forward,
        `fn(dy, x, ...)`, and returns the gradients of the arrays in their order; if its second
        argument is named `saved`, it takes what the reference forward saved. Options such as `axis`
        or `pattern` are tested only if `fn` has such a parameter.
    seed : int, optional
        Seed of the problems; a fresh one each time by default. Every verdict ends with its seed,
        and the same seed gives the same verdict again.
    levels : sequence of str, optional
        Levels to test, such as ``["plain"]``; by default all that the signature promises. A level
        that is named here is tested, unless it has an option that `fn` does not accept.
    seconds : float or None
        Time limit of one call of `fn`, without that in which other programs had the cores (on
        Linux); None for no limit. Without timers, as in a browser or on Windows, it needs Python
        3.12 or later, else there is a warning: loops are stopped, and not one long call of NumPy.
    memory : int or None
        Limit of the bytes that a call of `fn` may need; None for no limit. Linux only.
    process : bool, optional
        Whether `fn` runs in a process of its own, a forked child, which gets arguments and sends
        back arrays: then it may crash or end Python, loop inside a C function, or change any state,
        and the reference and the comparison are in another process. By default it does, but not in
        a notebook, not on macOS and Windows, and not with JAX, TensorFlow or PyTorch loaded, whose
        threads do not survive a fork. What `fn` starts ends with it, but not in a session of its
        own. In the same process a limit of time can only stop Python code in the main thread, and
        nothing stops `os._exit` or a crash. NumPy's own functions compare there, also if `fn` has
        replaced them, or what methods of arrays use; but a function that sets out to deceive can
        change this package, or NumPy further inside. For a debugger, give ``seconds=None,
        process=False``.
    cause : bool
        Whether to look for the likely cause. Without, the verdict says what differs, where and how
        much: for exercises in which the cause is to be found.

    Returns
    -------
    Verdict
        True or false, and readable: the first gradient that differs and where, both numbers, the
        relative error, and the likely cause: a mistake, or two, that give the same numbers, such as
        a known one, an option ignored, or a change of one step; the size up to which a function is
        right; or what the numbers show, such as how many digits are right. Of a matrix product
        whose shapes do not fit, it says what to transpose.
        A function whose body is `...`, that raises NotImplementedError or that returns None is "not
        written yet"; the verdict names the call that gives the first hint. One that answers twice
        differently for the same arguments is "random".

    Raises
    ------
    ValueError
        If there is no such function, or it has no such level; if the seed is not a whole number of
        at least 0, or a limit not above 0; if there is no process on a system without fork.
    TypeError
        If `fn` cannot be called.

    Notes
    -----
    *Right* means, on all levels that are tested:

    - Every output has the shape of the reference's and is finite. It is a plain array of floats, of
      NumPy or of a library whose arrays have `__array__`.
      No argument, nothing in `saved`, and no result of an earlier call is written into.
    - A second call with the same arguments gives the same, up to rounding. On every level one
      problem is given twice, and any on which the function is wrong. And a call with other numbers
      in the same shapes is right, too.
    - Every number has a relative error of at most 1e-9 (1e-5 where the arrays are float32),
      relative to itself and 1% of the largest number of its array; or its error is at most 300
      rounding errors of 1 and of the terms that were added. The size of these terms is measured:
      the reference runs again with a small random error in each step
      (`numformer.teaching.rounding`). So a small difference of large terms may be computed in any
      order.

    The signature decides which levels are tested: one with an option if `fn` has that parameter or
    ``**options``; one that leaves an argument out, such as the bias, if it may be left out of `fn`,
    with a default of None; grouped heads if `fn` has a pattern and a scale; a target of -100 if it
    has `ignore_index`. A function that takes `saved` is tested on all. The verdict says how many
    problems there were, with how many axes and how long ones, and what was not tested and why:
    options without a parameter, and parameters of `fn` that no problem gives. The levels that were
    tested are its `levels`.

    Options are tested alone and in pairs, and each with axes of size 1 and a long one. Everybody
    gets the edges: axes of size 1, each axis in turn a long one (up to 257), other numbers of axes
    where a shape has "...", large numbers (exp overflows), small numbers, a large and a small dy
    (nothing is clipped), arrays that are views, and float32. Not tested: special points such as the
    kink of ReLU, or equal maxima. A few levels lie beyond what a plain function must do: a row of a
    mask that is False everywhere, zero vectors, and float32 that should stay float32. What goes
    wrong there is remarked in the verdict of a right function, unless `levels` names the level. A
    function that raises an exception for views, as PyTorch does for negative strides, gets copies
    of them, which is remarked, too.

    Examples
    --------
    >>> def softmax_backward(dp, x):
    ...     p = np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)
    ...     return p * dp
    >>> check("softmax_backward", softmax_backward).cause
    'the sum over all weights is missing: softmax_backward is p * (dp - sum(p * dp))'
    """
    name, problem, backward = find_problem(name)
    if not callable(fn):
        raise TypeError(f"check: fn must be a function, but is {type(fn).__name__}.")
    seed = np.random.SeedSequence().entropy % 2**32 if seed is None else seed
    check_whole("check", "seed", seed, least=0)
    seed = int(seed)
    for level in levels or ():
        check_choice("check", "level", level, list(offered_levels(problem, backward)))
    check_limits(seconds, memory, process)
    names = own_names(fn, problem, backward), positional_names(fn, keywords=True)
    with student(fn, seconds, memory, process) as asked:      # who may change what names mean
        verdict = compared(name, problem, backward, asked, seed, levels, cause)
    if verdict:
        record_pass(name)
    record_names(name, *names)
    return verdict


def offered_levels(problem, backward):
    """The levels of a forward or of a backward."""
    return {level: kind for level, kind in problem.levels.items() if backward or kind.dy == 1}


def instances_of(problem, offered, seed):
    """(level, its random instances) of each of the levels that are offered."""
    for number, level in enumerate(offered):
        yield level, [Instance(problem, level, seed + 100 * number + k)
                      for k in range(offered[level].instances)]


def compared(name, problem, backward, fn, seed, levels, cause=True):
    """The verdict on a function, or on a `Student` with limits: `check` without what is around it.

    """
    student = student_of(fn)
    try:
        verdict = _compared(name, problem, backward, student, seed, levels, cause)
    except Ended as ended:
        verdict = Verdict(False, f"{name}: {ended}.")
    verdict = in_own_names(verdict, student.signature, problem, backward)
    return replace(verdict, seed=seed, apart=student.apart)


def _compared(name, problem, backward, student, seed, levels, cause):
    offered = offered_levels(problem, backward)
    passed, left_out, refused, remarks, tested = [], [], [], [], []
    for level, instances in instances_of(problem, offered, seed):
        if levels and level not in levels:
            continue
        if not promises(student.signature, instances[0], backward,
                        named=level in (levels or ())):
            left_out.append(instances[0])
            continue
        verdict = _first_wrong(name, student, instances, backward, remarks, cause)
        if verdict is None and not passed:
            verdict = second_call(name, student, instances[0], backward)
        if verdict is not None and not verdict.written and not passed:
            return verdict
        if verdict is not None and verdict.raised and offered[level].may_refuse:
            refused.append(f"{level} (it raises an exception)")
            continue
        if verdict is not None and (offered[level].required or level in (levels or ())):
            return _with_levels(verdict, problem, level, passed)
        if verdict is not None:
            remarks.append(f"{verdict.words} (level: {level}) {offered[level].hint}")
            continue
        passed.append(level)
        tested += instances
    beyond = not_asked_for(student.signature, left_out)
    missing = not_tested(student.signature, tested, left_out, backward, complete=not levels)
    return Verdict(True, f"right: {name} on {extent(tested)}.", not_tested=(
                   *beyond, *missing, *refused), beyond=tuple(beyond),
                   remarks=tuple(dict.fromkeys(remarks)), levels=tuple(passed))


def extent(instances):
    """How many problems were tested, with how many axes of the first array, and how long ones."""
    shapes = [[x.shape for x in instance.numbers[0].values() if isinstance(x, np.ndarray)]
              for instance in instances]
    axes = sorted({len(first) for first, *_ in shapes})
    axes = f"{axes[0]} to {axes[-1]} axes" if len(axes) > 1 else f"{axes[0]} ax{'ei'[axes == [1]]}s"
    longest = max(size for each in shapes for shape in each for size in (*shape, 1))
    n = len(instances)
    return f"{n} random problem{'s' * (n > 1)} of {axes}, with sizes up to {longest}"


def not_asked_for(signature, left_out):
    """What the library's function can beyond a student's: options, arguments to be left out."""
    missing = _missing_options(signature, left_out)
    found = [f"{', '.join(missing)} (no such {'parameter' if len(missing) == 1 else 'parameters'})"
             ] if missing else []
    return found + [f"{instance.level} (its default must be None)" for instance in left_out
                    if all(accepts(signature, name) for name in instance.numbers[1])
                    and _kind(instance).optional]


def _missing_options(signature, left_out):
    """The options of levels that were left out, which a function does not take."""
    return list(dict.fromkeys(name for instance in left_out for name in (
        *instance.numbers[1], *_kind(instance).needs) if not accepts(signature, name)))


def not_tested(signature, tested, left_out, backward, complete):
    """What of a function's own could not be tested: a list of names with a reason.

    The parameters that no instance gives are among them if the levels are `complete`.
    """
    found, missing = [], _missing_options(signature, left_out)
    if complete and not (backward and takes_saved(signature)):
        given = {name for instance in tested for name in instance.numbers[1]}
        n = max((len(instance.numbers[0]) for instance in tested), default=0) + backward
        unused = [name for name in positional_names(signature, keywords=True)[n:]
                  if name not in given | set(missing)]
        found += [f"{', '.join(unused)} (no problem gives it)"] if unused else []
    return found


def _first_wrong(name, student, instances, backward, remarks, cause):
    """None if the function is right on all instances, else a Verdict.

    It is asked for all at once, and for the first one twice.
    """
    *answers, again = answers_to(student, (*instances, instances[0]), backward)
    for instance, found in zip(instances, answers):
        verdict = _compare(name, student, instance, backward, remarks, cause, found,
                           again if instance is instances[0] else None)
        if verdict is not None:
            return verdict
    return None


def outputs_of(student, instance, backward, remarks=None, found=None):
    """(outputs, trouble) as of `answers_to`; None for an argument that was left out is left out.

    A function that raises an exception for views gets copies; that is added to the remarks. `found`
    is the answer, if it is known.
    """
    outputs, trouble = found or answers_to(student, [instance], backward)[0]
    if trouble and trouble.kind == RAISED and _kind(instance).arrange:
        levels = {instance.level: replace(_kind(instance), arrange=None)}
        copies = replace(instance, problem=replace(instance.problem, levels=levels))
        outputs, trouble_with_copies = answers_to(student, [copies], backward)[0]
        if remarks is not None and trouble_with_copies is None:
            remarks.append(f"For arrays that are views {trouble.partition('; its arguments')[0]}; "
                           "it was tested with copies of them.")
        trouble = trouble_with_copies
    return without_left_out(outputs, trouble, instance, backward)


def without_left_out(outputs, trouble, instance, backward):
    """The same (outputs, trouble) without a None for the gradient of what was left out."""
    wanted = instance.problem.wanted
    if outputs is None or not backward or len(outputs) > len(wanted):
        return outputs, trouble
    arguments, options = instance.numbers
    given = [of for of in wanted if {**arguments, **options}.get(of) is not None]
    if len(outputs) == len(given):
        return outputs, trouble
    for found, of in zip(outputs, wanted):
        if of not in given and found is not None:
            return None, Trouble(f"there is no {of} here, so d{of} must be None, or be left out",
                                 "another number of outputs")
    return tuple(found for found, of in zip(outputs, wanted) if of in given), trouble


def _compare(name, student, instance, backward, remarks, cause, found, again=None):
    """None if the function is right on this instance, else a Verdict.

    `found` is its answer, `again` that to the same call later, where it was asked twice. If
    something is wrong, which may be random, it is called again.
    """
    expected = instance.expected(backward)

    def named(outputs, trouble):
        """(the outputs by name if they are arrays or None, None or a Verdict)."""
        if trouble:
            return None, _in_trouble(name, trouble)
        strange = strange_output(name, outputs, expected, instance)
        return None if strange is not None else dict(zip(expected, outputs)), strange

    outputs, trouble = outputs_of(student, instance, backward, remarks, found)
    arrays, wrong = named(outputs, trouble)
    if arrays is not None:
        wrong = wrong_output(name, outputs, expected, instance)
    if (again or wrong is not None) and (trouble is None or trouble.kind == RAISED):
        first = trouble
        outputs_again, trouble = outputs_of(student, instance, backward, found=again)
        if trouble and trouble.kind not in (RAISED, NOT_WRITTEN):
            return _in_trouble(name, trouble)         # a limit stopped it this time
        arrays_again, _ = named(outputs_again, trouble)
        if trouble and arrays is not None:
            return _in_trouble(name, Trouble(f"{trouble}; {AGAIN}", trouble.kind))
        if first and not trouble:
            return _in_trouble(name, Trouble(f"{first}; {LATER}", first.kind))
        if (arrays is None) != (arrays_again is None) or arrays is not None and are_different(
                name, arrays, arrays_again, instance):
            return Verdict(False, f"{name}: {RANDOM}.", random=True)
    if arrays is None:
        return wrong
    if wrong is None and is_upcast(outputs, instance):
        remarks.append(UPCAST)
    level = _kind(instance)
    if (wrong is None or not (cause and wrong.output) or level.dtype != np.float64
            or level.ambiguous or not level.required
            or not np.isfinite(arrays[wrong.output]).any()):
        return wrong
    plain = {key: kind for key, kind in instance.problem.levels.items()
             if not kind.hint or key == instance.level}
    instance = replace(instance, problem=replace(instance.problem, levels=plain))
    cause = likely_cause(name, lambda others: _quiet(student, others, backward), instance,
                         wrong.output)
    words = wrong.words + (f"\nLikely cause: {cause}." if cause else "")
    return replace(wrong, words=words, cause=cause)


def _quiet(student, instances, backward):
    """The outputs of a function on each instance; None if anything is wrong with a call."""
    try:
        found = [outputs_of(student, instance, backward, found=found) for instance, found
                 in zip(instances, answers_to(student, instances, backward))]
    except Ended:
        return [None] * len(instances)
    return [None if trouble else outputs for outputs, trouble in found]


def _in_trouble(name, trouble):
    """The verdict on a call without a result."""
    if trouble.kind != NOT_WRITTEN:
        return Verdict(False, f"{name}: {trouble}.", raised=trouble.kind == RAISED)
    return Verdict(False, f'{name}: {trouble}. hint("{name}") gives the first hint.', written=False)


def same_buffer(name, student, instance, other, backward):
    """(A Verdict if a call on `other` writes into the results of one on `instance`, its answer).

    There is a Verdict, too, if the first call has no result.
    """
    ((_, trouble), second), shared = student.answers(
        [call_of(student, each, backward) for each in (instance, other)])
    if trouble:
        return _in_trouble(name, trouble), second
    if shared:
        return Verdict(False, f"{name}: its second call wrote into the result of the first, because"
                              " it returns the same array each time; make a new array in each "
                              "call."), second
    return None, second


def second_call(name, student, instance, backward):
    """A Verdict if other numbers in the same shapes are not answered as if nothing was before."""
    other = with_other_numbers(instance)
    verdict, second = same_buffer(name, student, instance, other, backward)
    if verdict is not None:
        return verdict
    outputs, trouble = without_left_out(*second, other, backward)
    if trouble:
        return _in_trouble(name, trouble)
    wrong = wrong_output(name, outputs, other.expected(backward), other)
    if wrong is None:
        return None
    return replace(wrong, words=f"{wrong.words}\nIt was right for other numbers in the same shapes "
                   "before: is something kept from call to call, such as a table by shape?")


def with_other_numbers(instance):
    """The instance with each array in reverse along its first axis."""
    def reversed_arrays(rng):
        return tuple({name: x[::-1].copy() if isinstance(x, np.ndarray) and x.ndim else x
                      for name, x in part.items()} for part in _kind(instance).make(rng))

    level = replace(_kind(instance), make=reversed_arrays)
    return replace(instance, problem=replace(
        instance.problem, levels={**instance.problem.levels, instance.level: level}))


def _kind(instance):
    return instance.problem.levels[instance.level]


def _with_levels(verdict, problem, level, passed):
    """The verdict with the level at which the function failed, those it passed, and the hints."""
    words = f"{verdict.words}\nLevel of this problem: {level}"
    words += f"; passed before: {', '.join(passed)}." if passed else "."
    shown = problem.levels[level].hint_for(verdict.found, verdict.reference)
    hints = [hint for hint in (shown, problem.note) if hint]
    return replace(verdict, words="\n".join([words, *hints]))
