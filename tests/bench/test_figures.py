"""Figures show the records: lines, cells, bars and points are checked against their definition."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from bridgehash.bench.drawing import line_style, page_style, panel, png, svg, widen
from bridgehash.bench.figures import PLOTS, Plot, plot_of, pooled_curve, short
from bridgehash.bench.spec import FIGURES, Suite, load_suite, parse_suite, suite_names
from bridgehash.bench.tables import runs_of
from bridgehash.metrics import DistanceHistogram, radius_pr_curve
from tests.bench.conftest import ALONE, ATH, TASK, TEXT, Make

pytest.importorskip("matplotlib")


def figured(figure: str, more: str = "") -> Suite:
    return parse_suite("toy", TEXT.format(more=f'figure = "{figure}"\n{more}'))


def swept(figure: str, sweep: str, more: str = "") -> Suite:
    text = f'title = "T"\ntasks = ["{TASK}"]\nn_bits = [16]\nseeds = 2\nfigure = "{figure}"\n'
    method = f'[[method]]\nlabel = "A"\nuse = "ath-unsupervised"\nsweep = {sweep}\n'
    return parse_suite("toy", f"{text}{more}\n{method}")


def axes_of(plot: Plot | None, i: int = 0) -> Any:
    assert plot is not None
    return plot.panels[i].figure.axes[0]


def lines(axes: Any) -> dict[str, np.ndarray]:
    """Named lines as arrays of points."""
    return {
        line.get_label(): np.column_stack(line.get_data())
        for line in axes.lines
        if not line.get_label().startswith("_")
    }


def test_every_figure_is_used_by_a_suite_and_needs_records() -> None:
    suites = [load_suite(name) for name in suite_names()]
    assert {suite.figure for suite in suites} == {None, *FIGURES}
    assert set(PLOTS) == set(FIGURES)
    assert all(plot_of(suite, []) is None for suite in suites)


def test_a_suite_without_figure_has_none(suite: Suite, record: Make) -> None:
    assert plot_of(suite, [record()]) is None


def test_curves_are_those_of_the_pooled_pairs(record: Make) -> None:
    other = record(seed=1)
    other["scores"]["cross"] = other["scores"]["cross"] | {
        "pairs": [0, 10, 10],
        "relevant": [0, 5, 0],
    }
    records = [record(), other, record(0.9, **ATH)]
    suite = figured("pr")
    plot = plot_of(suite, records)
    assert plot is not None
    assert len(plot.panels) == 2  # both sides of one task
    drawn = lines(axes_of(plot))
    assert list(drawn) == ["ITQ <one>", "ATH"]
    pooled = DistanceHistogram(np.array([[2, 14, 24]]), np.array([[2, 6, 2]]))
    recall, precision = radius_pr_curve(pooled)
    np.testing.assert_allclose(drawn["ITQ <one>"], np.column_stack([recall, precision]))
    mine = [run for run in runs_of(suite, records) if run.label == "ITQ <one>"]
    np.testing.assert_allclose(pooled_curve(mine, "cross"), [recall, precision])
    assert [name for name, _ in plot.legend] == ["ITQ <one>", "ATH", "chance"]
    assert "ITQ <one> 50.0, ATH 90.0" in plot.panels[0].words


def test_chance_is_the_share_of_relevant_pairs(record: Make) -> None:
    axes = axes_of(plot_of(figured("pr"), [record()]))
    (chance,) = [line for line in axes.lines if line.get_label().startswith("_")]
    assert set(chance.get_ydata()) == {5 / 20}


def test_one_view_alone_is_drawn_once(record: Make) -> None:
    plot = plot_of(figured("pr"), [record(task=ALONE)])
    assert plot is not None
    assert [panel.title for panel in plot.panels] == [
        "cifar10: all.gist512; search in the target, 16 bits"
    ]


def test_a_method_keeps_its_style_when_another_is_missing(record: Make) -> None:
    both = axes_of(plot_of(figured("pr"), [record(), record(**ATH)]))
    alone = axes_of(plot_of(figured("pr"), [record(**ATH)]))
    colours = [
        next(line.get_color() for line in axes.lines if line.get_label() == "ATH")
        for axes in (both, alone)
    ]
    assert colours[0] == colours[1]


def test_failed_fits_are_not_drawn(record: Make) -> None:
    plot = plot_of(figured("pr"), [record(), record(error="E: x", **ATH)])
    assert list(lines(axes_of(plot))) == ["ITQ <one>"]


def test_bars_are_means_with_their_spread(record: Make) -> None:
    records = [record(0.2), record(0.4, seed=1), record(0.1, **ATH)]
    axes = axes_of(plot_of(figured("bars"), records))
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([30.0, 10.0])
    assert [text.get_text() for text in axes.texts] == ["30.0", "10.0"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["ITQ <one>", "ATH"]
    (ends,) = axes.collections[0].get_segments()
    assert ends[:, 0].tolist() == pytest.approx([20.0, 40.0])


def course_records(record: Make) -> list[dict[str, Any]]:
    return [
        record(
            0.1 * n + 0.01 * seed,
            use="ath-unsupervised",
            params={"max_iter": n},
            seed=seed,
            extras=["objective", "transfer"],
            objective=[8.0 / 2**i for i in range(n)],
            transfer=0.2 * n,
        )
        for n in (3, 1, 2)
        for seed in (0, 1)
    ]


def test_curves_over_the_iterations(record: Make) -> None:
    extras = 'extras = ["objective", "transfer"]'
    suite = swept("iterations", "{ max_iter = [1, 2, 3] }", extras)
    plot = plot_of(suite, course_records(record))
    assert plot is not None
    shown = [lines(panel.figure.axes[0])["A"].tolist() for panel in plot.panels]
    assert shown[0] == [[1, 1.0], [2, 0.5], [3, 0.25]]
    np.testing.assert_allclose(shown[1], [[1, 20], [2, 40], [3, 60]])
    np.testing.assert_allclose(shown[2], [[1, 10.5], [2, 20.5], [3, 30.5]])
    assert len(shown) == 4
    assert plot.panels[3].title.endswith("radius_pr_area in per cent, search in the target")


def test_accuracy_starts_at_that_of_the_features(record: Make) -> None:
    extras = 'extras = ["transfer_before", "objective", "transfer"]'
    suite = swept("iterations", "{ max_iter = [1, 2, 3] }", extras)
    records = [
        r | {"extras": [*r["extras"], "transfer_before"], "transfer_before": 0.66}
        for r in course_records(record)
    ]
    plot = plot_of(suite, records)
    assert plot is not None
    accuracy = lines(plot.panels[1].figure.axes[0])["A"]
    np.testing.assert_allclose(accuracy, [[0, 66], [1, 20], [2, 40], [3, 60]])
    assert lines(plot.panels[2].figure.axes[0])["A"][0, 0] == 1  # of scores, the first iteration


def test_iterations_without_extras_show_scores_only(record: Make) -> None:
    suite = swept("iterations", "{ max_iter = [1, 2, 3] }")
    records = [r | {"extras": []} for r in course_records(record)]
    for r in records:
        del r["objective"], r["transfer"]
    plot = plot_of(suite, records)
    assert plot is not None
    assert len(plot.panels) == 2


def test_two_parameters_make_a_heat_map(record: Make) -> None:
    suite = swept("grid", "{ alpha_source = [1e-3, 1.0], lam = [0.1, 1, 10] }")
    values = {(1e-3, 0.1): 0.1, (1e-3, 1.0): 0.2, (1.0, 0.1): 0.3, (1.0, 10.0): 0.44}
    records = [
        record(area, use="ath-unsupervised", params={"alpha_source": a, "lam": b})
        for (a, b), area in values.items()
    ]
    plot = plot_of(suite, records)
    axes = axes_of(plot)
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("alpha_source", "lam")
    assert [t.get_text() for t in axes.get_yticklabels()] == ["1e-3", "1"]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["0.1", "1", "10"]
    cells = np.ma.filled(axes.collections[0].get_array(), np.nan).reshape(2, 3)
    np.testing.assert_allclose(cells, [[10, 20, np.nan], [30, np.nan, 44]])
    assert [t.get_text() for t in axes.texts] == ["10", "20", "", "30", "", "44"]
    assert plot is not None
    assert "highest at alpha_source 1 and lam 10" in plot.panels[0].words


def test_one_parameter_makes_a_line(record: Make) -> None:
    suite = swept("grid", "{ lam = [0.1, 1] }")
    records = [record(lam / 2, use="ath-unsupervised", params={"lam": lam}) for lam in (0.1, 1.0)]
    axes = axes_of(plot_of(suite, records))
    assert axes.lines[0].get_ydata() == pytest.approx([5.0, 50.0])
    assert [t.get_text() for t in axes.get_xticklabels()] == ["0.1", "1"]


def test_the_plane_shows_both_domains_and_all_classes(record: Make) -> None:
    embedding = {
        "x": [0, 1, 2, 3, 4],
        "y": [0, 0, 1, 1, 2],
        "class": [0, 1, 0, 1, 1],
        "n_source": 2,
    }
    suite = figured("tsne", 'extras = ["embedding"]')
    records = [record(extras=["embedding"], embedding=embedding, seed=seed) for seed in (0, 1)]
    plot = plot_of(suite, records)
    assert plot is not None
    assert len(plot.panels) == 1  # the first split alone
    drawn = [(line.get_marker(), line.get_xdata().tolist()) for line in axes_of(plot).lines]
    assert drawn == [("h", [0]), ("h", [1]), ("o", [2]), ("o", [3, 4])]
    colours = [line.get_markeredgecolor() for line in axes_of(plot).lines]
    assert colours[0] == colours[2] != colours[1] == colours[3]
    assert [name for name, _ in plot.legend] == ["source", "target", "class 0", "class 1"]


def test_scores_against_training_rows(record: Make) -> None:
    text = TEXT.format(more='figure = "samples"').replace(
        f'["{TASK}", "{ALONE}"]', f'["{TASK}@200", "{TASK}@100", "{TASK}"]'
    )
    records = [
        record(area, task=f"{TASK}{n}", seed=seed, rows={"source": 900, "target": 300})
        for n, areas in (("@200", (0.2, 0.4)), ("@100", (0.1, 0.1)), ("", (0.5, 0.5)))
        for seed, area in enumerate(areas)
    ]
    plot = plot_of(parse_suite("toy", text), records)
    assert plot is not None
    assert len(plot.panels) == 2  # one for each side, all sizes together
    (line,) = (container.lines[0] for container in axes_of(plot).containers)
    assert line.get_xdata().tolist() == [100, 200, 900]
    assert line.get_ydata() == pytest.approx([10.0, 30.0, 50.0])
    assert [t.get_text() for t in axes_of(plot).get_xticklabels()] == ["100", "200", "900"]


def test_svg_is_part_of_a_page() -> None:
    with page_style():
        figure, axes = panel()
        axes.plot([0, 1], [0.123456789, 1], **line_style(0))
        axes.set(xlabel="a <b> & c")
    text = svg(figure, "one", "a \\1 <b>")
    head = '<svg viewBox="0 0 252 194.4" role="img" aria-label="a \\1 &lt;b&gt;">'
    assert text.startswith(head)
    for outside in ("http", "xlink", "<?xml", "<style", "<metadata", "DejaVu"):
        assert outside not in text
    assert "a &lt;b&gt; &amp; c" in text
    assert "var(--ink" in text
    ids = re.findall(r'id="([^"]*)"', text)
    assert all(name.startswith("one-") for name in ids)
    assert set(re.findall(r'(?:href="#|url\(#)([^")]*)', text)) <= set(ids)
    assert svg(figure, "one", "a \\1 <b>") == text
    assert 'aria-hidden="true"' in svg(figure, "one")


def test_styles_differ_in_more_than_colour() -> None:
    styles = [line_style(i) for i in range(12)]  # the methods of the figures of the paper
    assert len({style["marker"] for style in styles}) == 12
    assert len({style["color"] for style in styles}) == 12
    assert line_style(12) == line_style(0)


def test_small_differences_look_small() -> None:
    for values, limits in (([50, 51], (45.5, 55.5)), ([0, 1], (0, 10)), ([0, 90], None)):
        _, axes = panel()
        axes.plot([0, 1], values)
        before = axes.get_ylim()
        widen(axes, 10.0)
        assert axes.get_ylim() == pytest.approx(limits or before)


def test_png_bytes_are_reproducible() -> None:
    figure, axes = panel()
    axes.plot([0, 1], [0, 1])
    assert png(figure) == png(figure)
    assert png(figure).startswith(b"\x89PNG")


def test_ticks_are_short() -> None:
    assert [short(x) for x in (1e-06, 0.1, 1000.0, True, "itq")] == [
        "1e-6",
        "0.1",
        "1e3",
        "True",
        "itq",
    ]
