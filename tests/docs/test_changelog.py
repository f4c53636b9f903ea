"""Fragments in `changes/` appear in the changelog."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("mkdocs")
from mkdocs.exceptions import PluginError

from tests.docs.conftest import load


@pytest.fixture
def built(tmp_path):
    """`built(text)`: the changelog with the fragments of a temporary folder."""
    (tmp_path / "changes").mkdir()
    config = SimpleNamespace(config_file_path=str(tmp_path / "mkdocs.yml"))

    def call(text, name="changelog.md", **fragments):
        for fragment, content in fragments.items():
            (tmp_path / "changes" / f"{fragment.replace('__', '.')}.md").write_text(content)
        page = SimpleNamespace(file=SimpleNamespace(src_uri=name))
        return load("docs/_hooks/changelog.py").on_page_markdown(text, page, config)

    return call


def test_fragments_take_the_place_of_the_mark_old_names_first(built):
    text = built(
        "# C\n\n<!-- changes -->\n\n## Before\n", a__feature="New\nthing.", b__api="Old → new."
    )
    assert text == (
        "# C\n\n### More changes\n\n* **b**: Old → new.\n* **a**: New thing.\n\n## Before\n"
    )


def test_without_fragments_there_is_no_section(built):
    assert built("# C\n<!-- changes -->\n", README="How.") == "# C\n\n"


def test_a_changelog_without_a_place_for_fragments_is_refused(built):
    with pytest.raises(PluginError, match="needs the line"):
        built("# C\n")


def test_other_pages_stay_as_they_are(built):
    assert built("text", "index.md", a__fix="x") == "text"
