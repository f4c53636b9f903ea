"""A long step shows that it runs, if that was requested."""

import pytest

from bridgehash._core.progress import requested, waiting


def test_a_bar_is_shown_only_where_it_was_requested(capsys: pytest.CaptureFixture[str]) -> None:
    with waiting("match by structure"):
        pass
    assert capsys.readouterr().err == ""
    with requested(True), waiting("match by structure"):
        pass
    assert "match by structure" in capsys.readouterr().err
    with requested(True), requested(False), waiting("match by structure"):
        pass
    assert capsys.readouterr().err == ""
