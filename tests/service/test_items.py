"""Items are listed, shown, added, replaced and removed, and survive a restart."""

from __future__ import annotations

import io
from dataclasses import replace
from urllib.parse import quote

import numpy as np
import pytest

from bridgehash import ATH, load, save
from bridgehash.index import HammingIndex
from bridgehash.models.provenance import origin
from bridgehash.models.training import TWO
from bridgehash.service.catalogue import close_catalogues, open_catalogues
from bridgehash.service.images import find_images
from bridgehash.service.routes.common import NPY

ITEMS = "/v1/catalogues/photos/items"
SCORES = "/v1/catalogues/photos/scores"
SEARCH = "/v1/catalogues/photos/search"


def test_items_are_listed_page_by_page(client):
    first = client.get(ITEMS + "?limit=2").json()
    assert (first["total"], first["domain"]) == (60, "source")
    assert [item["id"] for item in first["items"]] == [0, 1]
    last = client.get(ITEMS + "?offset=58&limit=9").json()
    assert [item["id"] for item in last["items"]] == [58, 59]
    assert client.get(ITEMS + "?offset=9000000").json()["items"] == []
    bees = client.get(ITEMS + "?tags=bee&limit=200").json()
    assert bees["total"] == 20
    assert {(*item["tags"], item["domain"]) for item in bees["items"]} == {("bee", "source")}
    sketches = client.get(ITEMS + "?domain=target").json()
    assert sketches["total"] == 50
    assert sketches["items"][1]["image"].endswith("/items/1/image?domain=target")


def test_images_are_found_by_id_only(client, folder):
    image = client.get(ITEMS + "/7/image")
    assert image.content == (folder / "photos" / "7.png").read_bytes()
    assert image.headers["x-content-type-options"] == "nosniff"
    for path in ("/2/image", "/..%2f..%2fmodel.bh/image", "/0.png/image", "/-1/image"):
        assert client.get(ITEMS + path).status_code in (404, 422)
    (folder / "photos" / "7.png").unlink()
    assert client.get(ITEMS + "/7/image").status_code == 404


def test_any_name_of_a_domain_is_served(serve, files, folder, keyed):
    """Blanks and signs are escaped in addresses; "any" is a name like others."""
    names = "any", "ink + paper"
    X = dict(zip(names, (np.load(folder / f"{name}.npy") for name in TWO), strict=True))
    model = ATH.unsupervised(n_bits=12, random_state=0).fit(X)
    save(model, folder / "model.bh")
    for name, path in zip(names, (files[0].index, files[0].queries), strict=True):
        index = HammingIndex(12).add(model.encode(X[name], name), domain=name)
        index.about = origin(model, name)
        index.save(path)
    client = serve(n=1)
    listed = client.get(ITEMS, params={"domain": "ink + paper"}).json()
    assert listed["domain"] == listed["items"][0]["domain"] == "ink + paper"
    image = client.get(listed["items"][7]["image"])
    assert image.content == (folder / "sketches" / "7.png").read_bytes()
    form = {"ids": [7], "domain": "ink + paper", "k": 60}
    (result,) = client.post(SEARCH, json=form).json()["results"]
    (image,) = (hit["image"] for hit in result["hits"] if hit["id"] == 7)
    assert client.get(image).content == (folder / "photos" / "7.png").read_bytes()
    added = {"features": X["any"][:1].tolist(), "ids": [100]}
    assert client.post(ITEMS, json=added, headers=keyed).status_code == 200
    assert client.get(f"{ITEMS}/100").json()["domain"] == "any"


def test_a_changed_image_is_sent_again(client, folder):
    first = client.get(ITEMS + "/7/image")
    assert first.headers["cache-control"] == "private, no-cache"
    known = {"If-None-Match": first.headers["etag"]}
    again = client.get(ITEMS + "/7/image", headers=known)
    assert (again.status_code, again.content) == (304, b"")
    (folder / "photos" / "7.png").write_bytes((folder / "photos" / "1.png").read_bytes())
    other = client.get(ITEMS + "/7/image", headers=known)
    assert (other.status_code, other.content) == (200, client.get(ITEMS + "/1/image").content)


def test_images_without_numbers_are_numbered_in_sorted_order(folder):
    (folder / "photos" / "a.png").write_bytes(b"")
    (folder / "photos" / "b.tif").write_bytes(b"")  # no browser shows it
    table = find_images(folder / "photos")
    assert {i: path.name for i, path in table.items()} == dict(
        enumerate(["0.png", "1.png", "7.png", "a.png"])
    )
    (folder / "sketches" / "007.jpg").write_bytes(b"")
    with pytest.raises(ValueError, match="item 7 has another image"):
        find_images(folder / "sketches")
    (folder / "sketches" / "007.jpg").unlink()
    named = find_images(folder / "photos", "text")
    assert {i: path.name for i, path in named.items()} == {
        "0": "0.png",
        "1": "1.png",
        "7": "7.png",
        "a": "a.png",
    }


def test_changes_are_found_and_survive_a_restart(client, keyed, folder, files, settings):
    X = np.load(folder / "source.npy")[:2] + 0.25
    codes = load(folder / "model.bh").encode(X, "source")
    form = {"features": X.tolist(), "ids": [1000, 3], "tags": ["new", "Ünï"]}
    response = client.put(ITEMS, json=form, headers=keyed)
    assert response.json() == {"ids": [1000, 3], "added": 1, "replaced": 1, "total": 61}
    assert client.get(ITEMS + "/1000").json() == {
        "id": 1000,
        "tags": ["new"],
        "domain": "source",
        "code": codes[0].tobytes().hex(),
        "image": None,
    }
    assert client.get(ITEMS + "/3").json()["tags"] == ["Ünï"]
    again = client.post(ITEMS, json={"codes": ["fff0"]}, headers=keyed)
    assert again.json()["ids"] == [1001]
    gone = client.delete(ITEMS, json={"ids": [0, 1, 1, 99999]}, headers=keyed)
    assert gone.json() == {"removed": 2, "total": 60}
    assert client.delete(ITEMS + "/1001", headers=keyed).json() == {"removed": 1, "total": 59}
    again = client.delete(ITEMS + "/1001", headers=keyed)
    assert (again.status_code, again.json()["detail"]) == (404, "id: no item 1001")
    assert client.get(ITEMS + "/0").status_code == 404
    response = client.post("/v1/catalogues/photos/search", json={"ids": [1000], "tags": "new"})
    assert [hit["id"] for hit in response.json()["results"][0]["hits"]] == [1000]
    client.workers.catalogues["photos"].store.close()
    opened = open_catalogues(files[:1], settings)
    index = opened["photos"].store.index
    assert set(index.ids.tolist()) == {*range(2, 60), 1000}
    np.testing.assert_array_equal(index.get([1000, 3])[0], codes)
    close_catalogues(opened)
    assert not (folder / "photos.bhi.journal").exists()


@pytest.fixture
def texts(serve, folder):
    """A client of a catalogue whose ids are text; some begin with the names of images."""
    index = HammingIndex.load(folder / "photos.bhi")
    codes, tags, domains = index.get(index.ids)
    names = [f"{i}" if i < 10 else f"SKU/{i} é?" for i in range(60)]
    named = HammingIndex(12).add(codes, names, tags=tags, domain=domains)
    named.about = index.about
    named.save(folder / "photos.bhi")
    return serve(n=1)


def test_text_ids_are_added_found_shown_and_removed(texts, keyed, folder, files, settings):
    client = texts
    assert client.get("/v1/catalogues/photos").json()["ids"] == "text"
    listed = client.get(ITEMS + "?offset=9&limit=2").json()["items"]
    assert [item["id"] for item in listed] == ["9", "SKU/10 é?"]
    shown = client.get(ITEMS + "/" + quote("SKU/10 é?", safe=""))
    assert shown.json() == listed[1]
    image = client.get(ITEMS + "/7").json()["image"]
    assert image.endswith("/items/7/image?domain=source")
    assert client.get(image).content == (folder / "photos" / "7.png").read_bytes()
    form = {"codes": ["fff0", "0000"], "ids": ["new \U0001f600", "7"], "tags": ["x", ["y", "x"]]}
    assert client.post(ITEMS, json=form, headers=keyed).status_code == 409
    added = client.put(ITEMS, json=form, headers=keyed).json()
    assert added == {"ids": form["ids"], "added": 1, "replaced": 1, "total": 61}
    search = {"codes": ["fff0"], "tags": ["x", "y"]}
    results = client.post("/v1/catalogues/photos/search", json=search).json()["results"]
    assert [hit["id"] for hit in results[0]["hits"]] == ["new \U0001f600", "7"]
    search["match"] = "all"
    results = client.post("/v1/catalogues/photos/search", json=search).json()["results"]
    assert [hit["id"] for hit in results[0]["hits"]] == ["7"]
    again = {"ids": ["7", "new \U0001f600"], "k": 1}
    results = client.post("/v1/catalogues/photos/search", json=again).json()["results"]
    assert [result["code"] for result in results] == ["0000", "fff0"]
    raw = client.post(
        "/v1/catalogues/photos/search", json={"codes": ["fff0"], "k": 70}, headers={"Accept": NPY}
    )
    found = np.load(io.BytesIO(raw.content), allow_pickle=False)
    assert (found["id"][0, 0], set(found["id"][0, 61:])) == ("new \U0001f600", {""})
    for method, path, form, field in (
        ("POST", "", {"codes": ["fff0"]}, "ids"),
        ("POST", "", {"codes": ["fff0"], "ids": [7]}, "ids"),
        ("DELETE", "", {"ids": [7]}, "ids"),
        ("DELETE", "/" + "x" * 257, None, "id"),
    ):
        refused = client.request(method, ITEMS + path, json=form, headers=keyed)
        assert (refused.status_code, refused.json()["field"]) == (422, field), refused.text
    assert (
        "give one id per code"
        in client.post(ITEMS, json={"codes": ["fff0"]}, headers=keyed).json()["detail"]
    )
    gone = client.delete(ITEMS, json={"ids": ["7", "unknown"]}, headers=keyed)
    assert gone.json() == {"removed": 1, "total": 60}
    one = client.delete(ITEMS + "/" + quote("SKU/10 é?", safe=""), headers=keyed)
    assert one.json() == {"removed": 1, "total": 59}
    client.workers.catalogues["photos"].store.close()
    opened = open_catalogues(files[:1], settings)
    assert "new \U0001f600" in opened["photos"].store.index.ids.tolist()
    assert opened["photos"].store.index.get(["new \U0001f600"]).tags == [("x",)]
    close_catalogues(opened)


def test_ids_of_another_kind_get_422(client, keyed):
    for method, path, form in (
        ("POST", ITEMS, {"codes": ["fff0"], "ids": ["SKU-1"]}),
        ("PUT", ITEMS, {"codes": ["fff0"], "ids": ["SKU-1"]}),
        ("DELETE", ITEMS, {"ids": ["SKU-1"]}),
        ("POST", "/v1/catalogues/photos/search", {"ids": ["SKU-1"]}),
        ("GET", ITEMS + "/SKU-1", None),
        ("DELETE", ITEMS + "/SKU-1", None),
        ("GET", ITEMS + "/SKU-1/image", None),
    ):
        response = client.request(method, path, json=form, headers=keyed)
        assert response.status_code == 422
        assert "ids of this" in response.json()["detail"]


def test_items_have_the_domain_they_were_added_with(client, keyed, folder):
    X = np.load(folder / "target.npy")[:2]
    code = load(folder / "model.bh").encode(X, "target")[0].tobytes().hex()
    form = {"features": X.tolist(), "ids": [100, 101], "domain": "target"}
    assert client.post(ITEMS, json=form, headers=keyed).status_code == 200
    client.post(ITEMS, json={"codes": ["fff0"], "ids": [102]}, headers=keyed)
    shown = client.get(ITEMS + "/100").json()
    assert (shown["domain"], shown["code"]) == ("target", code)
    assert client.get(ITEMS + "/102").json()["domain"] == "source"
    info = client.get("/v1/catalogues/photos").json()
    assert info["items_per_domain"] == {"source": 61, "target": 2}
    search = {"codes": [code], "in_domain": "target", "k": 9}
    hits = client.post("/v1/catalogues/photos/search", json=search).json()["results"][0]["hits"]
    assert [(hit["id"], hit["domain"]) for hit in hits] == [(100, "target"), (101, "target")]
    listed = client.get(ITEMS + "?in_domain=target").json()
    assert (listed["total"], [item["id"] for item in listed["items"]]) == (2, [100, 101])


def test_adding_an_existing_id_changes_nothing(client, keyed, folder):
    client.post(ITEMS, json={"codes": ["fff0"]}, headers=keyed)
    before = (folder / "photos.bhi.journal").read_bytes()
    code = client.get(ITEMS + "/7").json()["code"]
    form = {"codes": ["fff0", "fff0"], "ids": [1000, 7]}
    response = client.post(ITEMS, json=form, headers=keyed)
    assert (response.status_code, response.json()["field"]) == (409, "ids")
    assert response.json()["detail"] == "ids: item 7 exists; replace it with PUT"
    assert client.get(ITEMS + "/1000").status_code == 404
    assert client.get(ITEMS + "/7").json()["code"] == code
    assert (folder / "photos.bhi.journal").read_bytes() == before
    assert client.put(ITEMS, json=form, headers=keyed).json()["replaced"] == 1
    assert client.get(ITEMS + "/7").json()["code"] == "fff0"


def test_an_array_gets_the_next_ids(client, keyed, folder):
    file = io.BytesIO()
    np.save(file, np.load(folder / "source.npy")[:3])
    response = client.post(ITEMS, content=file.getvalue(), headers={**keyed, "Content-Type": NPY})
    assert response.json()["ids"] == [60, 61, 62]
    assert client.get(ITEMS + "/61").json()["code"] == client.get(ITEMS + "/1").json()["code"]


def test_an_id_once_given_is_not_given_again(client, keyed):
    assert client.post(ITEMS, json={"codes": ["fff0"]}, headers=keyed).json()["ids"] == [60]
    client.delete(ITEMS + "/60", headers=keyed)
    assert client.post(ITEMS, json={"codes": ["fff0"]}, headers=keyed).json()["ids"] == [61]


def test_the_highest_id_does_not_block_automatic_ids(client, keyed):
    top = {"codes": ["fff0"], "ids": [2**53 - 1]}
    assert client.post(ITEMS, json=top, headers=keyed).status_code == 200
    response = client.post(ITEMS, json={"codes": ["fff0"] * 2}, headers=keyed)
    assert response.json()["ids"] == [60, 61]


def test_a_change_is_on_disk_before_it_is_acknowledged(client, keyed, folder, monkeypatch):
    seen = []
    index = client.workers.catalogues["photos"].store.index
    apply = index.apply

    def watched(*arguments, **options):
        seen.append((folder / "photos.bhi.journal").stat().st_size)
        return apply(*arguments, **options)

    monkeypatch.setattr(index, "apply", watched)
    before = (folder / "photos.bhi.journal").stat().st_size
    client.post(ITEMS, json={"codes": ["fff0"]}, headers=keyed)
    assert seen[0] > before


def test_changes_that_cannot_be_written_are_not_made(client, keyed, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.pwrite", full)
        response = client.post(ITEMS, json={"codes": ["fff0"]}, headers=keyed)
        assert response.status_code == 503
        assert "No space left on device" in response.json()["detail"]
    assert client.get(ITEMS).json()["total"] == 60
    assert client.get("/ready").status_code == 200
    assert client.post(ITEMS, json={"codes": ["fff0"]}, headers=keyed).status_code == 200


def test_a_journal_that_cannot_be_repaired_makes_the_service_not_ready(client, keyed, monkeypatch):
    def fails(*arguments):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", fails)
        response = client.post(ITEMS, json={"codes": ["fff0"]}, headers=keyed)
        assert response.status_code == 503
    assert "restart to recover" in client.get("/ready").json()["detail"]
    assert client.get(ITEMS).json()["total"] == 60


def test_without_queries_the_items_are_the_queries(files, serve, keyed):
    files[0] = replace(files[0], queries=None, query_images=None)
    client = serve(n=1)
    response = client.get(ITEMS + "?domain=target")
    assert (response.status_code, response.json()["field"]) == (422, "domain")
    scores = client.get(SCORES).json()
    assert (scores["query_domain"], scores["n_queries"]) == ("source", 60)
    client.delete(ITEMS, json={"ids": list(range(60))}, headers=keyed)
    response = client.get(SCORES)
    assert (response.status_code, response.json()["detail"]) == (
        404,
        "no scores: no items are loaded",
    )


def test_a_large_journal_is_merged_into_the_file(serve, keyed, folder):
    client = serve(journal_bytes=300)
    journal = folder / "photos.bhi.journal"
    for _ in range(12):
        client.post(ITEMS, json={"codes": ["fff0"] * 3}, headers=keyed)
        assert journal.stat().st_size <= 300
    assert len(HammingIndex.load(folder / "photos.bhi")) > 60


def test_catalogues_are_described(client):
    listed = client.get("/v1/catalogues").json()
    photos, plain = listed["catalogues"]
    assert photos == client.get("/v1/catalogues/photos").json()
    assert (photos["method"], photos["n_bits"]) == ("ATH", 12)
    assert (photos["index_domain"], photos["query_domain"]) == ("source", "target")
    assert photos["domains"]["source"]["tags"] == ["ant", "bee", "cat"]
    assert photos["domains"]["target"]["n_images"] == 3
    assert plain["domains"]["any"]["backbone"] == "gist"
    assert listed["limits"]["k"] == 1000


def test_scores_are_those_of_the_library(client, folder):
    from bridgehash.metrics import distance_histogram, radius_pr_area

    model = load(folder / "model.bh")
    codes = [model.encode(np.load(folder / f"{name}.npy"), name) for name in ("target", "source")]
    labels = np.arange(50) % 3, np.arange(60) % 3
    scores = client.get(SCORES).json()
    histogram = distance_histogram(*codes, *labels, n_bits=12)
    assert scores["radius_pr_area"] == pytest.approx(radius_pr_area(histogram))
    assert (scores["n_queries"], scores["n_items"], scores["query_domain"]) == (50, 60, "target")
    assert len(scores["recall"]) == len(scores["precision"])
    assert client.get("/v1/catalogues/plain/scores").status_code == 404


def test_items_without_a_tag_are_of_no_class(client, keyed, folder):
    from bridgehash.metrics import distance_histogram, mean_average_precision

    client.post(ITEMS, json={"codes": ["fff0", "0000"]}, headers=keyed)
    model = load(folder / "model.bh")
    queries = model.encode(np.load(folder / "target.npy"), "target")
    items = model.encode(np.load(folder / "source.npy"), "source")
    items = np.concatenate([items, np.array([[0xFF, 0xF0], [0, 0]], np.uint8)])
    labels = np.arange(50) % 3, np.append(np.arange(60) % 3, [-1, -1])
    histogram = distance_histogram(queries, items, *labels, n_bits=12)
    scores = client.get(SCORES).json()
    expected = mean_average_precision(histogram)
    assert scores["mean_average_precision"] == pytest.approx(float(expected))


def test_scores_follow_changes(client, keyed):
    before = client.get(SCORES).json()
    client.delete(ITEMS, json={"ids": list(range(30))}, headers=keyed)
    after = client.get(SCORES).json()
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
    assert client.get("/ready").json() == {"status": "ready", "warnings": []}
    client.workers.stopping = True
    assert client.get("/ready").status_code == 503


def test_pages_load_nothing_from_other_sites(client):
    for path in ("/", "/docs"):
        page = client.get(path)
        assert page.headers["content-type"].startswith("text/html")
        assert "http://" not in page.text
        assert "https://" not in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
    assert client.get("/page/plain.css").status_code == 200
    for path in ("/page/..%2fapp.py", "/page/__init__.py", "/page/"):
        assert client.get(path).status_code == 404
