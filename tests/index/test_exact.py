"""The index against a dictionary and brute force, after any sequence of changes."""

import os
import pickle
import subprocess
import sys
import tempfile
import threading

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bridgehash import ITQ, InputError, ModelFileError, load
from bridgehash.codes import hamming, pack, unpack
from bridgehash.index import HammingIndex
from bridgehash.index.attributes import ItemFilter
from bridgehash.index.scan import nearest_rows, numpy_nearest_rows, prepare_many
from bridgehash.index.state import as_words


def random_codes(rng, n, n_bits, spread=0.5):
    return pack(rng.random((n, n_bits)) < spread)


def brute(codes, ids, queries, k):
    """Distances and ids by sorting everything by (distance, id)."""
    D = hamming(queries, codes).astype(int)
    order = np.array([np.lexsort((ids, row))[:k] for row in D], dtype=int)
    return np.take_along_axis(D, order, axis=1), ids[order]


def assert_same(answer, expected):
    for ours, theirs in zip(answer, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("n_bits", [1, 12, 64, 65, 190, 254, 255, 512, 1025, 2049, 4096])
def test_the_nearest_are_those_of_brute_force(n_bits):
    rng = np.random.default_rng(n_bits)
    codes, queries = random_codes(rng, 4200, n_bits), random_codes(rng, 5, n_bits)
    ids = rng.permutation(100_000)[:4200]
    index = HammingIndex(n_bits).add(codes, ids)
    for k in (1, 300):
        assert_same(index.search(queries, k), brute(codes, ids, queries, k))


def test_the_scan_of_numpy_gives_the_same_rows():
    rng = np.random.default_rng(0)
    for n_bits, n, k in [(8, 5, 5), (64, 3000, 7), (100, 3000, 300), (4096, 900, 20)]:
        words = as_words(random_codes(rng, n, n_bits))
        queries = np.ascontiguousarray(as_words(random_codes(rng, 2000, n_bits)).T)
        arguments = words, queries, k, n_bits
        assert_same(numpy_nearest_rows(*arguments), nearest_rows(*arguments))


def test_codes_at_the_ends_of_tiles_are_found():
    rng = np.random.default_rng(0)
    queries = random_codes(rng, 3, 64)
    tile = pytest.importorskip("bridgehash.index.kernel")._TILE
    for n in (1, tile - 1, tile, tile + 1, tile + 63):
        codes = random_codes(rng, n, 64)
        answer = HammingIndex(64).add(codes).search(queries, n)
        assert_same(answer, brute(codes, np.arange(n), queries, n))


@pytest.mark.parametrize("n_bits", [64, 128, 192, 256, 320])
def test_queries_are_answered_alone_as_in_groups(n_bits):
    rng = np.random.default_rng(n_bits)
    words = as_words(random_codes(rng, 500, n_bits))
    queries = np.ascontiguousarray(as_words(random_codes(rng, 9, n_bits)).T)
    for n in range(1, 10):
        arguments = words, queries[:n], 20, n_bits
        assert_same(numpy_nearest_rows(*arguments), nearest_rows(*arguments))


def many_queries(rng, codes, n_bits):
    """Queries of every kind: random, of few or many ones, none or all, codes and complements."""
    spreads = np.repeat([0.5, 0.05, 0.95, 0, 1], [20, 6, 6, 1, 1])
    B = np.array([rng.random(n_bits) < spread for spread in spreads])
    return np.concatenate([pack(B), codes[:3], pack(-unpack(codes[-3:], n_bits))])


@pytest.mark.parametrize("n_bits", [1, 12, 64, 65, 128, 190, 254, 255, 256, 257])
@pytest.mark.parametrize("spread", [0.5, 0.04])
def test_many_queries_have_the_same_neighbours(monkeypatch, n_bits, spread):
    """They have a scan of their own, in tiles of 512 codes, after the first few."""
    kernel = pytest.importorskip("bridgehash.index.kernel")
    for name, value in {"_TILE": 64, "_RARE": 1}.items():  # so that few codes are enough
        monkeypatch.setattr(kernel, name, value)
    rng = np.random.default_rng(n_bits)
    for n, k in [(575, 20), (576, 1), (577, 577), (5000, 700), (7232, 20)]:
        codes = random_codes(rng, n, n_bits, spread)
        words = as_words(codes)
        queries = np.ascontiguousarray(as_words(many_queries(rng, codes, n_bits)).T)
        arguments = words, queries, k, n_bits
        assert_same(nearest_rows(*arguments), numpy_nearest_rows(*arguments))


def test_the_scan_for_many_queries_is_prepared(monkeypatch):
    """It takes seconds to compile, while a service must answer."""
    kernel = pytest.importorskip("bridgehash.index.kernel")
    calls = []
    monkeypatch.setattr(kernel.sliced_kernel, "scan_tiles", lambda *given: calls.append(1) or 0)
    prepare_many(70)
    assert calls


@pytest.mark.slow
def test_many_queries_have_the_same_neighbours_on_any_processor(tmp_path):
    """The same without instructions of this processor, which is compiled anew."""
    this = "test_many_queries_have_the_same_neighbours"
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{__file__}::{this}"]
    env = {"NUMBA_CPU_NAME": "generic", "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run(line, env={**os.environ, **env}, check=True)


def test_equal_codes_are_ordered_by_id():
    codes = np.zeros((20_000, 8), np.uint8)
    D, ids = HammingIndex(64).add(codes, np.arange(20_000)[::-1]).search(codes[:2], 50)
    assert (D == 0).all()
    np.testing.assert_array_equal(ids, [np.arange(50)] * 2)


def test_each_code_nearer_than_all_before_it_is_found():
    """The worst order for a threshold."""
    B = np.tri(65, 64, -1, dtype=bool)[::-1]
    codes = pack(np.repeat(B, 200, axis=0))
    for n in (1, 40):
        D, ids = HammingIndex(64).add(codes).search(np.zeros((n, 8), np.uint8), 300)
        found = np.r_[64 * 200 : 65 * 200, 63 * 200 : 63 * 200 + 100]
        np.testing.assert_array_equal(D, [np.repeat([0, 1], [200, 100])] * n)
        np.testing.assert_array_equal(ids, [found] * n)


def test_places_without_a_code_have_id_minus_one():
    D, ids = HammingIndex(8).add([[3]], [7]).search([[1]], k=3)
    np.testing.assert_array_equal(D, [[1, 9, 9]])
    np.testing.assert_array_equal(ids, [[7, -1, -1]])
    assert HammingIndex(8).search([[1]], k=2)[1].tolist() == [[-1, -1]]


def test_a_radius_holds_all_codes_within_it():
    rng = np.random.default_rng(0)
    codes = random_codes(rng, 400, 64, spread=0.03)
    index = HammingIndex(64).add(codes, np.arange(400) * 3)
    for radius in (0, 3, 64):
        for query, (D, ids) in zip(codes[:5], index.within(codes[:5], radius), strict=True):
            all_D = hamming(query[None], codes)[0]
            order = np.lexsort((np.arange(400), all_D))
            order = order[all_D[order] <= radius]
            np.testing.assert_array_equal(ids, order * 3)
            np.testing.assert_array_equal(D, all_D[order])


def test_the_number_of_threads_changes_nothing():
    rng = np.random.default_rng(0)
    codes, queries = random_codes(rng, 3000, 64), random_codes(rng, 700, 64)
    one, two, five = (HammingIndex(64, n).add(codes).search(queries, 5) for n in (1, 2, 5))
    assert_same(two, one)
    assert_same(five, one)


def refused(argument, work):
    """The message of an `InputError` about this argument."""
    with pytest.raises(InputError) as caught:
        work()
    assert caught.value.argument == argument
    return caught.value.problem


def test_bad_ids_and_tags_are_refused_and_change_nothing():
    index = HammingIndex(8).add([[9]])
    for codes, ids, message in [
        ([[1]], [1, 2], "2 ids for 1 codes"),
        ([[1]], [[1]], "a list of whole numbers or a list of texts"),
        ([[1]], [1.5], "a list of whole numbers or a list of texts"),
        ([[1]], [-1], "id -1 is negative"),
        ([[1], [2]], [4, 4], "id 4 is given twice"),
        ([[1]], [0], "id 0 is in the index already; use upsert"),
    ]:
        assert message in refused("ids", lambda: index.add(codes, ids))  # noqa: B023
    for tags, message in [
        (["a"], "1 values; give one text or list per code, 2 in all"),
        ("ab", "'ab'; give one text or list per code, 2 in all"),
        (["a", 3], "3 is not allowed; use a text or a list of texts"),
        ([["a"], ["b", 3]], "['b', 3] is not allowed"),
        ([["a"], None], "None is not allowed"),
    ]:
        assert message in refused("tags", lambda: index.add([[1], [2]], tags=tags))  # noqa: B023
    for domain, message in [
        (["photo"], "1 values; give one name per code, 2 in all"),
        (["photo", 3], "3 is not allowed"),
        (3, "int values"),
    ]:
        assert message in refused("domain", lambda: index.add([[1], [2]], domain=domain))  # noqa: B023
    for work in (index.remove, index.get):
        assert "whole numbers" in refused("ids", lambda: work([0.5]))  # noqa: B023
    assert index.remove([]) == 0
    assert len(index) == 1


def test_codes_that_would_need_a_cast_are_refused():
    """A cast would turn ±1 signs, projections or wide integers into wrong codes."""
    index = HammingIndex(8).add([[9]])
    bad = [np.array([[1]], dtype) for dtype in ("f4", "f8", "i1", "u2", "i8", "?")]
    for codes in [*bad, [[1.0]], [[256]], [[-1]], [["a"]]]:
        for work in (
            index.add,
            lambda codes: index.upsert(codes, [5]),
            index.search,
            lambda codes: index.within(codes, 1),
        ):
            assert "packed uint8 codes" in refused("codes", lambda: work(codes))  # noqa: B023
    for codes in ([[255]], [(0,)], [np.array([7], np.uint8)]):
        index.add(codes)
    assert len(index) == 4


def test_codes_of_another_length_are_refused():
    index = HammingIndex(12).add([[255, 0b11110000]])
    for codes in ([[1]], [[1, 2, 3]], [1, 2], np.empty((0, 3), np.uint8)):
        assert "12 bits have 2 bytes per row" in refused("codes", lambda: index.search(codes))  # noqa: B023
    for work in (index.search, index.add):
        message = refused("codes", lambda: work([[255, 0b11110001]]))  # noqa: B023
        assert message == "the last 4 bits of 12-bit codes must be zero"


def test_bad_parameters_are_named():
    index = HammingIndex(8).add([[1]])
    for n_bits in (0, 4097, 8.0):
        assert "from 1 to 4096" in refused("n_bits", lambda: HammingIndex(n_bits))  # noqa: B023
    refused("n_jobs", lambda: HammingIndex(8, n_jobs=0))
    assert "did you mean 'exact'" in refused("search", lambda: HammingIndex(8, search="exakt"))
    for recall in (0.0, 1.5):
        refused("recall", lambda: HammingIndex(8, recall=recall))  # noqa: B023
    refused("device", lambda: HammingIndex(8, search="approximate", device="cpu"))
    for k in (0, 2.5):
        refused("k", lambda: index.search([[1]], k))  # noqa: B023
    refused("radius", lambda: index.within([[1]], -1))
    assert "rule" in refused("match", lambda: index.search([[1]], tags="a", match="both"))
    for tags in (3, ["a", 3], []):
        refused("tags", lambda: index.search([[1]], tags=tags))  # noqa: B023
    refused("domain", lambda: index.page(0, 5, domain=["photo"]))


def test_a_tag_restricts_the_search_to_its_codes():
    rng = np.random.default_rng(0)
    codes, queries = random_codes(rng, 300, 16), random_codes(rng, 6, 16)
    ids, tags = rng.permutation(1000)[:300], rng.choice(["shoe", "hat", ""], 300)
    index = HammingIndex(16).add(codes[:100], ids[:100])  # no tags yet: all are ""
    index.upsert(codes, ids, tags=tags)
    for tag in ("shoe", "hat", ""):
        mine = tags == tag
        answer = index.search(queries, 9, tags=tag)
        assert_same(answer, brute(codes[mine], ids[mine], queries, 9))
        for _, inside in index.within(queries, 16, tags=tag):
            assert set(inside) == set(ids[mine])
    assert (index.search(queries, 2, tags="sock")[1] == -1).all()
    assert len(index.within(queries[:1], 16)[0][1]) == 300


def test_a_code_that_is_replaced_without_a_tag_loses_its_tag():
    index = HammingIndex(8).add([[1], [2]], tags=["a", "a"]).upsert([[3]], [0])
    assert index.search([[0]], 2, tags="a")[1].tolist() == [[1, -1]]
    assert index.search([[0]], 2, tags="")[1].tolist() == [[0, -1]]
    assert index.add([[0]]).search([[0]], 1, tags="")[1].tolist() == [[2]]


def test_an_index_without_tags_has_only_the_empty_one():
    index = HammingIndex(8).add([[1], [2]])
    assert index.search([[0]], 1, tags="")[1].tolist() == [[0]]
    assert index.search([[0]], 1, tags="a")[1].tolist() == [[-1]]
    assert index.tags == ()


def test_tags_are_those_in_use():
    index = HammingIndex(8).add([[1], [2], [3]], tags=["b", "a", ""])
    assert index.get([1, 2, 0]).tags == [("a",), (), ("b",)]
    assert sorted(index.tags) == ["a", "b"]
    index.remove([0])
    assert index.tags == ("a",)


def test_the_views_of_filters_are_not_larger_than_the_index():
    index = HammingIndex(8).add(
        np.zeros((90, 1), np.uint8), tags=[["all", f"{i % 3}"] for i in range(90)]
    )
    for tags in ("0", "1", "all", "none", ["0", "1"], "2", "2"):
        index.search([[0]], 1, tags=tags)
        kept = [view.n for wanted, view in index._views._views.items() if wanted]
        assert 0 not in kept
        assert sum(kept[:-1]) <= 90 - kept[-1]
    assert [wanted.tags for wanted in index._views._views] == [("0", "1"), ("2",)]


def test_a_snapshot_keeps_the_views_of_its_filters_for_the_index():
    index = HammingIndex(8).add([[1], [2]], tags=["a", "b"])
    index.snapshot().search([[0]], 1, tags="a")
    index.snapshot().search([[0]], 1)
    assert {wanted and wanted.tags for wanted in index._views._views} == {None, ("a",)}
    view = index._view(index._views, ItemFilter(("a",)))
    twin = index.snapshot()
    assert twin._view(twin._views, ItemFilter(("a",))) is view
    twin.add([[0]], tags=["a"])
    assert twin.search([[0]], 1, tags="a")[1] == [[2]]
    assert index.search([[0]], 1, tags="a")[1] == [[0]]


def test_several_tags_are_matched_by_any_or_all():
    rng = np.random.default_rng(0)
    codes, queries = random_codes(rng, 400, 16), random_codes(rng, 4, 16)
    tags = [[*rng.permutation(["a", "b", "c"])[: rng.integers(0, 4)]] * 2 for _ in range(400)]
    index = HammingIndex(16).add(codes, tags=tags)
    assert index.get([5, 77]).tags == [tuple(sorted(set(tags[i]))) for i in (5, 77)]
    for wanted in ("a", ["b"], ["c", "a"], ("a", "b", "c", "a"), {"a", "nothing"}, ["", "a"]):
        asked = {wanted} if isinstance(wanted, str) else set(wanted)
        for match, holds in (("any", bool), ("all", lambda found, asked=asked: found == asked)):
            mine = np.array([holds(asked & set(each or [""])) for each in tags])
            filters = {"tags": wanted, "match": match}
            D, ids = index.search(queries, 30, **filters)
            expected = brute(codes[mine], np.flatnonzero(mine), queries, 30)
            assert_same((D[:, : mine.sum()], ids[:, : mine.sum()]), expected)
            assert (ids[:, mine.sum() :] == -1).all()
            assert index.page(0, 9, **filters)[0].tolist() == np.flatnonzero(mine)[:9].tolist()
            assert index.page(0, 0, **filters)[1] == mine.sum()
            assert [set(ids) for _, ids in index.within(queries, 16, **filters)] == [
                set(np.flatnonzero(mine))
            ] * 4


def test_domains_are_counted_and_restrict_the_search():
    index = HammingIndex(8).add([[1], [3]], domain="photo", tags=["x", ["y", "x"]])
    assert index.add([[0]]).domains == {"": 1, "photo": 2}
    index.add([[7], [2]], domain=["sketch", "photo"])
    index.upsert([[2]], [0], domain="sketch")
    assert index.domains == {"": 1, "photo": 2, "sketch": 2}
    assert index.search([[0]], 3, domain="photo")[1].tolist() == [[4, 1, -1]]
    assert index.search([[0]], 3, domain="photo", tags=["x", "y"], match="all")[1].tolist() == [
        [1, -1, -1]
    ]
    assert index.search([[0]], 2, domain="")[1].tolist() == [[2, -1]]
    assert index.search([[0]], 1, domain="word")[1].tolist() == [[-1]]
    assert index.page(0, 5, domain="sketch")[0].tolist() == [0, 3]
    assert index.get([0, 2, 4]).domains == ["sketch", "", "photo"]
    index.remove([0, 3])
    assert index.domains == {"": 1, "photo": 2}


def test_text_ids_are_ordered_by_code_points(tmp_path):
    texts = ["b", "a", "é", "ab", "z" * 256, "\U0001f600", "日本" * 20, "\uffff", "a\n", "~"]
    codes = np.zeros((len(texts), 1), np.uint8)
    index = HammingIndex(8).add(codes, texts)
    assert index.id_kind == "text"
    index.save(tmp_path / "a.bhi")
    for one in (index, HammingIndex.load(tmp_path / "a.bhi")):
        D, ids = one.search([[0]], len(texts) + 2)
        assert ids.dtype == object
        assert ids[0].tolist() == [*sorted(texts), None, None]
        assert D[0, -2:].tolist() == [9, 9]
        assert one.ids.tolist() == sorted(texts)
        assert one.page(1, 2)[0].tolist() == sorted(texts)[1:3]
        assert one.contains(["é", "e", "zz", "z" * 256]).tolist() == [True, False, False, True]
        assert one.within([[1]], 1)[0][1].tolist() == sorted(texts)
    assert index.search([[0]], 1, weights=np.ones((1, 8)))[1].tolist() == [["a"]]
    for given in (np.array(["x", "y"]), np.array(["x", "y"], object), ("x", "y")):
        assert HammingIndex(8).add([[1], [2]], given).get(["y"]).codes.tolist() == [[2]]


def test_many_text_ids_are_found(tmp_path):
    """More than one block of the table, lookups before, between and after all ids."""
    rng = np.random.default_rng(0)
    texts = [f"{i:x}" * int(rng.integers(1, 4)) for i in rng.permutation(30_000)[:3000]]
    texts = sorted(set(texts), key=lambda _: rng.random())
    codes, known = random_codes(rng, len(texts), 32), dict(zip(texts, range(10**6), strict=False))
    index = HammingIndex(32).add(codes[:1000], texts[:1000]).add(codes[1000:], texts[1000:])
    asked = [*texts[::7], "!", "~", *(text + "0" for text in texts[::5])]
    assert index.contains(asked).tolist() == [text in known for text in asked]
    np.testing.assert_array_equal(index.get(texts).codes, codes)
    gone = [text for text in texts if rng.random() < 0.5]
    assert index.remove([*gone, "unknown", *gone[:9]]) == len(gone)
    left = sorted(set(texts) - set(gone))
    assert index.ids.tolist() == left
    np.testing.assert_array_equal(index.get(left).codes, codes[[known[text] for text in left]])


def test_an_index_has_ids_of_one_kind(tmp_path):
    numbers = HammingIndex(8).add([[1]])
    texts = HammingIndex(8).add([[1]], ["1"])
    for index, wrong, message in [
        (numbers, ["1"], "ids of this index are whole numbers, not text"),
        (texts, [1], "ids of this index are text, not whole numbers"),
    ]:
        for work in (
            index.remove,
            index.contains,
            index.get,
            lambda ids: index.add([[2]], ids),  # noqa: B023
            lambda ids: index.upsert([[2]], ids),  # noqa: B023
        ):
            assert refused("ids", lambda: work(wrong)) == message  # noqa: B023
        assert index.remove([]) == 0
        assert len(index.add(np.empty((0, 1), np.uint8))) == 1
    for work in (lambda: texts.add([[2]]), texts.next_id):
        assert "text ids; give one id per code" in refused("ids", work)
    texts.remove(["1"])
    texts.save(tmp_path / "a.bhi")
    kept = HammingIndex.load(tmp_path / "a.bhi")
    assert (kept.id_kind, len(kept)) == ("text", 0)
    assert kept.search([[0]], 2)[1].tolist() == [[None, None]]
    numbers.remove([0])
    assert numbers.search([[0]], 2)[1].tolist() == [[-1, -1]]
    refused("ids", lambda: kept.add([[1]], [1]))
    empty = HammingIndex(8)
    empty.save(tmp_path / "a.bhi")
    empty = HammingIndex.load(tmp_path / "a.bhi")
    assert (empty.id_kind, empty.remove(["x"]), empty.contains(["x", "y"]).any()) == (None, 0, 0)
    assert empty.add([[1]], ["x"]).id_kind == "text"


def test_bad_text_ids_are_refused():
    for ids, message in [
        ([""], "id '' is not allowed; text ids have 1 to 256 characters"),
        (["x" * 257], "is not allowed; text ids have 1 to 256 characters"),
        (["a\0b"], "no zero character"),
        (["a\0"], "no zero character"),
        (["\ud800"], "surrogate"),
        (["a", 1], "a list of whole numbers or a list of texts"),
        ([1, "a"], "a list of whole numbers or a list of texts"),
        ([b"a"], "a list of whole numbers or a list of texts"),
        ("ab", "a list of whole numbers or a list of texts"),
        (["a", "a"], "id a is given twice"),
    ]:
        index = HammingIndex(8)
        n = len(ids) if isinstance(ids, list) else 2
        assert message in refused("ids", lambda: index.add([[1]] * n, ids))  # noqa: B023
        assert index.id_kind is None


def test_codes_are_returned_by_id():
    for n_bits in (3, 8, 12, 65, 130):
        codes = random_codes(np.random.default_rng(0), 20, n_bits)
        index = HammingIndex(n_bits).add(codes[::-1], np.arange(20)[::-1] * 7)
        found, tags, domains = index.get([14, 0, 133])
        np.testing.assert_array_equal(found, codes[[2, 0, 19]])
        assert (tags, domains) == ([(), (), ()], ["", "", ""])
        assert index.get([])[0].shape == (0, codes.shape[1])
        with pytest.raises(KeyError, match="5"):
            index.get([0, 5, 6])


def test_ids_are_listed_in_pages():
    index = HammingIndex(8)
    index.add(np.zeros((10, 1), np.uint8), np.arange(10) * 2, tags=["x", "y"] * 5)
    for arguments, tag, ids, total in [
        ((8, 5), None, [16, 18], 10),
        ((1, 2), "y", [6, 10], 5),
        ((0, 5), "z", [], 0),
        ((100, 5), None, [], 10),
    ]:
        page = index.page(*arguments, tags=tag)
        assert (page[0].tolist(), page[1]) == (ids, total)


def test_a_snapshot_and_its_index_change_apart():
    index = HammingIndex(8).add([[1], [2]]).add([[3]])
    before = index.snapshot()
    index.remove([0])
    index.upsert([[9], [7]], [1, 40])
    assert before.ids.tolist() == [0, 1, 2]
    assert before.get([1])[0].tolist() == [[2]]
    assert before.search([[1]], k=1)[1].tolist() == [[0]]
    assert index.ids.tolist() == [1, 2, 40]
    assert index.get([1])[0].tolist() == [[9]]


def test_codes_added_to_a_snapshot_and_to_its_index_are_not_mixed():
    index = HammingIndex(8).add(np.zeros((16, 1), np.uint8)).add([[1]])  # has room for more
    twin = index.snapshot()
    twin.add([[2]])
    index.add([[3]])
    assert (twin.get([17])[0].item(), index.get([17])[0].item()) == (2, 3)


@pytest.mark.parametrize("memory_map", [False, True])
def test_a_saved_index_is_the_same_and_can_grow(tmp_path, memory_map):
    rng = np.random.default_rng(0)
    codes, queries = random_codes(rng, 500, 100), random_codes(rng, 5, 100)
    index = HammingIndex(100).add(codes, rng.permutation(900)[:500])
    index.about["model"] = "m"
    index.save(tmp_path / "index")
    loaded = HammingIndex.load(tmp_path / "index", memory_map=memory_map)
    assert loaded.about == {"model": "m"}
    assert_same(loaded.search(queries, 20), index.search(queries, 20))
    for one in (loaded, index):
        one.add(codes[:3], [1000, 1001, 1002])
        assert one.remove([1001, 5000]) == 1
    assert_same(loaded.search(queries, 20), index.search(queries, 20))


def test_a_pickled_index_gives_the_same_answers_and_can_change(tmp_path):
    rng = np.random.default_rng(0)
    codes, queries = random_codes(rng, 500, 100), random_codes(rng, 5, 100)
    index = HammingIndex(100, n_jobs=1).add(codes, tags=["a", "b"] * 250)
    index.search(queries, 3, tags="a")
    index.save(tmp_path / "index")
    for original in (index, HammingIndex.load(tmp_path / "index", memory_map=True)):
        copy = pickle.loads(pickle.dumps(original))
        for tag in (None, "a", "c"):
            assert_same(copy.search(queries, 9, tags=tag), index.search(queries, 9, tags=tag))
        copy.add(codes[:2]).remove([0])
        assert (len(copy), len(original)) == (501, 500)


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "index"
    HammingIndex(64).add(np.zeros((100, 8), np.uint8)).save(path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match="checksum"):
        HammingIndex.load(path)


def test_a_model_and_an_index_are_not_confused(tmp_path):
    index, model = tmp_path / "photos.bhi", tmp_path / "model.bh"
    HammingIndex(8).save(index)
    ITQ(n_bits=2).fit(np.random.default_rng(0).normal(size=(20, 3))).save(model)
    with pytest.raises(ModelFileError) as caught:
        load(index)
    assert str(caught.value) == (
        f"{index}: is an index, not a model; use HammingIndex.load or `bridgehash index info`"
    )
    for memory_map in (False, True):
        with pytest.raises(ModelFileError) as caught:
            HammingIndex.load(model, memory_map=memory_map)
        assert str(caught.value) == (
            f"{model}: is a model (ITQ), not an index; use bridgehash.load or `bridgehash info`"
        )


def test_readers_never_see_half_a_change():
    """Codes and ids change together: an id always has its own code."""
    index, stop, wrong = HammingIndex(64, n_jobs=1), threading.Event(), []
    codes = np.arange(4000, dtype=">u8").view(np.uint8).reshape(-1, 8)
    index.add(codes[:10])

    def read():
        while not stop.is_set():
            D, ids = index.search(codes[:10], 1)
            if (D != 0).any() or (ids[:, 0] != np.arange(10)).any():
                wrong.append((D, ids))

    readers = [threading.Thread(target=read) for _ in range(3)]
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for reader in readers:
            reader.start()
        for i in range(10, 200):
            index.add(codes[i : i + 1])
            index.upsert(codes[5:6], [5])
            index.remove([i])
            index.add(codes[i : i + 1], [i])
    finally:
        stop.set()
        for reader in readers:
            reader.join()
        sys.setswitchinterval(switch)
    assert not wrong


TAGS = st.lists(
    st.sampled_from(["", "shoe", "hat", ["hat", "red"], ["red", "hat", "hat"], []]),
    min_size=1,
    max_size=3,
)
DOMAINS = st.none() | st.sampled_from(["photo", "sketch"])
FILTERS = [
    {},
    {"tags": ""},
    {"tags": "hat"},
    {"tags": ["red", "shoe"]},
    {"tags": ["red", "hat"], "match": "all"},
    {"domain": "photo"},
    {"tags": "hat", "domain": "photo"},
]


class IndexAgainstDictionary(RuleBasedStateMachine):
    """Ids are numbers or text; tags and domains are kept in dictionaries, too."""

    @initialize(n_bits=st.sampled_from([5, 64, 70]), text=st.booleans())
    def start(self, n_bits, text):
        self.index, self.model, self.tags, self.domains = HammingIndex(n_bits, n_jobs=1), {}, {}, {}
        self.rng, self.text = np.random.default_rng(n_bits), text

    def codes(self, n):
        return random_codes(self.rng, n, self.index.n_bits, spread=0.3)

    def named(self, numbers):
        return [f"SKU-{'é' * (i % 3)}{i}" if self.text else i for i in numbers]

    @rule(ids=st.sets(st.integers(0, 60), max_size=12))
    def add(self, ids):
        ids = [i for i in self.named(ids) if i not in self.model]
        codes = self.codes(len(ids))
        self.index.add(codes, ids)
        self.model.update(zip(ids, codes, strict=True))

    @rule(n=st.integers(0, 5))
    def add_at_the_end(self, n):
        codes = self.codes(n)
        if self.text:
            first = 100 + len(self.model)
            ids = [f"é{'é' * 9}{i}" for i in range(first, first + n)]
            ids = [i for i in ids if i not in self.model]
            codes = codes[: len(ids)]
            self.index.add(codes, ids)
        else:
            first = max(self.model, default=-1) + 1
            ids = range(first, first + n)
            self.index.add(codes)
        self.model.update(zip(ids, codes, strict=True))

    @rule(
        ids=st.sets(st.integers(0, 60), min_size=1, max_size=12),
        tags=st.none() | TAGS,
        domain=DOMAINS,
    )
    def upsert(self, ids, tags, domain):
        ids, codes = self.named(ids), self.codes(len(ids))
        given = None if tags is None else [tags[i % len(tags)] for i in range(len(ids))]
        self.index.upsert(codes, ids, tags=given, domain=domain)
        self.model.update(zip(ids, codes, strict=True))
        self.tags.update(zip(ids, given or [""] * len(ids), strict=True))
        self.domains.update(dict.fromkeys(ids, domain or ""))

    @rule(ids=st.lists(st.integers(0, 60), max_size=12))
    def remove(self, ids):
        ids = self.named(ids)
        assert self.index.remove(ids) == len(set(ids) & set(self.model))
        for i in ids:
            for one in (self.model, self.tags, self.domains):
                one.pop(i, None)

    @rule(memory_map=st.booleans())
    def save_and_load(self, memory_map):
        with tempfile.TemporaryDirectory() as folder:
            self.index.save(f"{folder}/index")
            self.index = HammingIndex.load(f"{folder}/index", memory_map=memory_map, n_jobs=1)

    @rule()
    def export_and_import(self):
        pytest.importorskip("pyarrow")
        with tempfile.TemporaryDirectory() as folder:
            self.index.to_parquet(f"{folder}/index.parquet")
            self.index = HammingIndex.from_parquet(f"{folder}/index.parquet", n_jobs=1)

    def matches(self, i, tags=None, match="any", domain=None):
        mine, wanted = (
            {t} if isinstance(t, str) else set(t) for t in (self.tags_of(i), tags or "")
        )
        found = wanted <= mine if match == "all" else wanted & mine
        return (tags is None or found) and domain in (None, self.domains.get(i, ""))

    def tags_of(self, i):
        return self.tags.get(i, "") or [""]

    @invariant()
    def agrees(self):
        ids = np.array(sorted(self.model), dtype=object if self.text else int)
        np.testing.assert_array_equal(self.index.ids, ids)
        assert sum(self.index.domains.values()) == len(ids)
        if len(ids):
            codes = np.array([self.model[i] for i in ids])
            queries, k = self.codes(2), min(4, len(ids))
            for filters in FILTERS:
                mine = np.array([bool(self.matches(i, **filters)) for i in ids])
                D, near = self.index.search(queries, k, **filters)
                order = hamming(queries, codes[mine]).argsort(axis=1, kind="stable")[:, :k]
                found = ids[mine][order]
                assert_same((near[:, : mine.sum()],), (found,))
                assert set(near[:, mine.sum() :].flat) <= {None if self.text else -1}
                assert (D[:, mine.sum() :] == self.index.n_bits + 1).all()


TestIndexAgainstDictionary = IndexAgainstDictionary.TestCase
TestIndexAgainstDictionary.settings = settings(max_examples=30, stateful_step_count=12)
