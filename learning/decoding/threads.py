"""One thread for the linear algebra of a decoder.

Its matrices are small: to share one out among threads takes longer than to multiply it, on a busy
machine tens of times as long.
"""

from contextlib import AbstractContextManager

from threadpoolctl import threadpool_limits


def use_one_thread() -> AbstractContextManager[object]:
    """Keep all linear algebra of the process on one thread for a while."""
    # SciPy has a BLAS of its own, which must be loaded to be found.
    import scipy.linalg  # noqa: F401, PLC0415 - a server never needs it

    limited: AbstractContextManager[object] = threadpool_limits(limits=1, user_api="blas")
    return limited
