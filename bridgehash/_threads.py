"""Idle threads of SciPy's linear algebra give way at once.

NumPy, SciPy and scikit-learn bring a thread pool each. OpenBLAS lets idle threads spin for tens of
milliseconds, which takes the cores from whichever library is called next: at the size of
benchmarks/authors_size.py a fit took 9.4 s instead of 7.7 s. The setting is read when SciPy loads
OpenBLAS, so it is made here, before anything imports it; a value already set is left alone.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "10")  # 2^10 cycles
