"""The BLAS libraries of this process and their threads, as threadpoolctl knows them.

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


def set_blas_threads(numbers):
    """Set the threads of each library of a list of (controller, number).

    From threadpoolctl 3.8 on, OpenBLAS obeys only the first thread that set a limit, unless that
    control is cleared.
    """
    if not numbers:
        return
    from threadpoolctl import OpenBLASController

    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)
    for library, number in numbers:
        library.set_num_threads(number)
