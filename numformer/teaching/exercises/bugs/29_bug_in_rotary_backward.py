"""Find the bug: rotary positions.

One thing is wrong in this function. `numformer grade 29` names the first gradient that differs,
where, and by how much; finding the cause is the exercise. Find the line and correct it.
"""
# goal: read a gradient written by somebody else, and find and correct the wrong term
# needs: rotary_backward
# lessons: 7, 8, 15
# ideas: read a formula in code
# points: 3
# parts: all or nothing
# checks: rotary_backward
# BEGIN HINTS
# 1. Take sine = 1 and cosine = 0. What does the forward do to (a, b), and what must the
#    backward do?
# 2. The backward multiplies by the transposed rotation: compared with the forward, the signs
#    of both terms with a sine change.
# 3. The cause: {bug}.
# END HINTS

import numpy as np


def rotary_backward(dy, x, cosine, sine):
    da, db = np.split(dy, 2, axis=-1)
    # BEGIN SOLUTION
    return np.concatenate([da * cosine + db * sine, db * cosine - da * sine], axis=-1)
    # END SOLUTION
    # BEGIN BUG it rotates forward again
    # return np.concatenate([da * cosine - db * sine, da * sine + db * cosine], axis=-1)
    # END BUG
    # BEGIN BUG one sign is that of the forward
    # return np.concatenate([da * cosine + db * sine, db * cosine + da * sine], axis=-1)
    # END BUG
