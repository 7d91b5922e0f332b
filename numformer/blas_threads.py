"""The BLAS libraries of this process whose threads can be set, as threadpoolctl knows them.

Without threadpoolctl, or on a system that it does not know, there are none: BLAS runs on as many
threads as it likes, which may be slower, and results are as usual.
"""


def blas_controllers(**which):
    """threadpoolctl's controllers of the loaded libraries that fit and whose threads can be set.

    Parameters
    ----------
    **which
        As ``ThreadpoolController.select`` takes it: ``user_api="blas"``.

    Returns
    -------
    list

    Examples
    --------
    >>> blas_controllers(internal_api="none of this name")
    []
    """
    try:
        from threadpoolctl import ThreadpoolController

        found = ThreadpoolController().select(**which).lib_controllers
    except Exception:                   # it is missing, or does not know the system
        return []
    return [library for library in found if library.num_threads is not None]
