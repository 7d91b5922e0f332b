"""Learning from rewards on one page, in NumPy alone: imitation, then GRPO, its gradient by hand.

    python -m numformer.minimal_grpo [SEED]

trains the GPT of minimal.py, which this page imports; have both open. The task is to add six digits
modulo 5. A question ends with ?, an answer with a point. A teacher answers in one of two ways:

    340201?=0.              at once: hard to learn, as six digits must be added in one step
    340201?322440=0.        with steps: 3, 3 + 4, 3 + 4 + 0, ..., each modulo 5, which is easy

First the model imitates the teacher, who answers at once in 70% of the texts. So it does that, too,
and most of its answers are wrong. Then it samples answers of its own, and a rule rewards those that
end with the right digit. The rule does not look at the steps, but answers with steps earn more, so
they become more likely. Both parts together take less than a minute.

This is GRPO (Shao et al. 2024, "DeepSeekMath") with the clipped ratio of PPO (Schulman et al. 2017)
and the same weight for each token, as in DAPO (Yu et al. 2025). It has no penalty for the distance
from the model that imitates. Words and conventions are those of minimal.py. Shapes: P questions
with G answers each, a group; B = P G texts of T + 1 characters; V characters in the vocabulary,
which are the tokens.
"""

import sys
from itertools import product

import numpy as np

from numformer import minimal
from numformer.minimal import adamw, backward, forward, initial_parameters, softmax

CHARACTERS = "01234?=."                   # an id is an index into it, so V = 8
END = CHARACTERS.index(".")
DIGITS, BASE = 6, 5                       # of a question; there are 5^6 = 15,625 questions
ANSWER = DIGITS + 3                       # the longest answer: 6 sums, =, the digit and the point
HELD_OUT, WITH_STEPS = 500, 0.3           # questions to measure with; share of the teacher's texts
STEPS, BATCH, LEARNING_RATE, WARMUP = 400, 64, 3e-3, 50               # of imitation
ROUNDS, QUESTIONS, GROUP, UPDATES = 10, 32, 8, 2     # of rewards: P, G, and steps of AdamW a round
CLIP, REWARD_RATE = 0.2, 3e-4             # see policy_loss; the learning rate of these steps


# ---- The task -----------------------------------------------------------------------------------

def teacher(question, with_steps):
    """A right text, filled up with points so that all texts have T + 1 = 16 characters."""
    sums = np.cumsum([int(digit) for digit in question[:DIGITS]]) % BASE
    steps = "".join(str(s) for s in sums) if with_steps else ""
    return f"{question}{steps}={sums[-1]}.".ljust(DIGITS + 1 + ANSWER, ".")


def reward(text):
    """1 for an answer that ends with =, the right digit and a point, otherwise 0."""
    correct = sum(int(digit) for digit in text[:DIGITS]) % BASE
    answer, point, _ = text[DIGITS + 1:].partition(".")               # up to the first point
    return float(point == "." and answer.partition("=")[2] == str(correct))


def ids_of(texts):
    """Texts of the same length as ids, (B, T + 1)."""
    return np.array([[CHARACTERS.index(character) for character in text] for text in texts])


def texts_of(ids):
    return ["".join(CHARACTERS[i] for i in row) for row in ids]


def tokens_that_count(ids):
    """(B, T): which of the targets, ids[:, 1:], a loss is about. Those of the answer and its point,
    since ending is learned, too; not the question, nor the points that fill up a text."""
    ends = ids[:, 1:] == END                                          # (B, T)
    ended_before = np.cumsum(ends, axis=1) - ends > 0
    return ~ended_before & (np.arange(ends.shape[1]) >= DIGITS)


# ---- Losses -------------------------------------------------------------------------------------
# Both losses are functions of l, (B, T): the logarithms of the probabilities that the model gives
# to the characters of a text. So imitation and reward differ in dl alone: log_probs_backward takes
# it to the logits, and the backward of minimal.py to the parameters.

def log_probs(logits, targets):
    """l = log softmax(logits)[target] for every target."""
    z = logits - logits.max(axis=-1, keepdims=True)                   # (B, T, V), as in softmax
    log_p = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))         # (B, T, V)
    one_hot = np.eye(z.shape[-1], dtype=z.dtype)[targets]             # (B, T, V): 1 at the target
    return (one_hot * log_p).sum(axis=-1), (log_p, one_hot)           # (B, T)


def log_probs_backward(dl, saved):
    log_p, one_hot = saved
    # l = z[target] - log(sum_k exp(z_k)), whose derivative with respect to z_j is
    # [j = target] - exp(z_j) / sum_k exp(z_k). The maximum in z cancels
    return dl[:, :, None] * (one_hot - np.exp(log_p))                 # (B, T, V)


def imitation_loss(l, counts):
    """Minus the mean of l over the tokens that count: the cross-entropy of teachers' answers."""
    weights = counts / counts.sum(dtype=l.real.dtype)                 # (B, T): 0, or 1 / their sum
    return -(weights * l).sum(), weights


def imitation_loss_backward(saved):
    weights = saved
    # loss = -(weights * l).sum(): each character of the teacher is to become more likely
    return -weights                                                   # (B, T)


def group_advantages(rewards):
    """A = (R - mean) / std of each group, (P, G): how much better than its group an answer is.

    Why can a reward be a loss? The expected reward is sum_y p_y R_y, over all answers y with their
    probabilities p_y. Let l_y = log p_y, the sum of l over the tokens of y. As dl_y = dp_y / p_y,
    the gradient is sum_y p_y R_y dl_y: the mean of R dl over answers that are sampled. So the loss
    -R l has the right gradient, on average, and the rule needs no derivative. A number m that is
    subtracted from R changes nothing, as m sum_y p_y dl_y = m sum_y dp_y = m d(1) = 0; but if m is
    the mean, samples differ less from each other. The division by std makes groups count about the
    same."""
    if rewards.ndim != 2 or rewards.shape[1] < 2:
        raise ValueError(f"rewards of shape {rewards.shape} must be of shape (P, G), with G of at "
                         "least 2: an answer is compared with the others of its group")
    A = rewards - rewards.mean(axis=1, keepdims=True)                 # (P, G)
    # 1e-4: where all answers earned the same, A is 0 / 1e-4 = 0, and nothing is learned
    return A / (rewards.std(axis=1, keepdims=True) + 1e-4)


def policy_loss(l, old, A, counts):
    """Minus the mean of min(r A, clip(r) A) over the tokens that count. The ratio r = exp(l - old)
    is how much more likely a token is than when it was sampled, with the log-probability old.

    Sampling is expensive, so the same answers serve for several updates. At the first, r is 1, and
    as dr = r dl, the gradient is that of -A l. Later, the model is no longer the one that sampled;
    r weights each token by how much more often the new one would choose it. The clip ends a
    movement that has gone far: for a good answer (A > 0) the objective grows no more once
    r > 1 + CLIP, for a bad one once r < 1 - CLIP. The minimum leaves the way back open.

    l, old and counts are (B, T), A is (B,): all tokens of an answer have the same advantage."""
    weights = counts / counts.sum(dtype=l.real.dtype)                 # (B, T)
    A = A[:, None].astype(weights.dtype)                              # (B, 1)
    r = np.exp(l - old)                                               # (B, T)
    clipped = np.clip(r, 1 - CLIP, 1 + CLIP)                          # (B, T)
    return -(weights * np.minimum(r * A, clipped * A)).sum(), (weights, A, r, clipped)


def policy_loss_backward(saved):
    weights, A, r, clipped = saved
    # loss = -(weights * minimum(r * A, clipped * A)).sum(), and dr/dl = r, since r = exp(l - old).
    # Where r A is smaller, or both are the same as r is not clipped, the derivative is r A. Where
    # clipped A is smaller, r has been replaced by 1 + CLIP or 1 - CLIP, and it is 0
    return -weights * np.where(r * A <= clipped * A, r * A, 0)        # (B, T)


# ---- Learning -----------------------------------------------------------------------------------

def zeros_like(p):
    return {name: [np.zeros_like(w) for w in p[name]] for name in p}


def imitate(p, questions, rng):
    """Change p so that it answers as the teacher does."""
    mean, square = zeros_like(p), zeros_like(p)
    for step in range(1, STEPS + 1):
        ids = ids_of([teacher(question, rng.random() < WITH_STEPS)
                      for question in rng.choice(questions, BATCH)])  # (B, T + 1)
        logits, saved = forward(p, ids[:, :-1])                       # (B, T, V)
        l, saved_l = log_probs(logits, ids[:, 1:])                    # (B, T)
        loss, saved_loss = imitation_loss(l, tokens_that_count(ids))
        g = backward(log_probs_backward(imitation_loss_backward(saved_loss), saved_l), saved)
        scale = min(step / WARMUP, 1 - step / (STEPS + 1))            # a rise to 1, a fall to 0
        adamw(p, g, mean, square, step, LEARNING_RATE * scale)
        if step % 100 == 0 or step == STEPS:
            print(f"imitation, step {step} of {STEPS}: loss {loss:.3f}", flush=True)


def write_answers(p, questions, rng=None):
    """Continue each of B questions by ANSWER characters, which are sampled; without rng, by those
    that are most likely. Returns ids (B, T + 1)."""
    ids = ids_of(questions)                                           # (B, DIGITS + 1)
    for _ in range(ANSWER):
        logits = forward(p, ids)[0][:, -1]                            # (B, V)
        if rng is None:
            new = logits.argmax(axis=-1)                              # (B,)
        else:
            # The probabilities cut 0 to 1 into V parts. A random number is in part i if i cuts are
            # below it, and so with the probability of i
            cuts = softmax(logits).cumsum(axis=-1)[:, :-1]            # (B, V - 1)
            new = (rng.random((len(ids), 1)) > cuts).sum(axis=-1)     # (B,)
        new[(ids == END).any(axis=1)] = END
        ids = np.append(ids, new[:, None], axis=1)
    return ids


def learn_from_rewards(p, questions, held_out, rng):
    """Change p so that its answers earn more."""
    mean, square, step = zeros_like(p), zeros_like(p), 0
    for number in range(1, ROUNDS + 1):
        chosen = rng.choice(questions, QUESTIONS, replace=False)      # (P,)
        # (B, T + 1): the G answers to a question follow each other
        ids = write_answers(p, np.repeat(chosen, GROUP), rng)
        rewards = np.array([reward(text) for text in texts_of(ids)])  # (B,)
        A = group_advantages(rewards.reshape(QUESTIONS, GROUP)).reshape(-1)    # (B,)
        counts = tokens_that_count(ids)                               # (B, T)
        old, _ = log_probs(forward(p, ids[:, :-1])[0], ids[:, 1:])    # (B, T)
        for _ in range(UPDATES):
            step += 1
            logits, saved = forward(p, ids[:, :-1])                   # (B, T, V)
            l, saved_l = log_probs(logits, ids[:, 1:])                # (B, T)
            _, saved_loss = policy_loss(l, old, A, counts)    # A has the mean 0: no use to print it
            g = backward(log_probs_backward(policy_loss_backward(saved_loss), saved_l), saved)
            adamw(p, g, mean, square, step, REWARD_RATE)
        print(f"round {number} of {ROUNDS}: reward {rewards.mean():.2f}; {measure(p, held_out)}",
              flush=True)


def measure(p, questions):
    """Two shares of the most likely answers, as a text: those that are right, and with steps."""
    texts = texts_of(write_answers(p, questions))
    right = np.mean([reward(text) for text in texts])
    with_steps = np.mean([text[DIGITS + 1] != "=" for text in texts])
    return f"held-out questions: {right:.3f} right, {with_steps:.3f} with steps"


def show(p, questions):
    for text in texts_of(write_answers(p, questions)):
        print(f"    {text.rstrip('.')}.  {'right' if reward(text) else 'wrong'}")


if __name__ == "__main__":
    seed = sys.argv[1] if len(sys.argv) > 1 else "0"
    if not seed.isdecimal():
        sys.exit(f"the seed is {seed!r}; give a whole number, such as 0")
    minimal.WIDTH = 64                    # half of what minimal.py takes: it is enough here
    rng = np.random.default_rng(int(seed))
    questions = ["".join(digits) + "?" for digits in product(CHARACTERS[:BASE], repeat=DIGITS)]
    held_out, questions = np.split(rng.permutation(questions), [HELD_OUT])
    p = initial_parameters(rng, len(CHARACTERS))
    imitate(p, questions, rng)
    print(f"after imitation, {measure(p, held_out)}")
    show(p, held_out[:4])
    learn_from_rewards(p, questions, held_out, rng)
    show(p, held_out[:4])
