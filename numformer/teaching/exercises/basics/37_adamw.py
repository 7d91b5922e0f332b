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
# END TEACHER
