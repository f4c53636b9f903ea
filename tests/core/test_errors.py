"""Exceptions carry the argument they are about, and one context manager adds names."""

import pickle

import pytest

import bridgehash
from bridgehash import BridgehashError, InputError, ModelFileError
from bridgehash._core.errors import named, unknown


def test_an_input_error_carries_its_argument_through_a_pickle():
    error = pickle.loads(pickle.dumps(InputError("1 row; 2 are needed", "X_source")))
    assert (str(error), error.argument) == ("X_source: 1 row; 2 are needed", "X_source")
    assert error.problem == "1 row; 2 are needed"
    assert isinstance(error, ValueError)


def test_every_public_exception_has_one_base():
    public = [getattr(bridgehash, name) for name in bridgehash.__all__]
    errors = [c for c in public if isinstance(c, type) and issubclass(c, Exception)]
    warnings = [c for c in errors if issubclass(c, Warning)]
    assert len(errors) > 5
    assert all(issubclass(c, BridgehashError) for c in errors if c not in warnings)


@pytest.mark.parametrize(
    ("raised", "expected", "words"),
    [
        (InputError("is empty"), InputError, "a.npy: is empty"),
        (InputError("is empty", "block 3"), InputError, "a.npy: block 3: is empty"),
        (ModelFileError("no header"), ModelFileError, "a.npy: no header"),
        (FileNotFoundError(2, "No such file"), InputError, "a.npy: file not found"),
        (
            PermissionError(13, "Permission denied"),
            InputError,
            "cannot be read (Permission denied)",
        ),
        (KeyError("x"), InputError, "a.npy: cannot be read ('x'); check the file"),
        (MemoryError("much"), MemoryError, "much"),
    ],
)
def test_names_are_put_before_errors(raised, expected, words):
    with pytest.raises(expected) as caught, named("a.npy"):
        raise raised
    assert words in str(caught.value)


def test_the_nearest_name_is_suggested():
    assert "did you mean 'pca'?" in unknown("start", "pac", ["pca", "itq"])
    assert "did you mean" not in unknown("start", "zzz", ["pca", "itq"])
