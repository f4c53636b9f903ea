"""An index in Parquet: other programs can read it, and it comes back bit for bit."""

import json

import numpy as np
import pytest

from bridgehash import InputError
from bridgehash.index import HammingIndex, parquet
from tests.faults.files import sample_index

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def assert_equal(index, other):
    for name in ("n_bits", "about", "id_kind", "tags", "domains"):
        assert getattr(index, name) == getattr(other, name), name
    np.testing.assert_array_equal(index.ids, other.ids)
    for mine, theirs in zip(index.get(index.ids), other.get(other.ids), strict=True):
        np.testing.assert_array_equal(np.array(mine, object), np.array(theirs, object))


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    monkeypatch.setattr(parquet, "_GROUP", 16)


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize(("n", "n_bits"), [(0, 8), (1, 12), (16, 64), (77, 70)])
def test_an_index_comes_back_bit_for_bit(tmp_path, n, n_bits, text):
    index = sample_index(np.random.default_rng(n), n, n_bits, text=text)
    first, second = tmp_path / "a.parquet", tmp_path / "b.parquet"
    index.to_parquet(first)
    back = HammingIndex.from_parquet(first, n_jobs=1)
    assert_equal(index, back)
    back.to_parquet(second)
    assert first.read_bytes() == second.read_bytes()
    assert pq.read_metadata(first).num_row_groups == -(-n // 16)


def test_an_emptied_index_keeps_its_kind_of_ids(tmp_path):
    index = HammingIndex(8).add([[1]], ["a"])
    index.remove(["a"])
    for one, kind in ((index, "text"), (HammingIndex(8), None)):
        one.to_parquet(tmp_path / "a.parquet")
        assert HammingIndex.from_parquet(tmp_path / "a.parquet").id_kind == kind


def test_other_programs_see_plain_columns(tmp_path):
    index = HammingIndex(12).add(
        [[1, 16], [2, 32]], ["b", "a"], tags=[["x", "y"], ""], domain=["photo", ""]
    )
    index.about = {"model": "m"}
    index.to_parquet(tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    assert [str(field.type) for field in table.schema] == [
        "string", "fixed_size_binary[2]", "string", "list<element: string>"
    ]  # fmt: skip
    assert table.to_pylist() == [
        {"id": "a", "code": b"\x02\x20", "domain": None, "tags": []},
        {"id": "b", "code": b"\x01\x10", "domain": "photo", "tags": ["x", "y"]},
    ]
    about = json.loads(table.schema.metadata[b"bridgehash"])
    assert (about["n_bits"], about["about"]) == (12, {"model": "m"})
    HammingIndex(8).add([[1]], [7]).to_parquet(tmp_path / "b.parquet")
    assert pq.read_table(tmp_path / "b.parquet").column("id").to_pylist() == [7]


def test_a_failed_export_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    index = sample_index(np.random.default_rng(0), 40)
    index.to_parquet(path)
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"a\.parquet: a tag or domain has half of a surrogate"):
        HammingIndex(8).add([[1]], tags=["\ud800"]).to_parquet(path)

    def fails(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(parquet, "_codes", fails)
        with pytest.raises(InputError, match=r"cannot be written \(No space left on device\)"):
            index.to_parquet(path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["a.parquet"]


def test_files_that_are_no_index_are_refused(tmp_path):
    path = tmp_path / "a.parquet"
    index = sample_index(np.random.default_rng(0), 40)
    index.to_parquet(path)
    table = pq.read_table(path)
    about = json.loads(table.schema.metadata[b"bridgehash"])

    def written(changed, **header):
        text = json.dumps({**about, **header})
        pq.write_table(changed.replace_schema_metadata({"bridgehash": text}), path)

    def column(name, values, kind=None):
        place = table.schema.get_field_index(name)
        return table.set_column(place, name, pa.array(values, kind))

    twice, nothing = [*range(39), 0], [None] * 40
    for changed, header, message in [
        (table.drop_columns(["tags"]), {}, "has no column 'tags'"),
        (table, {"format": 2}, "another format"),
        (table, {"about": {"model": 1}}, "metadata cannot be read"),
        (table, {"about": 3}, "metadata cannot be read"),
        (table, {"ids": "uuid"}, "metadata cannot be read"),
        (table, {"n_bits": 0}, "from 1 to 4096"),
        (table, {"n_bits": 64}, "cannot be read"),
        (table, {"n_bits": 9}, "the last 7 bits of 9-bit codes must be zero"),
        (column("id", nothing, pa.int64()), {}, "rows without an id"),
        (column("id", twice), {}, "id 0"),
        (column("id", [-1, *range(39)]), {}, "id -1 is negative"),
        (column("tags", [[None]] * 40, pa.list_(pa.string())), {}, "is not allowed"),
    ]:
        written(changed, **header)
        with pytest.raises(InputError, match=message) as caught:
            HammingIndex.from_parquet(path)
        assert str(caught.value).startswith(str(path)), message
    pq.write_table(table.replace_schema_metadata({}), path)
    with pytest.raises(InputError, match="is not an index; write it with to_parquet"):
        HammingIndex.from_parquet(path)
    path.write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"a\.parquet: cannot be read"):
        HammingIndex.from_parquet(path)
    with pytest.raises(InputError, match="file not found"):
        HammingIndex.from_parquet(tmp_path / "lost.parquet")
