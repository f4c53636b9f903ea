"""An index on disk survives what happens while it is written."""

import subprocess
import sys
import time

import numpy as np

from bridgehash.index import HammingIndex

SAVE_FOR_EVER = """
import sys
import numpy as np
from bridgehash.index import HammingIndex
index = HammingIndex(64).add(np.random.default_rng(0).integers(0, 256, (300_000, 8), np.uint8))
print("ready", flush=True)
while True:
    index.save(sys.argv[1])
"""


def test_kill_9_in_a_save_leaves_the_index_that_was_saved_before(tmp_path):
    path = tmp_path / "index"
    HammingIndex(64).add(np.zeros((5, 8), np.uint8)).save(path)
    for wait in (0.0, 0.004, 0.02):
        writer = subprocess.Popen(
            [sys.executable, "-c", SAVE_FOR_EVER, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(wait)
        writer.kill()
        writer.communicate()
        assert len(HammingIndex.load(path)) in (5, 300_000)
