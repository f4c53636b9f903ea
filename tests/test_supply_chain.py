"""Container images are pinned, and no declared minimum version has a known hole."""

import re
import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PINNED = re.compile(r"@sha256:[0-9a-f]{64}$")

# The first versions without a published advisory that concerns what is used here.
SAFE = {
    "distributed": "2026.1",  # CVE-2026-23528
    "h11": "0.16",  # CVE-2025-43859
    "jinja2": "3.1.6",  # CVE-2025-27516
    "pillow": "13.0",  # advisories for 12.3.0
    "pyarrow": "23.0.1",  # CVE-2026-25087
    "requests": "2.33",  # CVE-2026-25645
    "scikit-learn": "1.5",  # CVE-2024-5206
    "setuptools": "78.1.1",  # CVE-2025-47273
    "starlette": "1.3.1",  # CVE-2025-62727, CVE-2026-48710, PYSEC-2026-248
    "torch": "2.11",  # CVE-2025-32434, CVE-2026-24747, CVE-2026-4538
    "urllib3": "2.7",  # CVE-2026-44431, CVE-2026-44432
}


def requirements():
    """All requirements of the package and of its extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    lines = [*project["dependencies"], *(line for extra in extras for line in extra)]
    return [Requirement(line) for line in lines if not line.startswith("bridgehash[")]


def minimum(requirement):
    return max(Version(each.version) for each in requirement.specifier if each.operator == ">=")


def test_images_are_pinned_by_digest():
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    images = [each["image"] for each in compose["services"].values() if "image" in each]
    images += re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert len(images) == 2
    assert [image for image in images if not PINNED.search(image)] == []


def test_minimum_versions_have_no_known_hole():
    found = {canonicalize_name(each.name): each for each in requirements()}
    assert sorted(SAFE.keys() - found.keys()) == []
    for each in requirements():
        name = canonicalize_name(each.name)
        if name in SAFE:
            assert minimum(each) >= Version(SAFE[name]), each


def test_constraints_are_plain_and_satisfy_every_requirement():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
    pinned = {canonicalize_name(name): v for name, v in (line.split("==") for line in lines)}
    for each in requirements():
        version = pinned.get(canonicalize_name(each.name))
        assert version is None or each.specifier.contains(version), each
