"""Find the bug: rotary positions.

One thing is wrong in this function. `numformer.check` names the first gradient that differs, and
where. Find the line and correct it.
"""
# goal: read a gradient written by somebody else, and find and correct the wrong term
# needs: rotary_backward
# minutes: 10
# points: 3
# checks: rotary_backward

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
