"""Weight files of networks: which ones are known, by their SHA-256.

Many weight files are pickles, and a wrong one gives wrong features without any error. So the files
of the weight packages and of torchvision are compared with a recorded checksum before they are
loaded. A file that the user names is loaded as it is, by torch's restricted unpickler.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from .._core.errors import InputError

SHA256 = {
    "efficientnet-lite0-57934424.pth": (
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
    ),
    "efficientnet-lite1-77cc7160.pth": (
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850"
    ),
    "efficientnet-lite2-9656183e.pth": (
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"
    ),
    "l2_supercat_256.safetensors": (
        "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
    ),
    "l2_supercat_tokenizer_config.json": (
        "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"
    ),
    "resnet50-0676ba61.pth": "0676ba61b6795bbe1773cffd859882e5e297624d384b6993f7c9e683e722fb8a",
    "vgg16-397923af.pth": "397923af8e79cdbb6a7127f12361acd7a2f83e06b05044ddf496e83de57a5bf0",
}


@contextmanager
def known_weights(path: Path) -> Iterator[IO[bytes]]:
    """Open a weight file if its checksum is the recorded one.

    The open file is yielded, so that what is loaded is what was compared.
    """
    expected = SHA256.get(path.name)
    if expected is None:
        raise InputError(
            f"is not a known weight file; known are {', '.join(sorted(SHA256))}", str(path)
        )
    if not path.is_file():
        raise InputError("is not a file; install the weights again", str(path))
    with open(path, "rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
        if actual != expected:
            raise InputError(
                f"its sha256 is {actual}, not {expected}; delete it and install or download it "
                "again",
                str(path),
            )
        file.seek(0)
        yield file
