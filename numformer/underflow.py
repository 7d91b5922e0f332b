"""Underflow to 0 is no error: not even where a program has set `np.seterr(all="raise")`.

The weight of a key 400 nats below the best one is e^-400, which is 0 in float32: so it should be.
NumPy ignores underflow by default. Who turns it into an error, to find a NaN where it begins, still
gets divisions by 0, overflow and invalid operations as errors from the functions of this package.
"""

import numpy as np

# A decorator; what the caller has set for the other kinds stays
underflow_is_zero = np.errstate(under="ignore")
