"""Pick, filter, compare and drop: the page shows what the service returns."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import expect

DIGITS = "#a=digits-ath-64&b=digits-itq-64"
SHOWS_ALL = """list => {
  const free = document.body.appendChild(list.cloneNode(true));  // as wide as its options
  const enough = list.offsetWidth >= free.offsetWidth;
  free.remove();
  return enough;
}"""


def post(served, catalogue, form):
    address = f"{served.url}/v1/catalogues/{catalogue}/search"
    headers = {"Content-Type": "application/json"}
    with urlopen(Request(address, json.dumps(form).encode(), headers)) as answer:
        return json.load(answer)["results"][0]


def hits(page, place):
    """Return the ids and distances that a column shows."""
    shown = page.locator(f".column-{place} .hit")
    return shown.evaluate_all(
        "all => all.map(e => [+e.dataset.id, +e.querySelector('.distance').textContent])"
    )


def found(answer):
    return [[hit["id"], hit["distance"]] for hit in answer["hits"]]


def settle(page):
    expect(page.locator(".column-a")).to_have_attribute("aria-busy", "false")
    expect(page.locator(".column-a .hit").first).to_be_visible()


def test_a_query_that_is_picked_finds_what_the_service_finds(open_page, served):
    page = open_page(DIGITS)
    settle(page)
    page.locator("#gallery [role=option]").nth(4).click()
    expect(page).to_have_url(re.compile("q=scans%3A4"))
    expect(page.locator("#query")).to_contain_text("scans, item 4")
    for place, name in (("a", "digits-ath-64"), ("b", "digits-itq-64")):
        answer = post(served, name, {"ids": [4], "domain": "scans", "k": 12})
        expect(page.locator(f".column-{place}")).to_have_attribute("aria-busy", "false")
        assert hits(page, place) == found(answer)
    expect(page.locator("#status")).to_contain_text("digits-ath-64: 12 items found")
    expect(page.locator("#status")).to_contain_text("digits-itq-64: 12 items found")
    assert page.locator(".column-a .hit img").first.evaluate("e => e.naturalWidth") == 64


def test_a_reload_shows_the_same_and_back_goes_back(open_page):
    page = open_page(DIGITS + "&q=scans:2&k=6")
    settle(page)
    page.locator(".column-a .hit").nth(1).click()
    expect(page).to_have_url(re.compile("pin=a%3A"))
    before = page.url, hits(page, "a"), hits(page, "b")
    assert len(before[1]) == 6
    page.reload()
    settle(page)
    expect(page.locator('.column-a .hit[aria-selected="true"]')).to_have_count(1)
    assert (page.url, hits(page, "a"), hits(page, "b")) == before
    page.locator("#gallery [role=option]").nth(7).click()
    expect(page.locator("#query")).to_contain_text("scans, item 7")
    page.go_back()
    expect(page.locator("#query")).to_contain_text("scans, item 2")
    settle(page)
    assert hits(page, "a") == before[1]


def test_bits_that_differ_light_up(open_page):
    page = open_page(DIGITS + "&q=scans:1")
    settle(page)
    for place in ("a", "b"):
        hit = page.locator(f".column-{place} .hit").last
        hit.hover()
        distance = int(hit.locator(".distance").inner_text())
        codes = page.locator(f".column-{place} .codes")
        expect(codes).to_contain_text(f"{distance} of 64 bits differ")
        lit = codes.locator("svg").first.locator(".differs")
        squares = lit.evaluate_all("all => all.map(e => e.getAttribute('d')).join('')")
        assert squares.count("M") == distance
    page.locator("h1").hover()
    expect(page.locator(".column-b .codes")).to_contain_text("The query: 64 bits")


def test_catalogues_side_by_side_are_those_of_the_same_things(open_page):
    page = open_page(DIGITS)
    settle(page)
    values = page.locator("#choose-b option").evaluate_all("all => all.map(e => e.value)")
    others = ("digits-itq-64", "digits-ath-linear-64", "digits-ath-16", "digits-ath-128")
    assert values == ["-", *others]
    page.select_option("#choose-b", "digits-ath-16")
    expect(page.locator(".column-a h3")).to_have_text("Bridged codes (ATH)")
    expect(page.locator(".column-b h3 + p")).to_have_text("digits-ath-16, 16 bits (2 bytes)")
    expect(page.locator(".column-b .codes")).to_contain_text("The query: 16 bits")
    expect(page.locator("#scores tbody tr").last).to_contain_text("6416")
    assert page.locator("#scores .line-b").count() == 2  # curve and legend
    page.select_option("#choose-b", "-")
    expect(page.locator(".column-b")).to_be_hidden()
    page.select_option("#choose-a", "shapes-16")
    expect(page.locator(".column-b h3 + p")).to_have_text("shapes-24, 24 bits (3 bytes)")
    expect(page.locator(".column-a .caption").first).to_have_text("the query")


@pytest.mark.parametrize(
    ("where", "choices", "title", "query", "note"),
    [
        (
            "digits-ath-64",
            ["30 scans", "120 digits"],
            "Search digits with scans",
            "scans, item 0",
            "Queries: 30 scans. Searched: 120 digits.",
        ),
        (
            "generic",
            ["target (20)", "source (40)"],
            "Search across domains",
            "target, item 0",
            "Queries: 20 items of the target. Searched: 40 items of the source.",
        ),
        (
            "mixed",
            ["20 sketches", "45 items"],
            "Search across domains",
            "sketches, item 0",
            "Queries: 20 sketches. Searched: 45 items.",
        ),
        (
            "shapes-16",
            ["36 items"],
            "Search across domains",
            "item 0",
            "Queries: 36 items. Searched: 36 items.",
        ),
    ],
)
def test_domains_are_shown_by_name(open_page, where, choices, title, query, note):
    page = open_page(f"#a={where}&b=-")
    settle(page)
    assert page.locator("#choose-from option").all_inner_texts() == choices
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.locator("#choose-from").evaluate(SHOWS_ALL)
    expect(page.locator("h1")).to_have_text(title)
    expect(page.locator("#query .soft").last).to_have_text(query)
    expect(page.locator("#scores p")).to_contain_text(note)


def test_an_item_has_its_own_name_in_an_index_of_several_domains(open_page):
    page = open_page("#a=mixed&q=photos:41&k=48")
    settle(page)
    expect(page.locator("#query")).to_contain_text("sketches, item 41")
    expect(page.locator(".column-a .caption").filter(has_text="the query")).to_have_count(1)


def test_figures_are_those_of_the_service(open_page, served):
    page = open_page(DIGITS)
    with urlopen(f"{served.url}/v1/catalogues/digits-ath-64/scores") as answer:
        figures = json.load(answer)
    row = page.locator("#scores tbody tr").first
    expect(row).to_contain_text(f"{100 * figures['radius_pr_area']:.1f}")
    label = page.locator("#scores .curve > svg").get_attribute("aria-label")
    assert f"digits-ath-64: area {100 * figures['radius_pr_area']:.1f}" in label


def test_tags_filter_queries_and_what_is_found(open_page):
    page = open_page(DIGITS)
    settle(page)
    page.select_option("#choose-qtag", "3")
    asks = page.locator("#gallery [role=option]")
    expect(asks.first).to_have_attribute("aria-label", re.compile("^3, scans, item"))
    labels = asks.evaluate_all("all => all.map(e => e.ariaLabel)")
    assert all(label.startswith("3, scans, item") for label in labels)
    page.select_option("#choose-tag", "5")
    captions = page.locator(".column-a .hit .caption")
    expect(captions.filter(has_not_text=re.compile("5$"))).to_have_count(0)
    expect(captions.first).to_be_visible()
    assert all(caption.endswith("5") for caption in captions.all_inner_texts())


def test_items_of_the_index_ask_as_well(open_page):
    page = open_page(DIGITS)
    settle(page)
    first = page.locator(".column-a .hit").first  # the lowest id among the items with its code
    first.click()
    held = first.get_attribute("data-id")
    page.get_by_role("button", name="Search with this item").click()
    expect(page.locator("#query")).to_contain_text(f"digits, item {held}")
    expect(page.locator(".column-a .caption").first).to_have_text("the query")


@pytest.mark.slow
def test_a_random_item_is_a_query(open_page):
    page = open_page(DIGITS)
    settle(page)
    page.evaluate("Math.random = () => 0.99")
    page.get_by_role("button", name="Random query").click()
    expect(page.locator("#query")).to_contain_text("scans, item 29")


def test_items_without_pictures_show_their_codes(open_page, keep):
    page = open_page("#a=bare")
    settle(page)
    tile = page.locator("#gallery [role=option]").nth(3)
    expect(tile).to_contain_text("3")
    expect(tile.locator("svg.bits")).to_be_visible()
    expect(page.locator(".column-a .hit svg.bits").first).to_be_visible()
    expect(page.locator("#scores")).to_contain_text(
        "No scores: items need at least two different tags"
    )
    expect(page.locator("#drop")).to_be_hidden()
    assert page.locator("#query svg.bits").bounding_box()["width"] < 120
    keep(page, "without-pictures")


DROP = """([text, name, type]) => {
  const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
  const carried = new DataTransfer();
  carried.items.add(new File([bytes], name, { type }));
  for (const kind of ["dragover", "drop"]) {
    document.body.dispatchEvent(
      new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: carried }));
  }
}"""


def test_a_picture_that_is_dropped_asks(open_page, served, places, keep):
    page = open_page("#a=shapes-16&b=shapes-24&q=any:0")
    settle(page)
    picture = places[0] / "bars.png"
    page.evaluate(DROP, [b64encode(picture.read_bytes()).decode(), "bars.png", "image/png"])
    expect(page.locator("#query")).to_contain_text("uploaded image")
    settle(page)
    expect(page).to_have_url(re.compile("code=shapes-16"))
    page.get_by_role("radio", name="bits").click()
    expect(page).to_have_url(re.compile("rank=bits"))
    settle(page)
    for place, name in (("a", "shapes-16"), ("b", "shapes-24")):
        assert hits(page, place) == found(post(served, name, {"ids": [1], "k": 12}))
    before = hits(page, "a")
    keep(page, "dropped")
    page.reload()
    settle(page)
    expect(page.locator("#query")).to_contain_text("of an image that was not stored")
    assert hits(page, "a") == before


def send(served, catalogue, path, rank):
    address = f"{served.url}/v1/catalogues/{catalogue}/search/image?k=12&rank={rank}"
    with urlopen(Request(address, path.read_bytes(), {"Content-Type": "image/png"})) as answer:
        return json.load(answer)["results"][0]


def test_an_image_is_ranked_by_bits_or_weights(open_page, served, places, keep):
    page = open_page("#a=shapes-16&b=shapes-24&q=any:0")
    settle(page)
    bits, weights = (page.get_by_role("radio", name=name) for name in ("bits", "weights"))
    expect(weights).to_be_disabled()
    expect(bits).to_be_checked()
    expect(page.locator("#rank-note")).to_contain_text("Upload an image to rank by weights")
    picture = places[0] / "other.png"
    page.set_input_files("#file", picture)
    expect(weights).to_be_checked()
    settle(page)
    by = {rank: send(served, "shapes-16", picture, rank) for rank in ("weights", "hamming")}
    ids = {rank: [hit["id"] for hit in answer["hits"]] for rank, answer in by.items()}
    extra = set(ids["weights"]) - set(ids["hamming"])
    assert extra  # else this test would show nothing
    assert hits(page, "a") == found(by["weights"])
    words = f"Ranking by bits also finds {12 - len(extra)} of these 12 items. A plus marks the"
    expect(page.locator(".column-a .changes")).to_contain_text(words)
    expect(page.locator("#status")).to_contain_text(words)
    marked = page.locator(".column-a .hit.extra")
    assert {int(each.get_attribute("data-id")) for each in marked.all()} == extra
    expect(marked.first).to_have_attribute("aria-label", re.compile("not found by bits$"))
    marked.first.hover()
    expect(page.locator(".column-a .codes")).to_contain_text("score")
    keep(page, "ranked")

    weights.focus()
    page.keyboard.press("ArrowLeft")
    expect(bits).to_be_checked()
    expect(bits).to_be_focused()
    expect(page).to_have_url(re.compile("rank=bits"))
    expect(page.locator(".column-a .changes")).to_contain_text("Ranking by weights also finds")
    assert hits(page, "a") == found(by["hamming"])
    page.keyboard.press("ArrowRight")
    expect(page).not_to_have_url(re.compile("rank="))
    expect(page.locator(".column-a .changes")).to_contain_text("Ranking by bits also finds")
    assert hits(page, "a") == found(by["weights"])

    for width in (320, 390, 700, 1280):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        box = page.locator("#rank").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        keep(page, f"ranked-{width}")

    page.set_input_files("#file", places[0] / "bars.png")
    expect(page.locator("#query")).to_contain_text("bars.png")
    settle(page)
    page.go_back()  # to the codes of another image
    expect(page.locator("#query")).to_contain_text("of an image that was not stored")
    expect(weights).to_be_disabled()
    settle(page)
    assert hits(page, "a") == found(by["hamming"])


def test_catalogues_without_a_backbone_have_no_choice_of_ranking(open_page):
    page = open_page(DIGITS)
    settle(page)
    expect(page.locator("#rank")).to_be_hidden()
    expect(page.locator("#rank-note")).to_be_hidden()


def test_an_unsupported_file_is_rejected(open_page, places):
    page = open_page("#a=shapes-16")
    settle(page)
    page.set_input_files("#file", {"name": "a.txt", "mimeType": "text/plain", "buffer": b"no"})
    expect(page.get_by_role("alert")).to_contain_text("Unsupported file. Use PNG")
    page.get_by_role("button", name="Dismiss").click()
    expect(page.get_by_role("alert")).to_be_hidden()
    page.set_input_files("#file", places[0] / "bars.png")
    expect(page.locator("#query")).to_contain_text("bars.png")


@pytest.mark.slow
def test_a_broken_image_is_rejected_by_the_service(open_page):
    page = open_page("#a=shapes-16", quiet=False)  # the browser logs the status
    settle(page)
    broken = {"name": "a.png", "mimeType": "image/png", "buffer": b"no picture at all"}
    page.set_input_files("#file", broken)
    expect(page.locator(".column-a .message")).to_contain_text("image: cannot be read")


@pytest.mark.slow
@pytest.mark.parametrize(
    "where", ["#a=nothing&q=scans:99999999", "#q=target:1&from=target", "#q=x:y&k=7&pin=c:1&b=%"]
)
def test_an_address_that_makes_no_sense_is_put_right(open_page, where):
    page = open_page(where, quiet=False)
    expect(page.locator(".column-a h3 + p")).to_contain_text("digits-ath-64,")
    expect(page.locator(".column-a")).to_have_attribute("aria-busy", "false")
    if "99999999" in where:
        expect(page.locator(".column-a .message")).to_contain_text("no item 99999999")
    else:
        settle(page)


def test_a_drawing_searches(open_page, keep):
    page = open_page("#a=shapes-16&b=-&q=any:0")
    settle(page)
    page.get_by_role("button", name="Draw").click()
    dialog = page.get_by_role("dialog", name="Draw what you search for")
    search = dialog.get_by_role("button", name="Search")
    expect(search).to_be_disabled()
    box = page.locator("#drawing-canvas").bounding_box()

    def stroke(*points):
        places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in points]
        page.mouse.move(*places[0])
        page.mouse.down()
        for place in places[1:]:
            page.mouse.move(*place, steps=5)
        page.mouse.up()

    ink = """() => {
      const canvas = document.querySelector("#drawing-canvas");
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      return data.filter((value, i) => i % 4 === 0 && value < 128).length;
    }"""
    stroke((0.2, 0.2), (0.8, 0.2))
    once = page.evaluate(ink)
    stroke((0.2, 0.8), (0.8, 0.8))
    assert page.evaluate(ink) > 1.8 * once > 1000
    dialog.get_by_role("button", name="Undo").click()
    assert page.evaluate(ink) == once
    keep(page, "drawing")
    search.click()
    expect(dialog).to_be_hidden()
    expect(page.locator("#query")).to_contain_text("drawing.png")
    settle(page)
    expect(page).to_have_url(re.compile("code=shapes-16"))
    assert len(hits(page, "a")) == 12
    page.get_by_role("button", name="Draw").click()
    assert page.evaluate(ink) == once  # it can be continued
    dialog.get_by_role("button", name="Clear").click()
    assert page.evaluate(ink) == 0
    expect(search).to_be_disabled()
    dialog.get_by_role("button", name="Cancel").click()
    expect(page.locator("#query")).to_contain_text("drawing.png")


def test_a_line_says_that_nothing_is_like_an_image(open_page, places, keep):
    page = open_page("#a=shapes-16&b=shapes-24&q=any:0")
    settle(page)
    line = page.locator(".column-a [role=status]")
    expect(line).to_be_empty()

    def rejecting(route):
        answer = route.fetch()
        record = answer.json()
        record["results"][0]["rejected"] = True
        route.fulfill(response=answer, json=record)

    page.route("**/shapes-16/search/image?*", rejecting)
    page.set_input_files("#file", places[0] / "other.png")
    words = "Nothing like this in the catalogue: these are the nearest all the same."
    expect(line).to_have_text(words)
    expect(page.locator(".column-a .hit")).to_have_count(12)
    expect(page.locator(".column-b [role=status]")).to_be_empty()
    keep(page, "rejected")
    page.get_by_role("radio", name="bits").click()
    expect(page).to_have_url(re.compile("rank=bits"))
    settle(page)
    expect(line).to_have_text(words)
    page.locator("#gallery [role=option]").nth(1).click()
    expect(line).to_be_empty()


def test_hits_name_their_domain(open_page):
    page = open_page(DIGITS)
    settle(page)
    first = page.locator(".column-a .hit").first
    held = first.get_attribute("data-id")
    expect(first.locator(".origin")).to_have_text(f"digits, item {held}")
    assert f", digits, item {held}," in first.get_attribute("aria-label")
    expect(page.locator(".column-b h3")).to_have_text("Ordinary codes (ITQ)")
    expect(page.locator("#choose-a option").first).to_have_text("digits-ath-64: bridged")
    expect(page.locator("#scores thead th").first).to_contain_text("Bridged codes (ATH)")


def test_on_a_phone_results_are_in_view_and_the_query_stays(open_page):
    page = open_page(DIGITS, width=390, height=844)
    settle(page)
    caption = page.locator(".column-a .hit .origin").first
    assert caption.bounding_box()["y"] + caption.bounding_box()["height"] < 844
    page.evaluate("document.querySelector('.column-b .hits').scrollIntoView()")
    query = page.locator("#query").bounding_box()
    assert 0 <= query["y"] < 20
    assert query["height"] < 110
