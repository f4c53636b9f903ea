"""Items are listed, shown, added and removed, and stay so."""

from __future__ import annotations

import io

import numpy as np
import pytest

from bridgehash import load
from bridgehash.index import HammingIndex
from bridgehash.service.bodies import NPY
from bridgehash.service.opening import close_catalogues, open_catalogues

ITEMS = "/v1/catalogues/photos/items"
REMOVE = "/v1/catalogues/photos/remove"


def test_items_are_listed_page_by_page(client):
    first = client.get(ITEMS + "?limit=2").json()
    assert (first["total"], first["domain"]) == (60, "source")
    assert [item["id"] for item in first["items"]] == [0, 1]
    last = client.get(ITEMS + "?offset=58&limit=9").json()
    assert [item["id"] for item in last["items"]] == [58, 59]
    assert client.get(ITEMS + "?offset=9000000").json()["items"] == []
    bees = client.get(ITEMS + "?tag=bee&limit=200").json()
    assert bees["total"] == 20
    assert {item["tag"] for item in bees["items"]} == {"bee"}
    sketches = client.get(ITEMS + "?domain=target").json()
    assert sketches["total"] == 50
    assert sketches["items"][1]["image"].endswith("/items/1/image?domain=target")


def test_pictures_come_by_id_alone(client, folder):
    picture = client.get(ITEMS + "/7/image")
    assert picture.content == (folder / "photos" / "7.png").read_bytes()
    assert picture.headers["x-content-type-options"] == "nosniff"
    for path in ("/2/image", "/..%2f..%2fmodel.bh/image", "/0.png/image", "/-1/image"):
        assert client.get(ITEMS + path).status_code in (404, 422)
    (folder / "photos" / "7.png").unlink()
    assert client.get(ITEMS + "/7/image").status_code == 404


def test_a_picture_that_changed_is_sent_again(client, folder):
    first = client.get(ITEMS + "/7/image")
    assert first.headers["cache-control"] == "private, no-cache"
    known = {"If-None-Match": first.headers["etag"]}
    again = client.get(ITEMS + "/7/image", headers=known)
    assert (again.status_code, again.content) == (304, b"")
    (folder / "photos" / "7.png").write_bytes((folder / "photos" / "1.png").read_bytes())
    other = client.get(ITEMS + "/7/image", headers=known)
    assert (other.status_code, other.content) == (200, client.get(ITEMS + "/1/image").content)


def test_pictures_without_numbers_go_by_their_order(folder):
    from bridgehash.service.images import picture_table

    (folder / "photos" / "a.png").write_bytes(b"")
    (folder / "photos" / "b.tif").write_bytes(b"")  # no browser shows it
    table = picture_table(folder / "photos")
    assert {i: path.name for i, path in table.items()} == dict(
        enumerate(["0.png", "1.png", "7.png", "a.png"])
    )
    (folder / "sketches" / "007.jpg").write_bytes(b"")
    with pytest.raises(ValueError, match="shows item 7, as"):
        picture_table(folder / "sketches")


def test_what_is_added_is_found_and_stays(serve, keyed, folder, files, settings):
    client = serve()
    X = np.load(folder / "source.npy")[:2] + 0.25
    codes = load(folder / "model.bh").encode(X, "source")
    form = {"features": X.tolist(), "ids": [1000, 3], "tags": ["new", "Ünï"]}
    answer = client.post(ITEMS, json=form, headers=keyed)
    assert answer.json() == {"ids": [1000, 3], "added": 1, "replaced": 1, "items": 61}
    assert client.get(ITEMS + "/1000").json() == {
        "id": 1000,
        "tag": "new",
        "code": codes[0].tobytes().hex(),
        "image": None,
    }
    assert client.get(ITEMS + "/3").json()["tag"] == "Ünï"
    again = client.post(ITEMS, json={"codes": ["fff0"]}, headers=keyed)
    assert again.json()["ids"] == [1001]
    gone = client.post(REMOVE, json={"ids": [0, 1, 1, 99999]}, headers=keyed)
    assert gone.json() == {"removed": 2, "items": 60}
    assert client.get(ITEMS + "/0").status_code == 404
    answer = client.post("/v1/catalogues/photos/search", json={"ids": [1000], "tag": "new"})
    assert [hit["id"] for hit in answer.json()["results"][0]["hits"]] == [1000]
    state = client.app.state.desk.catalogues["photos"].store
    state.close()
    opened = open_catalogues(files[:1], settings)
    index = opened["photos"].store.index
    assert set(index.ids.tolist()) == {*range(2, 60), 1000, 1001}
    np.testing.assert_array_equal(index.get([1000, 3])[0], codes)
    close_catalogues(opened)
    assert not (folder / "photos.bhi.journal").exists()


def test_an_array_gets_the_next_ids(client, keyed, folder):
    file = io.BytesIO()
    np.save(file, np.load(folder / "source.npy")[:3])
    answer = client.post(ITEMS, content=file.getvalue(), headers={**keyed, "Content-Type": NPY})
    assert answer.json()["ids"] == [60, 61, 62]
    assert client.get(ITEMS + "/61").json()["code"] == client.get(ITEMS + "/1").json()["code"]


def test_an_id_once_given_is_not_given_again(client, keyed):
    assert client.post(ITEMS, json={"codes": ["fff0"]}, headers=keyed).json()["ids"] == [60]
    client.post(REMOVE, json={"ids": [60]}, headers=keyed)
    assert client.post(ITEMS, json={"codes": ["fff0"]}, headers=keyed).json()["ids"] == [61]


def test_after_the_highest_id_ids_must_be_given(client, keyed):
    top = {"codes": ["fff0"], "ids": [2**53 - 1]}
    assert client.post(ITEMS, json=top, headers=keyed).status_code == 200
    answer = client.post(ITEMS, json={"codes": ["fff0"]}, headers=keyed)
    assert (answer.status_code, answer.json()["field"]) == (422, "ids")


def test_a_change_is_on_disk_before_it_is_acknowledged(client, keyed, folder, monkeypatch):
    seen = []
    apply = client.app.state.desk.catalogues["photos"].store.index.upsert

    def watched(*arguments, **options):
        seen.append((folder / "photos.bhi.journal").stat().st_size)
        return apply(*arguments, **options)

    index = client.app.state.desk.catalogues["photos"].store.index
    monkeypatch.setattr(index, "upsert", watched)
    before = (folder / "photos.bhi.journal").stat().st_size
    client.post(ITEMS, json={"codes": ["fff0"]}, headers=keyed)
    assert seen[0] > before


def test_changes_that_cannot_be_kept_are_not_made(client, keyed, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("bridgehash.service.journal.os.pwrite", full)
        answer = client.post(ITEMS, json={"codes": ["fff0"]}, headers=keyed)
        assert answer.status_code == 503
        assert "No space left on device" in answer.json()["error"]
    assert client.get(ITEMS).json()["total"] == 60
    assert client.get("/ready").status_code == 200
    assert client.post(ITEMS, json={"codes": ["fff0"]}, headers=keyed).status_code == 200


def test_a_large_journal_is_folded_into_the_file(serve, keyed, folder):
    client = serve(journal_bytes=300)
    journal = folder / "photos.bhi.journal"
    for _ in range(12):
        client.post(ITEMS, json={"codes": ["fff0"] * 3}, headers=keyed)
        assert journal.stat().st_size <= 300
    assert len(HammingIndex.load(folder / "photos.bhi")) > 60


def test_facts_of_all_catalogues(client):
    listed = client.get("/v1/catalogues").json()
    photos, plain = listed["catalogues"]
    assert photos == client.get("/v1/catalogues/photos").json()
    assert (photos["method"], photos["n_bits"]) == ("ATH", 12)
    assert (photos["index_domain"], photos["query_domain"]) == ("source", "target")
    assert photos["domains"]["source"]["tags"] == ["ant", "bee", "cat"]
    assert photos["domains"]["target"]["pictures"] == 3
    assert plain["domains"]["any"]["backbone"] == "gist"
    assert listed["limits"]["k"] == 1000


def test_figures_are_those_of_the_metrics(client, folder):
    from bridgehash.metrics import distance_histogram, radius_pr_area

    model = load(folder / "model.bh")
    codes = [model.encode(np.load(folder / f"{name}.npy"), name) for name in ("target", "source")]
    labels = np.arange(50) % 3, np.arange(60) % 3
    figures = client.get("/v1/catalogues/photos/figures").json()
    histogram = distance_histogram(*codes, *labels, n_bits=12)
    assert figures["radius_pr_area"] == pytest.approx(radius_pr_area(histogram))
    assert (figures["n_queries"], figures["n_items"], figures["queries_from"]) == (50, 60, "target")
    assert len(figures["recall"]) == len(figures["precision"])
    assert client.get("/v1/catalogues/plain/figures").status_code == 404


def test_items_without_a_tag_are_of_no_class(client, keyed, folder):
    from bridgehash.metrics import distance_histogram, mean_average_precision

    client.post(ITEMS, json={"codes": ["fff0", "0000"]}, headers=keyed)
    model = load(folder / "model.bh")
    queries = model.encode(np.load(folder / "target.npy"), "target")
    items = model.encode(np.load(folder / "source.npy"), "source")
    items = np.concatenate([items, np.array([[0xFF, 0xF0], [0, 0]], np.uint8)])
    labels = np.arange(50) % 3, np.append(np.arange(60) % 3, [-1, -1])
    histogram = distance_histogram(queries, items, *labels, n_bits=12)
    figures = client.get("/v1/catalogues/photos/figures").json()
    expected = mean_average_precision(histogram)
    assert figures["mean_average_precision"] == pytest.approx(float(expected))


def test_figures_follow_changes(client, keyed):
    before = client.get("/v1/catalogues/photos/figures").json()
    client.post(REMOVE, json={"ids": list(range(30))}, headers=keyed)
    after = client.get("/v1/catalogues/photos/figures").json()
    assert (before["n_items"], after["n_items"]) == (60, 30)


def test_metrics_and_health(client, keyed):
    client.post(ITEMS, json={"codes": ["fff0"]}, headers=keyed)
    client.get("/nowhere/at/all")
    text = client.get("/metrics").text
    assert 'bridgehash_items{catalogue="photos"} 61.0' in text
    assert 'route="/v1/catalogues/{catalogue}/items",status="200"} 1.0' in text
    assert "nowhere" not in text
    assert 'kind="change"' in text
    assert client.get("/health").json() == {"status": "alive"}
    assert client.get("/ready").json() == {"status": "ready"}
    client.app.state.desk.stopping = True
    assert client.get("/ready").status_code == 503


def test_no_page_asks_another_address(client):
    for path in ("/", "/docs"):
        page = client.get(path)
        assert page.headers["content-type"].startswith("text/html")
        assert "http://" not in page.text
        assert "https://" not in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
    assert client.get("/page/plain.css").status_code == 200
    for path in ("/page/..%2fapp.py", "/page/__init__.py", "/page/"):
        assert client.get(path).status_code == 404
