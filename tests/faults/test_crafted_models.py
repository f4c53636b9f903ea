"""A model file with a right checksum and contents that do not fit together is refused."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.preprocessing import StandardScaler

import bridgehash
from bridgehash import InputError, LinearEncoder, ModelFileError, UnitRows, load, save
from bridgehash.models.model_file import load_model, save_model
from tests.cases import METHODS, two_domains

ROOT = Path(__file__).resolve().parents[2]


def counted(seed, n):
    """Run `crafted` in a process of its own; its counts, with examples in the error message."""
    line = [sys.executable, "-m", "tests.faults.crafted", str(seed), str(n)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout)
    assert set(report["counts"]) <= {"refused", "right", "too large"}, report["examples"]
    return report["counts"]


def test_crafted_files_are_refused_or_right():
    counts = counted(seed=0, n=150)
    assert counts["refused"] > 100
    assert counts["right"] > 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_many_crafted_files_are_refused_or_right(seed):
    assert sum(counted(seed, 2500).values()) == 2500


@pytest.fixture
def saved(tmp_path):
    """A valid file, and a function that writes it again with changes."""
    X = np.random.default_rng(0).random((9, 4))
    maps = [UnitRows().fit(X), StandardScaler().fit(X)]
    path = tmp_path / "model.bh"
    LinearEncoder(np.ones((4, 3)), np.zeros(4), maps=maps).save(path)
    file = load_model(path)

    def again(change):
        header, arrays = file.header, dict(file.arrays)
        kind = change(header, arrays) or file.kind
        save_model(path, kind, header, arrays)
        return path

    return again


def learned(header, i):
    return header["parameters"]["maps"][i]["learned"]


CHANGES = {
    "widths of two maps": lambda h, a: learned(h, 0).update(n_features_in_=5, n_features_out_=5),
    "a width that is too large": lambda h, a: learned(h, 0).update(n_features_in_=2**40),
    "a width that is text": lambda h, a: learned(h, 0).update(n_features_in_="4"),
    "a method instead of an attribute": lambda h, a: learned(h, 0).update(transform=None),
    "a missing attribute": lambda h, a: learned(h, 1).__delitem__("n_features_in_"),
    "an unused array": lambda h, a: a.update(more=np.ones(3)),
    "a missing array": lambda h, a: a.__delitem__("mean"),
    "another kind": lambda h, a: "ITQ",
    "a mean of another width": lambda h, a: a.update(mean=np.zeros(5)),
    "no bits": lambda h, a: a.update(projection=np.zeros((4, 0))),
    "too many bits": lambda h, a: a.update(projection=np.zeros((4, 5000))),
    "a value that is not finite": lambda h, a: a.update(mean=np.array([0, 0, 0, np.nan])),
    "values that overflow": lambda h, a: a.update(projection=np.full((4, 3), 1e308)),
    "a divisor of zero": lambda h, a: h["parameters"].update(scale=0.0),
    "a huge number": lambda h, a: h["parameters"].update(scale=10**400),
    "text for a number": lambda h, a: h["parameters"].update(scale="1.0"),
    "a map that is a hasher": lambda h, a: h["parameters"]["maps"][0].update({"class": "ITQ"}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_contents_that_do_not_fit_together_are_refused(saved, change):
    path = saved(change)
    with pytest.raises(ModelFileError, match=r"model\.bh.*cannot read.*save it again"):
        load(path)


def test_deep_parts_are_refused(saved):
    def nest(header, arrays):
        for _ in range(500):
            header["parameters"]["maps"] = [header["parameters"]["maps"]]

    with pytest.raises(ModelFileError, match="more than 20 levels of parts"):
        load(saved(nest))


def test_a_model_that_could_not_be_loaded_is_not_saved(tmp_path):
    broken = LinearEncoder(np.full((4, 3), np.nan), np.zeros(4))
    with pytest.raises(InputError, match="LinearEncoder cannot be saved: projection: values"):
        save(broken, tmp_path / "model.bh")
    with pytest.raises(InputError, match="StandardScaler is saved only as a part"):
        save(StandardScaler().fit(np.eye(3)), tmp_path / "model.bh")
    assert list(tmp_path.iterdir()) == []


def test_every_parameter_has_a_rule():
    for name in bridgehash.__all__:
        cls = getattr(bridgehash, name)
        in_files = cls is not bridgehash.WithSource  # holds a method and its data, is never saved
        if isinstance(cls, type) and issubclass(cls, BaseEstimator) and in_files:
            known = {*getattr(cls, "_rules", ()), *getattr(cls, "_contents", ()), "random_state"}
            assert set(cls._get_param_names()) <= known, name


@pytest.mark.filterwarnings("ignore::bridgehash.PairsWarning")
@pytest.mark.parametrize("name", METHODS)
def test_every_fitted_attribute_is_stored(name, tmp_path):
    model = METHODS[name].fit(two_domains())
    save(model, tmp_path / "model.bh")
    not_saved = {"bipartite_graph_", "training_codes_", "changed_bits_", "ridges_"}
    not_saved |= {"shared_classes_", "private_classes_", "new_share_", "doubtful_domains_"}
    not_saved |= {"bridge_report_"}
    fitted = {key for key in vars(model) if key.endswith("_")} - not_saved
    assert set(load_model(tmp_path / "model.bh").header["learned"]) == fitted
