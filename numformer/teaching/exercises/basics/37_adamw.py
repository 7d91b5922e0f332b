"""A step of AdamW: divide the mean of the gradients by the root of the mean of their squares.

m <- beta1 m + (1 - beta1) g,   v <- beta2 v + (1 - beta2) g^2

w <- w - rate (decay w + m_hat / (sqrt(v_hat) + epsilon))

m and v are 0 before the first step, t = 1, and so are too small at first. m_hat and v_hat are what
they would be otherwise: if g was the same in all steps, m_hat is g, and v_hat is g^2. Loshchilov
and Hutter (2019), algorithm 2.
"""
# goal: write an optimizer, and correct what it begins with
# needs: nothing
# lessons: 11
# ideas: two running means; what is missing in a mean that begins with 0; a decay that no mean sees
# points: 3
# parts: all or nothing
# returns: w, m, v
# BEGIN HINTS
# 1. If g is the same in all steps, what is m after one step, and after two? By which factor is it
#    less than g?
# 2. After t steps m is (1 - beta1^t) g: divide by that factor, and v by the one of beta2. m and v
#    themselves are returned without it.
# 3. w - rate * (decay * w + m / (1 - BETA1 ** t) / (np.sqrt(...) + EPSILON)), with v corrected in
#    the root; epsilon is outside of it.
# END HINTS

import numpy as np

BETA1 = 0.9
BETA2 = 0.99
EPSILON = 1e-8


def adamw(w, g, m, v, t, rate, decay):
    """w, its gradient g, m and v of one shape; t, rate and decay are numbers. To new w, m, v."""
    # BEGIN SOLUTION
    m = BETA1 * m + (1 - BETA1) * g
    v = BETA2 * v + (1 - BETA2) * g * g
    m_hat, v_hat = m / (1 - BETA1 ** t), v / (1 - BETA2 ** t)
    return w - rate * (decay * w + m_hat / (np.sqrt(v_hat) + EPSILON)), m, v
    # END SOLUTION


# BEGIN TEACHER
def problems(rng):
    """Arguments, by what is special about them."""
    def arrays(*shape):
        return rng.normal(size=shape), rng.normal(size=shape)

    def means(*shape):
        return rng.normal(size=shape), rng.normal(size=shape) ** 2

    nothing = np.zeros((3, 4)), np.zeros((3, 4))
    return {"the first step": (*arrays(3, 4), *nothing, 1, 0.1, 0.0),
            "a later step": (*arrays(5, 2), *means(5, 2), 7, 0.01, 0.0),
            "weight decay": (*arrays(2, 3), *means(2, 3), 3, 0.1, 0.2),
            "one axis": (*arrays(6), *means(6), 2, 0.1, 0.1),
            "gradients near 1e-8": (rng.normal(size=(2, 2)), 1e-8 * rng.normal(size=(2, 2)),
                                    np.zeros((2, 2)), np.zeros((2, 2)), 1, 0.1, 0.0)}


def mistakes():
    """Likely wrong functions, by what is wrong in them."""
    def wrong(mistake):
        def adamw(w, g, m, v, t, rate, decay):
            g = g + decay * w if mistake == "decay in g" else g
            decay = {"decay in g": 0, "no decay": 0, "grows": -decay}.get(mistake, decay)
            first = 1 if mistake == "no 1 - beta1" else 1 - BETA1
            beta2 = BETA1 if mistake == "beta1 twice" else BETA2
            m = BETA1 * m + first * g
            v = beta2 * v + (1 - beta2) * (g if mistake == "no square" else g * g)
            power = t + {"t + 1": 1, "t - 1": -1}.get(mistake, 0)
            with np.errstate(divide="ignore", invalid="ignore"):
                m_hat = m / (1 - BETA1 if mistake == "no power" else 1 - BETA1 ** power)
                v_hat = v / (1 - beta2 if mistake == "no power" else 1 - beta2 ** power)
                m_hat = m if mistake in ("not corrected", "m not corrected") else m_hat
                v_hat = v if mistake in ("not corrected", "v not corrected") else v_hat
                root = {"no root": v_hat + EPSILON, "epsilon inside": np.sqrt(v_hat + EPSILON),
                        "no epsilon": np.sqrt(v_hat)}.get(mistake, np.sqrt(v_hat) + EPSILON)
                after = w - rate * (decay * w + m_hat / root)
            if mistake == "decay without rate":
                after = w - decay * w - rate * m_hat / root
            if mistake == "uphill":
                after = w + rate * m_hat / root - rate * decay * w
            return (after, m_hat, v_hat) if mistake == "corrected ones" else (after, m, v)
        return adamw

    return {words: wrong(mistake) for words, mistake in (
        ("neither m nor v is corrected: at first both are too small", "not corrected"),
        ("m is not corrected: divide it by 1 - beta1^t", "m not corrected"),
        ("v is not corrected: divide it by 1 - beta2^t", "v not corrected"),
        ("m and v are corrected by 1 - beta, but after t steps they lack a factor 1 - beta^t",
         "no power"),
        ("t counts from 1 already, but t + 1 is used", "t + 1"),
        ("t counts from 1, but t - 1 is used", "t - 1"),
        ("the corrected m and v are returned, but the next step starts from the others",
         "corrected ones"),
        ("epsilon is inside the root, but belongs outside", "epsilon inside"),
        ("epsilon is missing", "no epsilon"),
        ("the root is missing: m is divided by v", "no root"),
        ("v is a mean of g, but must be one of g^2", "no square"),
        ("the new part of m lacks its factor, 1 - beta1", "no 1 - beta1"),
        ("v takes beta1, but has beta2", "beta1 twice"),
        ("the decay is added to g, so that m and v see it: it acts on w alone", "decay in g"),
        ("the decay is missing", "no decay"),
        ("the decay is not multiplied by the rate", "decay without rate"),
        ("the decay makes w larger", "grows"),
        ("the step goes along the gradient, but must go against it", "uphill"))}
# END TEACHER
