"""A browser for the tests of the report page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

#: Milliseconds after which a page counts as unusable; generous, since the machine may be busy.
TIMEOUT = 60_000


class Visit:
    """A page that was opened, and what must not happen on it.

    Attributes:
        page: The page of Playwright.
        problems: Errors, messages on the console, dialogs, and requests for anything but the file.
    """

    def __init__(self, context: Any, path: Path, fragment: str = "") -> None:
        self.problems: list[str] = []
        self.page = context.new_page()
        self.page.set_default_timeout(TIMEOUT)
        self.page.on("console", lambda message: self.problems.append(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("dialog", self._dismiss)
        self.page.on("request", lambda request: self._check(request.url, path.as_uri()))
        self.page.goto(path.as_uri() + fragment)
        self.page.wait_for_selector("html[data-ready=true]")

    def search(self, text: str) -> None:
        """Search a text and choose the first result."""
        self.page.fill("#search", text)
        self.page.press("#search", "Enter")

    def get_selected(self) -> str:
        """Return the text of the selected node in the drawing, also what is hidden while the view is far away."""
        return self.page.text_content("#nodes .selected")

    def read_colors(self) -> list[str]:
        """Return the background colors of the visible nodes."""
        script = "nodes => nodes.map(node => getComputedStyle(node).backgroundColor)"
        return self.page.eval_on_selector_all("#nodes .node", script)

    def _dismiss(self, dialog: Any) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _check(self, url: str, expected: str) -> None:
        if url.partition("#")[0] != expected and not url.startswith("data:"):
            self.problems.append(f"request: {url}")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Start Chromium; skip the test if it is not installed."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    executable = os.environ.get("IRRUN_CHROMIUM") or next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if executable is None:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Any]:
    """Return a function that opens a page; the test fails if a page misbehaved."""
    viewport = {"width": 1440, "height": 900}
    context = browser.new_context(viewport=viewport, color_scheme="light", reduced_motion="reduce")
    visits: list[Visit] = []

    def open_page(path: Path, fragment: str = "") -> Visit:
        visits.append(Visit(context, path, fragment))
        return visits[-1]

    yield open_page
    context.close()
    assert [problem for visit in visits for problem in visit.problems] == []
