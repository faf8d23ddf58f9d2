"""Take pictures of the report page, to look at after a change of its style.

    PYTHONPATH=tests python -m browser.take_screenshots FOLDER

`report.png` is the picture of the documentation, docs/pictures/report.png. Chromium is found as by the tests.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

from browser.pages import EXAMPLE, write_broken_report, write_deep_report, write_hostile_report, write_large_report
from irrun.inspection.report import make_report


def write_date_reports(folder: Path) -> dict[str, Path]:
    """Write reports of the example: of a run, of its structure, and of its broken copy compared and side by side."""
    inputs = {"text": np.load(EXAMPLE / "input.npy")}
    broken = write_broken_report(folder)
    pages = {
        "date": make_report(EXAMPLE / "model.xml", inputs),
        "graph": make_report(EXAMPLE / "model.xml"),
        "pair": make_report(broken.with_suffix(".xml"), other=EXAMPLE / "model.xml"),
    }
    for name, page in pages.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return {"broken": broken, **{name: folder / f"{name}.html" for name in pages}}


def open_body(page: Any) -> None:
    """Open the loop of the example."""
    search(page, "beam_search")
    page.keyboard.press("Enter")


def search(page: Any, text: str) -> None:
    """Select the first result of a search."""
    page.fill("#search", text)
    page.press("#search", "Enter")
    page.wait_for_timeout(500)


def show_broken_layer(page: Any) -> None:
    """Show the layer that adds the error, at which the page opens, in iteration 2."""
    search(page, "beam_search[2]/decoder")
    page.keyboard.press("-")


def show_attention(page: Any) -> None:
    """Show the attention of the example in the operation colors."""
    open_body(page)
    search(page, "attention")
    page.select_option("#measure", "type")


def take(browser: Any, source: Path, target: Path, prepare: Any = None, **options: Any) -> None:
    """Take a picture of a page after `prepare(page)`."""
    context = browser.new_context(**{"viewport": {"width": 1440, "height": 860}, **options})
    page = context.new_page()
    page.goto(source.as_uri())
    page.wait_for_selector("html[data-ready=true]")
    if prepare is not None:
        prepare(page)
    page.wait_for_timeout(600)
    page.screenshot(path=str(target))
    context.close()


def main() -> None:
    """Write all pictures."""
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    reports = write_date_reports(folder)
    date, broken = reports["date"], reports["broken"]
    large, hostile, deep = write_large_report(folder), write_hostile_report(folder), write_deep_report(folder)
    executable = os.environ.get("IRRUN_CHROMIUM") or shutil.which("chromium")
    narrow = {"width": 390, "height": 800}
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        take(browser, broken, folder / "report.png", show_broken_layer)
        take(browser, broken, folder / "broken_dark.png", show_broken_layer, color_scheme="dark")
        take(browser, broken, folder / "broken_overview.png")
        take(browser, reports["graph"], folder / "graph.png")
        take(browser, reports["pair"], folder / "pair.png", color_scheme="dark")
        take(browser, date, folder / "body.png", show_attention)
        take(browser, date, folder / "narrow.png", viewport=narrow)
        take(browser, date, folder / "narrow_panel.png", lambda page: page.click("[data-view=panel]"), viewport=narrow)
        take(browser, large, folder / "large.png", lambda page: search(page, "layer2501"))
        take(browser, hostile, folder / "hostile.png", color_scheme="dark")
        take(browser, deep, folder / "deep.png", lambda page: search(page, "tanh"), color_scheme="dark")
        browser.close()


if __name__ == "__main__":
    main()
