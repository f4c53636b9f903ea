"""What pytest does not collect: doctests of modules whose library is not installed."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["bridgehash/neighbors/cuda/*.py"]
