"""What every other room uses: arrays, linear algebra, validation, threads, files, errors.

OpenBLAS lets idle threads spin for tens of milliseconds, which takes the cores from whichever
library runs next. The wait is shortened here, before SciPy loads OpenBLAS; a value that is already
set is kept.
"""

import os

os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "10")  # 2^10 cycles
