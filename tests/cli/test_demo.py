"""`bridgehash demo` in a small setting: what it says, what it leaves, and what works on that."""

from __future__ import annotations

import io
import shlex
import sys
import warnings
from base64 import b64decode
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from sklearn.exceptions import ConvergenceWarning

from bridgehash import ATH, load
from bridgehash.cli import demo_report as demo
from bridgehash.cli.demo_report import METHODS, SUBTASKS, Study
from bridgehash.cli.main import main
from bridgehash.codes import hamming
from bridgehash.datasets import DigitDomains, digit_domains
from bridgehash.metrics import DistanceHistogram
from bridgehash.metrics.evaluate import Scores


@pytest.fixture(scope="module")
def domains() -> DigitDomains:
    return digit_domains(300, n_queries=40)


@pytest.fixture(scope="module")
def study(domains: DigitDomains) -> Study:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return demo.run_study(domains, lambda name: None)


@pytest.fixture(scope="module")
def ran(
    domains: DigitDomains, study: Study, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """The folder of a small demo, and what was printed; the study is not run again."""
    pytest.importorskip("matplotlib")
    out = tmp_path_factory.mktemp("parent") / "made" / "demo"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(demo, "run_study", lambda *_: study)
        return out, _run(out, domains)


def _run(out: Path, domains: DigitDomains) -> str:
    stream = io.StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        demo.run_demo(out, Console(file=stream, width=10_000), domains)
    return stream.getvalue()


def test_folder_holds_the_stated_files_and_no_others(ran: tuple[Path, str]) -> None:
    assert sorted(path.name for path in ran[0].iterdir()) == sorted(demo.FILES)


def test_model_and_codes_belong_to_the_data(ran: tuple[Path, str]) -> None:
    out, _ = ran
    model = load(out / "model.bh")
    assert isinstance(model, ATH)
    encoders = {"source": model.source_encoder_, "target": model.target_encoder_}
    with np.load(out / "digits.npz") as data:
        for domain, width in (("source", 64), ("target", 96)):
            codes = np.load(out / f"codes_{domain}.npy")
            assert data[domain].shape == (len(codes), width)
            assert np.array_equal(codes, encoders[domain].encode(data[domain]))


def test_data_hold_what_the_commands_need(ran: tuple[Path, str], domains: DigitDomains) -> None:
    with np.load(ran[0] / "digits.npz") as data:
        for name, part in (
            ("source", domains.source),
            ("target", domains.target),
            ("query", domains.query),
        ):
            assert np.array_equal(data[f"y_{name}"], part.y)
            assert len(data[name]) == len(part.y)
        assert np.array_equal(data["query_pixels"], domains.query.pixels)
        assert np.array_equal(data["target_pixels"], domains.target.pixels)


@pytest.mark.parametrize(("name", "size"), [("neighbours", (680, 1400)), ("pr_curve", (800, 1400))])
def test_pictures_are_pictures(ran: tuple[Path, str], name: str, size: tuple[int, int]) -> None:
    pixels = pytest.importorskip("matplotlib.image").imread(ran[0] / f"{name}.png")
    assert pixels.shape[:2] == size
    assert 0.02 < (pixels[..., :3] < 0.9).any(axis=2).mean() < 0.6  # neither empty nor full


class _Page(HTMLParser):
    """Headings, images and all addresses of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: list[int] = []
        self.images: list[dict[str, str | None]] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("h1", "h2", "h3", "h4"):
            self.headings.append(int(tag[1]))
        if tag == "img":
            self.images.append(dict(attrs))
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]


def test_page_needs_nothing_from_outside(ran: tuple[Path, str]) -> None:
    text = (ran[0] / "index.html").read_text(encoding="utf-8")
    assert "http:" not in text
    assert "https:" not in text
    assert "@import" not in text
    assert "url(" not in text
    assert all(address.startswith("data:") for address in _Page(text).addresses)


def test_page_shows_the_pictures_with_words_for_them(ran: tuple[Path, str]) -> None:
    images = _Page((ran[0] / "index.html").read_text(encoding="utf-8")).images
    for image, name in zip(images, ("neighbours.png", "pr_curve.png"), strict=True):
        inlined = b64decode((image["src"] or "").removeprefix("data:image/png;base64,"))
        assert inlined == (ran[0] / name).read_bytes()
        assert len(image["alt"] or "") > 40


def test_page_has_real_headings(ran: tuple[Path, str]) -> None:
    levels = _Page((ran[0] / "index.html").read_text(encoding="utf-8")).headings
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))


def test_table_is_printed_and_on_the_page(ran: tuple[Path, str], study: Study) -> None:
    out, printed = ran
    page = (out / "index.html").read_text(encoding="utf-8")
    areas, precisions = map(study.table, demo.METRICS)
    for label in areas.rows:
        line = next(line for line in printed.splitlines() if line.startswith(label))
        for area, precision in zip(areas.rows[label], precisions.rows[label], strict=True):
            assert f"{area.mean:.1f} ({precision.mean:.1f})" in line
            assert f"{area.mean:.1f}" in page
    for text in (printed, page):
        assert "radius_pr_area" in text
        assert "mean_average_precision" in text
        assert "chance" in text
        assert demo.summary(study) in text


def test_commands_to_try_next_are_printed_and_work(
    ran: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    out, printed = ran
    page = unescape((out / "index.html").read_text(encoding="utf-8"))
    before = set(out.iterdir())
    steps = demo.next_steps(out).values()
    assert len(steps) == 4
    for command in steps:
        assert command in page
        assert command in printed
        assert main(shlex.split(command.replace("\\\n", ""))[1:]) == 0, capsys.readouterr().err
    assert "mean_average_precision" in capsys.readouterr().out
    made = set(out.iterdir()) - before
    assert {path.name for path in made} == {
        "mine.bh",
        "codes_query.npy",
        "codes_query.npy.origin.json",
    }
    for path in made:
        path.unlink()
    spaced = demo.next_steps(Path("my demo"))["Describe the model"]
    assert spaced == "bridgehash info 'my demo/model.bh'"


def test_second_run_replaces_and_repeats_the_first(
    ran: tuple[Path, str], domains: DigitDomains
) -> None:
    out, printed = ran
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    (out / "model.bh").write_bytes(b"something else")
    assert _run(out, domains) == printed
    assert {path.name: path.read_bytes() for path in out.iterdir()} == first


def test_a_file_in_place_of_the_folder_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "demo").write_text("mine")
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 2
    assert "demo: is a file, but the demo writes a folder" in capsys.readouterr().err


def test_without_matplotlib_only_the_pictures_are_missing(
    domains: DigitDomains,
    study: Study,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setattr(demo, "run_study", lambda *_: study)
    printed = _run(tmp_path, domains)
    pictures = {"neighbours.png", "pr_curve.png"}
    assert {path.name for path in tmp_path.iterdir()} == set(demo.FILES) - pictures
    assert "pr_curve.png" not in printed
    said = capsys.readouterr().err
    assert "no neighbours.png and no pr_curve.png; pip install 'bridgehash[plots]'" in said
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "<img" not in page
    assert "neighbours.png" not in page
    assert demo.summary(study) in page


def test_write_writes_the_data_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "demo"
    assert main(["demo", "--write", "--out", str(out)]) == 0
    assert [path.name for path in out.iterdir()] == ["digits.npz"]
    assert capsys.readouterr().out.startswith(f"written  {out / 'digits.npz'} (")
    task = digit_domains().heterogeneous()
    with np.load(out / "digits.npz") as data:
        assert np.array_equal(data["query"], task.X_query)
    assert main(["demo", "--write", "--serve", "--out", str(out)]) == 2


def test_nearest_items_are_the_nearest(study: Study) -> None:
    hasher, task = study.hashers["ITQ"], study.task
    distances = hamming(
        hasher.encode(task.X_query, "target"), hasher.encode(task.X_source, "source")
    )
    for query in range(3):
        found = demo.nearest(study, "ITQ", query, k=7)
        assert found.distances == sorted(distances[query])[:7]
        assert found.right == [y == task.y_query[query] for y in found.y]


def test_the_summary_follows_the_scores() -> None:
    histogram = DistanceHistogram(np.array([[10, 90]]), np.array([[1, 9]]))  # chance: 10 per cent
    for areas, said in (
        ((9, 14, 15, 80, 99), "ATH kernel is best with 99.0; near chance (10.0): ITQ (9.0), ATH u"),
        ((9, 60, 70, 80, 99), "near chance (10.0): ITQ (9.0). Without labels"),
        ((50, 40, 45, 60, 55), "ATH supervised is best with 60.0; near chance (10.0): no method."),
        ((50, 40, 45, 60, 55), "(HoCDR): ITQ 50.0, ATH unsupervised 40.0."),
    ):
        scores = {
            method.label: dict.fromkeys(SUBTASKS, Scores(area / 100, 0.0, 0.0, 0.0, 0.0, histogram))
            for method, area in zip(METHODS, areas, strict=True)
        }
        assert said in demo.summary(Study(None, None, scores, {}))  # type: ignore[arg-type]


def test_pictures_are_drawn_with_what_the_terminal_has(study: Study) -> None:
    found = [demo.nearest(study, "ITQ")]

    def drawn(encoding: str, **options: Any) -> str:
        stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        demo.show_neighbors(Console(file=stream, width=80, **options), study, found)
        stream.flush()
        return stream.buffer.getvalue().decode(encoding)

    plain = drawn("utf-8", color_system=None)
    assert set("▀▄█") <= set(plain)
    assert "\x1b" not in plain
    assert all(len(line) <= 80 for line in plain.splitlines())
    assert "ok" in drawn("ascii") or "no " in drawn("ascii")


@pytest.mark.slow
def test_full_demo_says_what_the_documentation_says() -> None:
    study = demo.run_study(digit_domains(), lambda name: None)
    areas = study.areas("HeCDR")
    assert areas["ATH kernel"] > 95
    assert areas["ATH supervised"] > 70
    assert areas["ITQ"] < 20
    assert study.chance("HeCDR") == pytest.approx(10.0, abs=0.2)
