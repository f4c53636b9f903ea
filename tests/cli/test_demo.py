"""`bridgehash demo` in a small setting: what it says, what it leaves, and what works on that."""

from __future__ import annotations

import io
import sys
import warnings
from base64 import b64decode
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from bridgehash.cli.demo_study import METHODS, SUBTASKS, Method, Result, Study
from bridgehash.cli.demo_terminal import show_nearest
from rich.console import Console
from sklearn.exceptions import ConvergenceWarning

from bridgehash import ATH, load
from bridgehash.cli import demo, demo_study
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
        return demo_study.run_study(domains, lambda name: None)


@pytest.fixture(scope="module")
def ran(domains: DigitDomains, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a small demo, and what was printed."""
    pytest.importorskip("matplotlib")
    out = tmp_path_factory.mktemp("parent") / "made" / "demo"
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
    for result in study.results:
        line = next(line for line in printed.splitlines() if line.startswith(result.method.name))
        for subtask in SUBTASKS:
            area, precision = result.area(subtask), result.precision(subtask)
            assert f"{area:.1f} ({precision:.1f})" in line
            assert f"{area:.1f}" in page
    for text in (printed, page):
        assert "radius_pr_area" in text
        assert "mean_average_precision" in text
        assert "chance" in text
        assert demo_study.reading(study) in text


def test_commands_to_try_next_are_printed_and_work(
    ran: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    out, printed = ran
    page = (out / "index.html").read_text(encoding="utf-8")
    before = set(out.iterdir())
    for step in (*demo.next_steps(out), demo.info_step(out)):
        assert str(step) in page
        assert main(step.arguments) == 0, capsys.readouterr().err
    assert len(demo.next_steps(out)) == 3
    assert all(str(step) in printed for step in demo.next_steps(out))
    assert "mean_average_precision" in capsys.readouterr().out
    made = set(out.iterdir()) - before
    assert {path.name for path in made} == {"mine.bh", "codes_query.npy"}
    for path in made:
        path.unlink()


def test_commands_survive_awkward_folders() -> None:
    step = demo.info_step(Path("my demo"))
    assert str(step) == "bridgehash info 'my demo/model.bh'"
    assert step.arguments == ["info", "my demo/model.bh"]


def test_second_run_replaces_and_repeats_the_first(
    ran: tuple[Path, str], domains: DigitDomains
) -> None:
    out, printed = ran
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    (out / "model.bh").write_bytes(b"something else")
    assert _run(out, domains) == printed
    assert {path.name: path.read_bytes() for path in out.iterdir()} == first


def test_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "demo"
    path.write_text("mine")
    with pytest.raises(ValueError, match="demo: is a file, but the demo writes a folder"):
        demo.run_demo(path, Console(file=io.StringIO()))
    assert path.read_text() == "mine"


def test_missing_matplotlib_is_named_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ValueError, match=r"pip install 'bridgehash\[plots\]'"):
        demo.run_demo(tmp_path / "demo", Console(file=io.StringIO()))
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize(
    ("labels", "seen"),
    [("none", set()), ("source", {"y_source"}), ("both", {"y_source", "y_target"})],
)
def test_methods_see_their_labels_only(domains: DigitDomains, labels: Any, seen: set[str]) -> None:
    given: dict[str, Any] = {}

    class Spy:
        def fit(self, X_source: object, X_target: object, **labels: object) -> None:
            given.update(labels)

    demo_study._fitted(Method("spy", labels, cast(Any, Spy)), domains.heterogeneous())
    assert set(given) == seen


def test_nearest_items_are_the_nearest(study: Study) -> None:
    hasher, task = study.result("ITQ").hasher, study.task
    distances = hamming(
        hasher.encode(task.X_query, "target"), hasher.encode(task.X_source, "source")
    )
    for query in range(3):
        found = demo_study.nearest(study, "ITQ", query, k=7)
        assert found.distances.tolist() == sorted(distances[query])[:7]
        assert np.array_equal(found.right, found.y == task.y_query[query])


def _with_areas(*areas: float) -> Study:
    """A study whose methods have these areas in all subtasks, in per cent; chance is 10."""
    histogram = DistanceHistogram(np.array([[10, 90]]), np.array([[1, 9]]))
    results = []
    for method, area in zip(METHODS, areas, strict=True):
        scores = Scores(area / 100, 0.0, 0.0, 0.0, 0.0, histogram)
        results.append(Result(method, dict.fromkeys(SUBTASKS, scores), None))  # type: ignore[arg-type]
    return Study(None, None, tuple(results))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("areas", "said", "unsaid"),
    [
        ((9, 14, 15, 80, 99), "ATH kernel is best with 99.0; ITQ (9.0), ATH unsup", "no method"),
        ((9, 14, 15, 80, 99), "stay near chance (10.0), the methods without labels", "ITQ leads"),
        (
            (9, 60, 70, 80, 99),
            "; ITQ (9.0) stays near chance (10.0). Without",
            "the methods without",
        ),
        ((50, 40, 45, 60, 55), "ATH supervised is best with 60.0; no method stays", "the methods"),
        ((50, 40, 45, 60, 55), "ITQ (50.0) leads ATH unsupervised (40.0).", "ATH kernel"),
    ],
)
def test_reading_follows_the_figures(areas: tuple[float, ...], said: str, unsaid: str) -> None:
    text = demo_study.reading(_with_areas(*areas))
    assert said in text
    assert unsaid not in text


def test_pictures_are_drawn_with_what_the_terminal_has(study: Study) -> None:
    found = (demo_study.nearest(study, "ITQ"),)

    def drawn(encoding: str, **options: Any) -> str:
        stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        show_nearest(Console(file=stream, width=80, **options), study, found)
        stream.flush()
        return stream.buffer.getvalue().decode(encoding)

    plain = drawn("utf-8", color_system=None)
    assert set("▀▄█") <= set(plain)
    assert "\x1b" not in plain
    assert all(len(line) <= 80 for line in plain.splitlines())
    assert "38;2;255;255;255" in drawn("utf-8", color_system="truecolor", force_terminal=True)
    assert "ok" in drawn("ascii") or "no " in drawn("ascii")


@pytest.mark.slow
def test_full_demo_says_what_the_documentation_says() -> None:
    study = demo_study.run_study(digit_domains(), lambda name: None)
    areas = {result.method.name: result.area("HeCDR") for result in study.results}
    assert areas["ATH kernel"] > 95
    assert areas["ATH supervised"] > 70
    assert areas["ITQ"] < 20
    assert study.chance("HeCDR") == pytest.approx(10.0, abs=0.2)
