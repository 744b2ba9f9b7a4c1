"""Both pages in a real browser: they are quiet, sort, draw, fit a phone, and axe finds no fault."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from flows.report import write_reports
from tests.flows.report.browser import Scheme, chromium, open_browser, open_page
from tests.flows.report.report_folder import SKIPPED, write_folder

pytestmark = pytest.mark.skipif(chromium() is None, reason="no chromium; .ci/browser installs it")
NAMES = ("report", "public")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests of this file, gone before others start event loops of their own."""
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A whole run, one that released nothing, and one of a large crowd."""
    base = tmp_path_factory.mktemp("pages")
    made = {
        "whole": write_folder(base / "whole", workers=60, flagged=12),
        "skipped": write_folder(base / "skipped", skip=tuple(SKIPPED)),
        "large": write_folder(base / "large", workers=1500, flagged=300, groups=60),
    }
    for folder in made.values():
        write_reports(folder)
    return made


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with open_page(browser) as page:
        yield page


def show(page: Page, folder: Path, name: str) -> None:
    page.goto((folder / f"{name}.html").as_uri())


def column(page: Page, table: str, head: str) -> list[str]:
    """A column of the table in the section, from top to bottom."""
    cells: list[str] = page.evaluate(
        """([table, head]) => {
          const found = document.querySelector(table);
          const heads = [...found.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
          return [...found.tBodies].flatMap((body) => [...body.rows])
            .filter((row) => !row.classList.contains("of"))
            .map((row) => row.cells[heads.indexOf(head)].textContent.trim());
        }""",
        [table, head],
    )
    return cells


@pytest.mark.parametrize("kind", ["whole", "skipped"])
@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_quiet_and_asks_for_nothing(
    page: Page, folders: dict[str, Path], kind: str, name: str
) -> None:
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    show(page, folders[kind], name)
    assert said == []
    itself = (folders[kind] / f"{name}.html").as_uri()
    assert [url for url in asked if not url.startswith("data:")] == [itself]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_axe_finds_no_fault(
    browser: Browser, folders: dict[str, Path], name: str, scheme: Scheme
) -> None:
    """Contrast, names, roles, headings, landmarks: every rule that axe has."""
    with open_page(browser, scheme=scheme) as page:
        show(page, folders["whole"], name)
        found: list[dict[str, Any]] = Axe().run(page).response["violations"]
    assert [(fault["id"], fault["nodes"][0]["html"]) for fault in found] == []


@pytest.mark.parametrize("kind", ["whole", "skipped", "large"])
@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_no_wider_than_a_phone(
    browser: Browser, folders: dict[str, Path], kind: str, name: str
) -> None:
    with open_page(browser, width=360) as page:
        show(page, folders[kind], name)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("name", NAMES)
def test_on_a_desk_no_table_is_wider_than_its_place(
    page: Page, folders: dict[str, Path], name: str
) -> None:
    show(page, folders["whole"], name)
    wide = page.evaluate(
        "[...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth + 1)"
        ".map((e) => e.getAttribute('aria-label'))"
    )
    assert wide == []


def test_long_names_push_no_column_out_of_sight(page: Page, tmp_path: Path) -> None:
    """A task that is called by a sentence and an address, as in exports without an id."""
    folder = write_folder(tmp_path / "long", group_name="Region Nordrhein-Westfalen, Bezirk {:02d}")
    tasks = pq.read_table(folder / "next_labels.parquet")
    long = pa.array(
        [f"Is this safe? https://example.org/{'path/' * 20}{name}" for name in tasks["task"]]
    )
    pq.write_table(
        tasks.set_column(tasks.column_names.index("task"), "task", long),
        folder / "next_labels.parquet",
    )
    write_reports(folder)
    show(page, folder, "report")
    for table in (
        "The least certain tasks",
        "Published class proportions by group and their price",
    ):
        place = page.locator(f".scroll[aria-label='{table}']")
        assert place.evaluate("(e) => e.scrollWidth <= e.clientWidth + 1"), table


@pytest.mark.parametrize("kind", ["whole", "large"])
def test_the_verdicts_fill_one_screen_and_no_more(
    page: Page, folders: dict[str, Path], kind: str
) -> None:
    """At 1280 by 900, the size of `open_page`."""
    show(page, folders[kind], "report")
    box = page.locator("#verdicts").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= 900


def test_where_the_keyboard_is_can_be_seen(page: Page, folders: dict[str, Path]) -> None:
    """Skip link, links of the page, then the tables and their sort buttons, each with an outline."""
    show(page, folders["whole"], "public")
    seen = []
    for _ in range(20):
        page.keyboard.press("Tab")
        tag, outline = page.evaluate(
            "[document.activeElement.tagName, getComputedStyle(document.activeElement).outlineStyle]"
        )
        seen.append(tag)
        assert outline == "solid"
    assert seen[:7] == ["A"] * 7
    assert "BUTTON" in seen


def test_a_click_sorts_up_and_another_down(page: Page, folders: dict[str, Path]) -> None:
    show(page, folders["whole"], "report")
    head = page.locator("#workers th", has_text="Agreement").first
    for direction, reverse in (("ascending", False), ("descending", True)):
        head.get_by_role("button").click()
        assert head.get_attribute("aria-sort") == direction
        shown = [
            float(text.rstrip("%")) for text in column(page, "#workers table.sortable", "Agreement")
        ]
        assert shown == sorted(shown, reverse=reverse)
        assert len(set(shown)) > 30


def test_a_word_in_the_box_leaves_the_rows_that_hold_it(
    page: Page, folders: dict[str, Path]
) -> None:
    show(page, folders["whole"], "report")
    box = page.get_by_label("Filter rows of: Workers: removed first")
    name = column(page, "#workers table.sortable", "Worker")[7]
    box.fill(name.upper())
    assert page.locator("#workers .long tbody tr:visible").count() == 1
    shown = page.locator("#workers tbody tr.flagged:visible")
    box.fill("▲ REMOVED")
    assert shown.count() == 12
    assert page.locator("#workers .tools [role=status]").last.text_content() == "12 shown"
    box.fill("")
    assert page.locator("#workers tbody tr[hidden]").count() == 0


def test_a_table_is_saved_as_csv_without_a_network(
    page: Page, folders: dict[str, Path], tmp_path: Path
) -> None:
    """What is shown is saved, filtered and sorted, under the content policy of the page."""
    show(page, folders["whole"], "report")
    box = page.get_by_label("Filter rows of: Workers: removed first")
    box.fill("▲ removed")
    with page.expect_download() as waiting:
        page.get_by_label("Save as CSV: Workers: removed first").click()
    waiting.value.save_as(tmp_path / "workers.csv")
    with (tmp_path / "workers.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12
    assert {row["State"] for row in rows} == {"▲ removed"}
    assert [row["Worker"] for row in rows] == column(page, "#workers .long table", "Worker")[:12]
    assert waiting.value.suggested_filename.startswith("workers-removed-first")


def test_a_cell_that_a_spreadsheet_would_run_is_saved_as_text(
    page: Page, folders: dict[str, Path], tmp_path: Path
) -> None:
    show(page, folders["whole"], "report")
    page.evaluate(
        "document.querySelector('#workers table.sortable tbody th').textContent = '=cmd(\"x\")'"
    )
    with page.expect_download() as waiting:
        page.locator("#workers .tools button").last.click()
    waiting.value.save_as(tmp_path / "workers.csv")
    assert '"\'=cmd(""x"")"' in (tmp_path / "workers.csv").read_text(encoding="utf-8")


def test_a_number_below_zero_is_saved_with_the_minus_that_programs_read(
    page: Page, folders: dict[str, Path], tmp_path: Path
) -> None:
    """The page's own is a sign of its own, and a spreadsheet takes the cell for text."""
    show(page, folders["whole"], "report")
    page.evaluate(
        """() => {
          const cells = document.querySelector('#workers table.sortable tbody').rows[0].cells;
          ['w −5', '−0.53', '−12.5%'].forEach((text, at) => (cells[at + 3].textContent = text));
        }"""
    )
    with page.expect_download() as waiting:
        page.locator("#workers .tools button").last.click()
    waiting.value.save_as(tmp_path / "workers.csv")
    with (tmp_path / "workers.csv").open(encoding="utf-8-sig", newline="") as file:
        assert list(csv.reader(file))[1][3:6] == ["w −5", "-0.53", "-12.5%"]


def test_the_conclusions_are_the_first_page_of_print_alone(
    page: Page, folders: dict[str, Path]
) -> None:
    """The verdicts fit on a page of A4, and what follows begins on the next."""
    for kind in ("whole", "large"):
        page.set_viewport_size({"width": 718, "height": 1040})  # A4 with Chromium's margins
        page.emulate_media(media="print")
        show(page, folders[kind], "report")
        box = page.locator("#verdicts").bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 1040
        after = page.evaluate("getComputedStyle(document.querySelector('#verdicts')).breakAfter")
        assert after == "page"
        shown = page.locator("#workers .long tbody tr:visible").count()
        bodies = page.locator("#workers .long tbody").count()
        assert shown <= 26 * bodies
        assert page.locator(".on-paper").first.is_visible()


def test_the_keyboard_sorts_too(page: Page, folders: dict[str, Path]) -> None:
    show(page, folders["whole"], "public")
    before = column(page, "#proportions table", "toxic")
    page.locator("#proportions th", has_text="toxic").get_by_role("button").focus()
    page.keyboard.press("Enter")
    after = column(page, "#proportions table", "toxic")
    assert after == sorted(before, key=lambda text: float(text.split("%")[0]))
    assert after != before


def test_what_is_missing_sorts_last_both_ways(page: Page, folders: dict[str, Path]) -> None:
    """Some workers of the folder met no gold; shares of gold sort as shares, not as counts."""
    show(page, folders["whole"], "report")
    button = page.locator("#workers th", has_text="Gold").get_by_role("button")
    for _ in range(2):
        button.click()
        shown = column(page, "#workers table.sortable", "Gold")
        missing = [text == "—" for text in shown]
        assert missing == sorted(missing)
        assert any(missing)
        parts = [text.split() for text in shown if text != "—"]
        shares = [int(right) / int(of) for right, _, of, *_ in parts]
        assert shares in (sorted(shares), sorted(shares, reverse=True))


def test_a_large_crowd_sorts_within_its_parts(page: Page, folders: dict[str, Path]) -> None:
    show(page, folders["large"], "report")
    table = page.locator("#workers table.sortable").last
    table.get_by_role("button", name="Agreement").click()
    bodies = table.locator("tbody").all()
    assert len(bodies) == 3
    for body in bodies:
        assert "of" in (body.locator("tr").first.get_attribute("class") or "")


@pytest.mark.parametrize("name", NAMES)
def test_every_chart_has_a_size(page: Page, folders: dict[str, Path], name: str) -> None:
    show(page, folders["whole"], name)
    charts = page.locator("figure svg").all()
    assert len(charts) >= 2
    for chart in charts:
        box = chart.bounding_box()
        assert box is not None
        assert box["width"] > 200
        assert box["height"] > 50


@pytest.mark.parametrize("name", NAMES)
def test_every_anchor_leads_to_its_section(page: Page, folders: dict[str, Path], name: str) -> None:
    show(page, folders["whole"], name)
    links = page.locator("nav a").all()
    assert len(links) >= 6
    for link in links:
        link.click()
        target = page.locator(str(link.get_attribute("href")))
        box = target.bounding_box()
        assert box is not None
        assert 0 <= box["y"] < 900


def test_the_first_link_skips_to_the_content(page: Page, folders: dict[str, Path]) -> None:
    show(page, folders["whole"], "report")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main"


def test_a_page_is_whole_without_its_script(browser: Browser, folders: dict[str, Path]) -> None:
    context = browser.new_context(java_script_enabled=False, offline=True)
    try:
        page = context.new_page()
        show(page, folders["whole"], "report")
        assert page.locator("#workers table tbody tr").count() >= 60
        assert page.locator("thead button").count() == 0
    finally:
        context.close()


def test_in_print_nothing_is_cut_off(page: Page, folders: dict[str, Path]) -> None:
    page.set_viewport_size({"width": 718, "height": 1040})  # A4 with Chromium's margins
    page.emulate_media(media="print")
    show(page, folders["whole"], "report")
    assert page.evaluate("document.documentElement.scrollWidth") == 718
    cut = page.evaluate(
        "[...document.querySelectorAll('.scroll')].filter((e) => e.clientHeight < e.scrollHeight - 1).length"
    )
    assert cut == 0
    assert not page.locator("nav").is_visible()


def test_the_public_pages_files_are_where_it_says(page: Page, folders: dict[str, Path]) -> None:
    show(page, folders["whole"], "public")
    named = [
        str(link.get_attribute("href")) for link in page.locator("#files a[href^=public]").all()
    ]
    assert len(named) == 7
    for name in named:
        assert (folders["whole"] / name).is_file()
