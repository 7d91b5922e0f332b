"""Pipeline parallelism, simulated: when each stage runs which micro-batch, idle time, and memory.

A model of many layers is cut into stages, one on each machine. A batch is cut into micro-batches,
which follow one another through the stages, so that several stages work at the same time. The
gradients of all micro-batches are added before the optimizer moves the weights: a schedule changes
the order of the work, but not the gradient.
"""

from typing import NamedTuple

from numformer.checks import check_choice, check_number, check_whole


class Operation(NamedTuple):
    """The forward or the backward of one micro-batch at one stage.

    Parameters
    ----------
    stage : int
        From 0, which has the first layers.
    direction : "forward" or "backward"
    micro_batch : int
        From 0.
    start, stop : float
        When it runs, in the unit of the durations.
    """

    stage: int
    direction: str
    micro_batch: int
    start: float
    stop: float


def pipeline_schedule(stages, micro_batches, kind="1f1b", forward=1.0, backward=2.0):
    r"""When each stage of a pipeline runs the forward and the backward of each micro-batch.

    The forward of a stage needs the output of the stage before it. The backward needs the gradient
    from the stage after it, and the activations that the stage saved in its own forward. A stage
    does one thing at a time, in the order of the schedule, each as soon as what it needs has
    stopped. Sending takes no time here.

    Parameters
    ----------
    stages : int
        p.
    micro_batches : int
        m.
    kind : "1f1b" or "gpipe"
        The order of the work at stage s, from 0. "gpipe": all forwards, then all backwards. "1f1b":
        p - 1 - s forwards to warm up (all m, if there are fewer), then one forward and one backward
        in turn, then the remaining backwards. No stage holds parts from several depths of the model
        ("interleaved").
    forward, backward : float
        How long one takes at one stage, in any unit. A backward takes about twice as long as a
        forward: for each matrix product of the forward it has two, which give the gradients with
        respect to the input and to the weight.

    Returns
    -------
    list of Operation
        By start.

    Raises
    ------
    ValueError
        If a number is not a whole number above 0, a duration is not above 0, or the kind is
        unknown.

    References
    ----------
    Huang et al. (2019), "GPipe: Efficient Training of Giant Neural Networks using Pipeline
    Parallelism", section 2.3; Narayanan et al. (2019), "PipeDream: Generalized Pipeline
    Parallelism for DNN Training"; Narayanan et al. (2021), "Efficient Large-Scale Language Model
    Training on GPU Clusters Using Megatron-LM", section 2.2.1, has 1F1B as it is here, where all
    micro-batches of a step see the same weights.

    Examples
    --------
    >>> for operation in pipeline_schedule(2, 1):
    ...     print(*operation)
    0 forward 0 0.0 1.0
    1 forward 0 1.0 2.0
    1 backward 0 2.0 4.0
    0 backward 0 4.0 6.0
    """
    owner = "pipeline_schedule"
    check_whole(owner, "stages", stages)
    check_whole(owner, "micro_batches", micro_batches)
    check_choice(owner, "kind", kind, WARM_UP)
    check_number(owner, "forward", forward, above=0)
    check_number(owner, "backward", backward, above=0)
    stages, micro_batches = int(stages), int(micro_batches)
    duration = {"forward": float(forward), "backward": float(backward)}
    waiting = [_order(micro_batches, min(WARM_UP[kind](stages, micro_batches, stage),
                                         micro_batches)) for stage in range(stages)]
    free, stops, done = [0.0] * stages, {}, []        # when each stage and each operation stopped
    while len(done) < 2 * stages * micro_batches:
        for stage, order in enumerate(waiting):
            while order:
                direction, n = order[-1]
                needs = _needs(stages, stage, direction, n)
                if any(need not in stops for need in needs):
                    break                             # in a later round, after other stages
                order.pop()
                start = max([free[stage], *(stops[need] for need in needs)])
                stop = start + duration[direction]
                free[stage] = stops[stage, direction, n] = stop
                done.append(Operation(stage, direction, n, start, stop))
    return sorted(done, key=lambda operation: operation.start)


# How many forwards stage s of p runs before it alternates.
WARM_UP = {"gpipe": lambda p, m, s: m, "1f1b": lambda p, m, s: p - 1 - s}


def _order(m, warm_up):
    """[(direction, micro-batch)] of one stage, the last first."""
    forwards, backwards = ([(direction, n) for n in range(m)]
                           for direction in ("forward", "backward"))
    order = forwards[:warm_up]
    for pair in zip(forwards[warm_up:], backwards):
        order += pair
    return [*order, *backwards[m - warm_up:]][::-1]


def _needs(p, stage, direction, n):
    """What must have stopped before an operation can start, as (stage, direction, micro-batch)."""
    if direction == "forward":
        return [(stage - 1, "forward", n)] if stage else []
    own = (stage, "forward", n)
    return [own] if stage == p - 1 else [own, (stage + 1, "backward", n)]


def bubble_share(schedule):
    r"""The share of the stages' time in which they are idle: the bubble of a pipeline.

    It is measured on the schedule: one minus the time of all operations over p times the time from
    the first start to the last stop. For both kinds of `pipeline_schedule` this is

    .. math:: \frac{p - 1}{m + p - 1}

    With forwards of duration f and backwards of duration b, each stage works for m (f + b). The
    last stage waits (p - 1) f for its first input, and then works without a pause. When it has
    stopped, the gradient of the last micro-batch still passes through the p - 1 other stages, which
    takes (p - 1) b. So a step takes

    .. math:: (p - 1) f + m (f + b) + (p - 1) b = (m + p - 1)(f + b)

    and each stage is idle for (p - 1)(f + b) of it. Compared with the ideal time, m (f + b), the
    bubble is (p - 1) / m: only more micro-batches make it smaller.

    Parameters
    ----------
    schedule : sequence of Operation
        From `pipeline_schedule`, or any other. Stages are those with an operation.

    Returns
    -------
    float in [0, 1)

    Raises
    ------
    ValueError
        If there are no operations.

    References
    ----------
    Huang et al. (2019), section 2.3; Narayanan et al. (2021), section 2.2.1.

    Examples
    --------
    >>> print(round(bubble_share(pipeline_schedule(4, 8)), 3))        # 3 / 11
    0.273
    """
    _check_schedule("bubble_share", schedule)
    stages = {operation.stage for operation in schedule}
    whole = max(operation.stop for operation in schedule) - min(
        operation.start for operation in schedule)
    works = sum(operation.stop - operation.start for operation in schedule)
    return max(0.0, 1 - works / (len(stages) * whole))                # no -1e-16 for one stage


def most_held(schedule):
    """The most micro-batches whose saved activations each stage holds.

    A stage holds them from the start of a forward to the stop of its backward. In GPipe these are
    all m micro-batches. In 1F1B, stage s of p runs p - 1 - s forwards to warm up and one more
    before its first backward, and from then on each backward frees what the next forward needs:
    min(m, p - s), however many micro-batches there are.

    Parameters
    ----------
    schedule : sequence of Operation
        From `pipeline_schedule`.

    Returns
    -------
    list of int
        By stage.

    Raises
    ------
    ValueError
        If there are no operations.

    References
    ----------
    Narayanan et al. (2021), section 2.2.1.

    Examples
    --------
    >>> most_held(pipeline_schedule(4, 8)), most_held(pipeline_schedule(4, 8, "gpipe"))
    ([4, 3, 2, 1], [8, 8, 8, 8])
    """
    _check_schedule("most_held", schedule)
    held = [0] * (1 + max(operation.stage for operation in schedule))
    most = held.copy()
    for operation in sorted(schedule, key=lambda operation: operation.start):
        stage = operation.stage
        held[stage] += 1 if operation.direction == "forward" else -1
        most[stage] = max(most[stage], held[stage])
    return most


def _check_schedule(owner, schedule):
    if not schedule:
        raise ValueError(f"{owner}: schedule is empty; give that of pipeline_schedule.")
