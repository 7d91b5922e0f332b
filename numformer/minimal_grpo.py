"""Learning from rewards on one page, in NumPy alone: imitation, then GRPO, its gradient by hand.

    python -m numformer.minimal_grpo [SEED]

trains the GPT of minimal.py, which this page imports; have both open. The task is to add six digits
modulo 5. A question ends with ?, an answer with a point. A teacher answers in one of two ways:

    340201?=0.              at once: hard to learn, as six digits must be added in one step
    340201?322440=0.        with steps: 3, 3 + 4, 3 + 4 + 0, ..., each modulo 5, which is easy

First the model imitates the teacher, who answers at once in 70% of the texts. So the most likely
first character is =, and most answers are wrong; but of answers that are sampled, 30% have steps.
Then it samples, and a rule rewards answers with the right digit. The rule does not look at the
steps, but answers with steps earn more, so they become more likely: all in less than a minute.

A model that chooses what to do, here the next character, is called a policy. This is GRPO, group
relative policy optimization (Shao et al. 2024, "DeepSeekMath"), with the clipped ratio of PPO
(Schulman et al. 2017). All tokens have the same weight, as in DAPO (Yu et al. 2025); the first GRPO
took the mean of each answer's tokens before that of all answers. There is no penalty for the
distance from the model that imitates: ten rounds do not lead far. Conventions are those of
minimal.py. Shapes: P questions with G answers to each, its group; B texts of T + 1 characters, P G
of them when it learns from rewards; V characters in the vocabulary, which are the tokens.
"""

import sys
from itertools import product

import numpy as np

from numformer import minimal
from numformer.minimal import adamw, backward, forward, initial_parameters, softmax

CHARACTERS = "01234?=."                   # an id is an index into it, so V = 8
END = CHARACTERS.index(".")
DIGITS, BASE = 6, 5                       # six digits of 0 to 4; there are 5^6 = 15,625 questions
ANSWER = DIGITS + 3                       # characters of the longest: 6 sums, =, the digit, a point
HELD_OUT, WITH_STEPS = 500, 0.3           # questions to measure with; share of the teacher's texts
STEPS, BATCH, LEARNING_RATE, WARMUP = 400, 64, 3e-3, 50               # of imitation
ROUNDS, UPDATES = 10, 2                   # of learning from rewards; steps of AdamW in a round
QUESTIONS, GROUP = 32, 8                  # P and G, of a round
REWARD_RATE = 3e-4                        # small: the gradient is a mean over few samples
CLIP = 0.2                                # see policy_loss; as in PPO


# ---- The task -----------------------------------------------------------------------------------

def teacher(question, with_steps):
    """A right text, filled up with points so that all texts have T + 1 = 16 characters."""
    sums = np.cumsum([int(digit) for digit in question[:DIGITS]]) % BASE
    steps = "".join(str(s) for s in sums) if with_steps else ""
    return f"{question}{steps}={sums[-1]}.".ljust(DIGITS + 1 + ANSWER, ".")


def reward(text):
    """1 if between the first = of an answer and its point stands the right digit alone, else 0."""
    correct = sum(int(digit) for digit in text[:DIGITS]) % BASE
    answer, point, _ = text[DIGITS + 1:].partition(".")               # up to the first point
    return float(point == "." and answer.partition("=")[2] == str(correct))


def ids_of(texts):
    """Texts of the same length as ids, (B, T + 1)."""
    return np.array([[CHARACTERS.index(character) for character in text] for text in texts])


def texts_of(ids):
    return ["".join(CHARACTERS[i] for i in row) for row in ids]


def tokens_that_count(ids):
    """(B, T): which of the targets, ids[:, 1:], a loss is about: the answer and its point, as
    ending is learned, too; not the question, whose ? is target DIGITS - 1, nor what fills up."""
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
    """Minus the mean of l over tokens that count: the cross-entropy of the teacher's answers."""
    weights = counts / counts.sum(dtype=l.real.dtype)       # (B, T); .real: a test's l is complex
    return -(weights * l).sum(), weights


def imitation_loss_backward(saved):
    weights = saved
    # loss = -(weights * l).sum(): each character of the teacher is to become more likely
    return -weights                                                   # (B, T)


def group_advantages(rewards):
    """A = (R - mean) / std of each group, (P, G): how much better than its group an answer is.

    Why can a reward be a loss? An answer y has the probability p_y, and the expected reward
    J = sum_y p_y R_y is to be large. Let L_y = log p_y, the sum of l over the tokens of y, and '
    the derivative with respect to any parameter. As L_y' = p_y' / p_y,
        J' = sum_y p_y' R_y = sum_y p_y R_y L_y', the mean of R L' over answers that are sampled.
    So the loss -R L, with answers and rewards held fixed, has the gradient of -J, on average, and
    the rule needs no derivative. L is a sum: each token of an answer has the same factor, -R.

    A number m subtracted from R changes no mean, as sum_y p_y m L_y' = m (sum_y p_y)' = m 1' = 0.
    If m is the mean reward, the terms (R - m) L' usually differ less, so fewer will do. (That
    the answer's own reward is in m multiplies the gradient by 1 - 1 / G.) The division by std lets
    every group count alike, as sum A^2 is G; it is no longer the gradient of J."""
    if rewards.ndim != 2 or rewards.shape[1] < 2:
        raise ValueError(f"rewards of shape {rewards.shape} must be of shape (P, G), with G of at "
                         "least 2: an answer is compared with the others of its group")
    A = rewards - rewards.mean(axis=1, keepdims=True)                 # (P, G)
    # 1e-4: where all answers earned the same, A is 0 / 1e-4 = 0, and nothing is learned
    return A / (rewards.std(axis=1, keepdims=True) + 1e-4)


def policy_loss(l, old, A, counts):
    """Minus the mean of the objective, min(r A, clip(r) A), over the tokens that count. The ratio
    r = exp(l - old) is how much more likely a token is than when it was sampled. old, its
    log-probability of then, is a stored number: only l depends on the parameters.

    Sampling is expensive, so the same answers serve for several updates. At the first, r is 1, but
    r' = r l' = l', so the gradient is that of -A l. Later, the model q is not the p that sampled,
    and r corrects: for any f, sum_y q_y f_y = sum_y p_y (q_y / p_y) f_y (strictly, that is the
    ratio of whole answers). The clip ends a movement that has gone far: for a good answer, A > 0,
    the objective grows no more once r > 1 + CLIP, for a bad one once r < 1 - CLIP. Where r has gone
    the wrong way, as r < 1 - CLIP for A > 0, the minimum is r A, and its gradient leads back.

    l, old and counts are (B, T), A is (B,): all tokens of an answer have the same advantage."""
    weights = counts / counts.sum(dtype=l.real.dtype)                 # (B, T): 0, or 1 / their sum
    A = A[:, None].astype(weights.dtype)                              # (B, 1)
    r = np.exp(l - old)                                               # (B, T)
    clipped = np.clip(r, 1 - CLIP, 1 + CLIP)                          # (B, T)
    return -(weights * np.minimum(r * A, clipped * A)).sum(), (weights, A, r, clipped)


def policy_loss_backward(saved):
    weights, A, r, clipped = saved
    # loss = -(weights * minimum(r * A, clipped * A)).sum(), and dr/dl = r, since r = exp(l - old).
    # Where r A is the smaller, or both are equal because r is not clipped, the derivative is r A.
    # Where clipped A is the smaller, 1 + CLIP or 1 - CLIP stands for r, and the derivative is 0
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
    """Continue each of B questions by ANSWER characters, which are sampled; without rng, always by
    the most likely one. Returns ids (B, T + 1)."""
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
        new[(ids == END).any(axis=1)] = END                           # after a point, only points
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
            # Its value measures no progress, as A is relative to the answer's group
            _, saved_loss = policy_loss(l, old, A, counts)
            g = backward(log_probs_backward(policy_loss_backward(saved_loss), saved_l), saved)
            adamw(p, g, mean, square, step, REWARD_RATE)
        print(f"round {number} of {ROUNDS}: reward {rewards.mean():.2f}; {measure(p, held_out)}",
              flush=True)


def measure(p, questions):
    """Shares of answers by the most likely characters: right ones, and ones with steps, not =."""
    texts = texts_of(write_answers(p, questions))
    right = np.mean([reward(text) for text in texts])
    with_steps = np.mean([text[DIGITS + 1] != "=" for text in texts])
    return f"held-out questions: {right:.3f} right, {with_steps:.3f} with steps"


def show(p, questions):
    for text in texts_of(write_answers(p, questions)):
        written = "".join(text.partition(".")[:2])                    # up to the point, if any
        print(f"    {written}  {'right' if reward(text) else 'wrong'}")


if __name__ == "__main__":
    seed = sys.argv[1] if len(sys.argv) > 1 else "0"
    if not seed.isdecimal():
        sys.exit(f"the seed is {seed!r}; give a whole number, such as 0")
    minimal.WIDTH = 64                    # which functions of minimal.py read; half of theirs
    rng = np.random.default_rng(int(seed))
    questions = ["".join(digits) + "?" for digits in product(CHARACTERS[:BASE], repeat=DIGITS)]
    held_out, questions = np.split(rng.permutation(questions), [HELD_OUT])
    p = initial_parameters(rng, len(CHARACTERS))
    imitate(p, questions, rng)
    print(f"after imitation, {measure(p, held_out)}")
    show(p, held_out[:4])
    learn_from_rewards(p, questions, held_out, rng)
    show(p, held_out[:4])
