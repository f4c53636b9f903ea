"""Whatever is wrong: one clear line, the right exit code, nothing left behind."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from bridgehash import ATH, AnchorKernel, InputError, save

Refused = Callable[..., str]

FIT = "fit {source} {target} --out new.bh --bits 6 "
TORCH = find_spec("torch") is not None
PLAIN = FIT.format(source="source.npy", target="target.npy")
QUICK = PLAIN + "--preset unsupervised --quiet"
SUPERVISED = PLAIN + "--labels-source labels.npz:source --labels-target labels.npz:target "
ENCODE = "encode model.bh source.npy --domain source --out new.npy"
EVALUATE = (
    "evaluate model.bh --queries target.npy --labels-queries {queries} "
    "--database source.npy --labels-database {database}"
)


def raising(error: BaseException) -> Callable[..., NoReturn]:
    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    return fail


def test_features_that_are_none(folder: Path, refused: Refused) -> None:
    for X, reason in [
        (np.zeros(5), "two dimensions"),
        (np.zeros((2, 2, 2)), "two dimensions"),
        (np.array([[1.0, np.nan], [2.0, 3.0]]), "not finite"),
        (np.array([[1.0, np.inf], [2.0, 3.0]]), "not finite"),
        (np.zeros((0, 3)), "is empty"),
        (np.zeros((3, 0)), "is empty"),
        (np.array([["a", "b"]]), "real numbers"),
    ]:
        np.save("bad.npy", X)
        lines = (
            FIT.format(source="bad.npy", target="target.npy"),
            FIT.format(source="source.npy", target="bad.npy"),
            ENCODE.replace("source.npy", "bad.npy"),
            EVALUATE.format(queries="labels.npz:target", database="labels.npz:source").replace(
                "target.npy", "bad.npy"
            ),
        )
        for line in lines:
            message = refused(line)
            assert message.startswith("bad.npy: ")
            assert reason in message


def test_one_sample(folder: Path, refused: Refused) -> None:
    for side in ["source", "target"]:
        np.save("one.npy", np.ones((1, 5)))
        message = refused(PLAIN.replace(f"{side}.npy", "one.npy"))
        assert message == "one.npy: has 1 row; at least 2 are needed"


def test_equal_rows(folder: Path, refused: Refused) -> None:
    np.save("flat.npy", np.ones((9, 5)))
    assert refused(PLAIN.replace("target.npy", "flat.npy")).startswith(
        "flat.npy: all rows are equal"
    )


def test_labels_of_wrong_length(folder: Path, refused: Refused) -> None:
    for side in ["source", "target"]:
        np.save("short.npy", np.arange(7))
        message = refused(SUPERVISED.replace(f"labels.npz:{side}", "short.npy"))
        rows = 60 if side == "source" else 50
        assert message.startswith(f"short.npy: holds 7 labels, but {side}.npy has {rows} rows")
        labels = {"queries": "labels.npz:target", "database": "labels.npz:source"}
        labels["queries" if side == "target" else "database"] = "short.npy"
        assert "holds 7 labels" in refused(EVALUATE.format(**labels))


def test_labels_of_a_single_class(folder: Path, refused: Refused) -> None:
    for side in ["source", "target"]:
        np.save("same.npy", np.repeat("ant", 60 if side == "source" else 50))
        line = SUPERVISED.replace(f"labels.npz:{side}", "same.npy")
        message = refused(line)
        assert message.startswith(f"--labels-{side}: fewer than two classes")


def test_evaluation_of_a_single_class(folder: Path, refused: Refused) -> None:
    np.save("queries.npy", np.ones(50, dtype=int))
    np.save("database.npy", np.ones(60, dtype=int))
    message = refused(EVALUATE.format(queries="queries.npy", database="database.npy"))
    assert "hold a single class" in message


def test_evaluation_without_a_common_class(folder: Path, refused: Refused) -> None:
    np.save("queries.npy", np.full(50, 7))
    line = EVALUATE.format(queries="queries.npy", database="labels.npz:numbers")
    assert "no class in common" in refused(line)


def test_numbers_do_not_match_names(refused: Refused) -> None:
    mixed = SUPERVISED.replace("labels.npz:source", "labels.npz:numbers")
    assert "labels must be all text or all numbers" in refused(mixed)
    line = EVALUATE.format(queries="labels.npz:target", database="labels.npz:numbers")
    assert "labels.npz:target holds text" in refused(line)


def test_choices_that_do_not_exist(refused: Refused) -> None:
    for line, reason in [
        (
            PLAIN + "--memory-limit much",
            "--memory-limit: 'much' is not allowed; use a number of bytes",
        ),
        (PLAIN + "--memory-limit 1MB", "--memory-limit: '1MB' is too small for 110 rows"),
        (
            PLAIN + "--method itq --memory-limit 1GiB",
            "--memory-limit: works with ath methods only, not itq",
        ),
        (PLAIN + "--method itq --device cuda", "--device: works with ath methods only, not itq"),
        (
            PLAIN + "--device nowhere",
            "--device: 'nowhere' is not available" if TORCH else "--device: 'nowhere' needs torch",
        ),
        (
            SUPERVISED + "--preset supervized",
            "--preset: unknown preset 'supervized'; did you mean 'sup",
        ),
        (PLAIN + "--preset supervised", "--labels-source: missing"),
        (PLAIN + "--method aht", "--method: unknown method 'aht'; did you mean 'ath'?"),
        (PLAIN + "--method itq --preset kernel", "--preset: 'kernel' needs --method ath"),
        (PLAIN + "--method itq --published", "--published: needs one of ath-unsupervised, "),
        (PLAIN + "--set maxiter=3", "--set: unknown parameter 'maxiter'; did you mean 'max_iter'?"),
        (PLAIN + "--set bipartite__n_neighbour=3", "did you mean 'bipartite__n_neighbors'?"),
        (PLAIN + "--set lam__x=3", "unknown parameter 'lam__x'"),
        (PLAIN + "--method itq --set lam=3", "max_iter, n_bits, random_state"),
        (PLAIN + "--method ath-paired", "--pairs: "),
        (
            PLAIN + "--method ridge-map --pairs source.npy",
            "pairs have two columns of whole numbers",
        ),
        (
            PLAIN + "--method ridge-map --pairs wrong.npy",
            "--pairs: names rows of the target outside 0..49",
        ),
        (PLAIN + "--set lam", "write --set lam=0.5"),
        (
            PLAIN + "--set lam=-1",
            "lam: -1 is not allowed; use one of 'auto' or a number of at least 0",
        ),
        (PLAIN + "--set lam=much", "lam: 'much' is not allowed"),
        (PLAIN + "--set start=nowhere", "start: 'nowhere' is not allowed; use one of"),
        (PLAIN + "--set unit_rows=no", "--set: unit_rows='no' is not allowed; use true or false"),
        (PLAIN + "--set n_bits=0", "--bits: 0 is not allowed"),
        (PLAIN.replace("--bits 6", "--bits 0"), "--bits"),
        (PLAIN.replace("--bits 6", "--bits 4097"), "--bits"),
        (PLAIN + "--seed -1", "--seed"),
    ]:
        assert reason in refused(line)


def test_files_that_cannot_be_read(folder: Path, refused: Refused) -> None:
    for line, reason in [
        (PLAIN.replace("source.npy", "absent.npy"), "File not found: absent.npy"),
        (PLAIN.replace("source.npy", "."), "encoder.bh: "),
        (PLAIN.replace("source.npy", "model.bh"), "unknown file type '.bh'"),
        (PLAIN.replace("source.npy", "junk.npy"), "junk.npy: cannot be read"),
        (SUPERVISED.replace(":source", ":sauce"), "did you mean 'source'?"),
        ("info absent.bh", "absent.bh"),
        ("info .", "is a directory"),
        ("info source.npy", "source.npy: "),
        ("info junk.npy", "junk.npy: "),
    ]:
        Path("junk.npy").write_text("not an array")
        assert reason in refused(line)


def test_output_is_checked_before_the_work(
    folder: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    for out, reason in [
        ("absent/new{}", "the directory absent does not exist; create it first"),
        ("new.txt", "must end in "),
        ("taken{}", "is a directory"),
    ]:
        monkeypatch.setattr("bridgehash.cli.domains.read_data", raising(AssertionError("too late")))
        monkeypatch.setattr(
            "bridgehash.models.persistence.load", raising(AssertionError("too late"))
        )
        for line, suffix in ((PLAIN, ".bh"), (ENCODE, ".npy")):
            Path(f"taken{suffix}").mkdir(exist_ok=True)
            assert reason in refused(line.replace(f"new{suffix}", out.format(suffix)))


@pytest.mark.parametrize("line", [QUICK, ENCODE])
def test_no_space_leaves_the_old_file(
    folder: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    for name in ("new.bh", "new.npy"):
        Path(name).write_text("old")
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr("bridgehash._core.files.os.fsync", raising(full))
    message = refused(line)
    assert message.startswith("new.")
    assert (
        "cannot be written (No space left on device); free some space or choose another place"
        in message
    )
    assert Path("new.bh").read_text() == Path("new.npy").read_text() == "old"


def damaged(data: bytes, how: str) -> bytes:
    if how == "truncated":
        return data[:-100]
    if how == "flipped":
        return data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]
    return b"" if how == "empty" else b"hello, world"


@pytest.mark.parametrize("how", ["truncated", "flipped", "empty", "foreign"])
def test_damaged_models(folder: Path, refused: Refused, how: str) -> None:
    Path("model.bh").write_bytes(damaged(Path("model.bh").read_bytes(), how))
    lines = (
        "info model.bh",
        ENCODE,
        EVALUATE.format(queries="labels.npz:target", database="labels.npz:source"),
    )
    for line in lines:
        assert refused(line).startswith("model.bh: ")


def test_a_model_that_makes_no_codes(folder: Path, refused: Refused) -> None:
    save(AnchorKernel(n_anchors=2, random_state=0).fit(np.load("source.npy")), "map.bh")
    for line in ("info map.bh", ENCODE.replace("model.bh", "map.bh")):
        assert "AnchorKernel" in refused(line)


def test_encode_refuses(refused: Refused) -> None:
    for line, reason in [
        (ENCODE.replace("--domain source", ""), "--domain source or"),
        (
            ENCODE.replace("--domain source", "--domain target"),
            "takes 5; check the file and the domain",
        ),
        (
            ENCODE.replace("--domain source", "--domain both"),
            "choose one: --domain source or --domain target",
        ),
        (ENCODE.replace("model.bh", "itq.bh"), "drop --domain"),
        ("encode encoder.bh source.npy --out new.npy", "has 8 columns, but this encoder of"),
        (ENCODE + " --ids labels.npz:source", "--ids: needs an output that ends in .parquet"),
        (ENCODE.replace("new.npy", "source.npy"), "is also the input source.npy"),
        (ENCODE.replace("new.npy", "new.parquet --ids labels.npz:target"), "holds 50 ids, but"),
    ]:
        assert reason in refused(line)


def test_evaluate_refuses_wrong_domains(refused: Refused) -> None:
    line = EVALUATE.format(queries="labels.npz:target", database="labels.npz:source")
    assert "target.npy: has 5 columns" in refused(line + " --domain-queries source")
    assert "drop --domain-database" in refused(
        line.replace("model.bh", "encoder.bh") + " --domain-database target"
    )


def test_usage_errors_are_one_line_too(refused: Refused) -> None:
    for line, reason in [
        ("fitt", "No such command 'fitt'"),
        ("fit --out new.bh", "Missing argument 'SOURCE TARGET | NAME=SPEC...'"),
        ("fit source.npy target.npy", "Missing option '--out'"),
        (PLAIN + "--bogus", "No such option"),
        (PLAIN.replace("--bits 6", "--bits six"), "--bits"),
    ]:
        message = refused(line)
        assert reason in message
        assert message.endswith("--help")


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (MemoryError("Unable to allocate 9 TiB"), 2, "not enough memory (Unable to allocate"),
        (np.linalg.LinAlgError("SVD did not converge"), 2, "cannot be solved (SVD did not"),
        (InputError("two\nlines", "X['source']"), 2, "source.npy: two lines"),
        (OSError("something"), 2, "something"),
        (PermissionError(errno.EACCES, "Permission denied", "x.npy"), 2, "x.npy: Permission"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (RuntimeError("odd"), 1, "RuntimeError: odd; run with BRIDGEHASH_DEBUG=1"),
        (KeyError("k"), 1, "KeyError: 'k'; run with BRIDGEHASH_DEBUG=1"),
    ],
)
def test_errors_of_the_fit(
    refused: Refused,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
    reason: str,
) -> None:
    monkeypatch.setattr(ATH, "fit", raising(error))
    assert reason in refused(PLAIN, code)


def test_interrupted_write_leaves_nothing(
    folder: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridgehash._core.files.os.fsync", raising(KeyboardInterrupt()))
    for line in (QUICK, ENCODE):
        assert "no incomplete file was left" in refused(line, 130)


def test_debug_shows_the_traceback(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ATH, "fit", raising(RuntimeError("odd")))
    monkeypatch.setenv("BRIDGEHASH_DEBUG", "1")
    ended = run(PLAIN)
    assert ended.code == 1
    assert "Traceback" in ended.err
    assert ended.err.splitlines()[-1].startswith("error: RuntimeError: odd")
