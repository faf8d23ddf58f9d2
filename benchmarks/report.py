"""Measure reports: their size, the time to make them, and the time until the page is usable.

    pip install irrun[browser] && apt-get install chromium
    python benchmarks/report.py                   # a network of 5,000 layers without modules
    python benchmarks/report.py resnet50          # networks of the zoo; see zoo.py

"made" is the CPU time of a report, its runs included. "usable" is the time in the browser from the start of the
navigation until the graph is drawn, and "search" that until the result of a search for a layer is in view.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import irrun
from irrun.inspection.report.data import collect_report
from irrun.inspection.report.page import render_page

ROOT = Path(__file__).parents[1]
REPEATS = 3


def measure_making(model: Path, inputs: Any, output: Path) -> tuple[float, float]:
    """Return the CPU seconds of a run with an observer, and of a report with its runs."""
    compiled = irrun.compile_model(model, optimize=False)
    runs, reports = [], []
    for _ in range(REPEATS):
        start = time.process_time()
        compiled.create_infer_request().infer(inputs, observers=[lambda *arguments: None])
        runs.append(time.process_time() - start)
        start = time.process_time()
        report = collect_report(compiled, inputs)
        output.write_text(render_page(report.to_json(), report.title), encoding="utf-8")
        reports.append(time.process_time() - start)
    return min(runs), min(reports)


def measure_page(page_file: Path, query: str) -> tuple[float, float]:
    """Return the seconds until the page is usable, and the seconds of a search."""
    from playwright.sync_api import sync_playwright

    usable, searches = [], []
    with sync_playwright() as driver:
        executable = os.environ.get("IRRUN_CHROMIUM") or shutil.which("chromium")
        browser = driver.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        for _ in range(REPEATS):
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            start = time.perf_counter()
            page.goto(page_file.as_uri())
            page.wait_for_selector("html[data-ready=true]")
            usable.append(time.perf_counter() - start)
            start = time.perf_counter()
            page.fill("#search", query)
            page.press("#search", "Enter")
            page.wait_for_selector("#nodes .selected")
            searches.append(time.perf_counter() - start)
            page.close()
        browser.close()
    return min(usable), min(searches)


def main() -> None:
    """Print one line per network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", help="networks of the zoo")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    from browser.pages import write_large_report

    print(f"{'network':16} {'layers':>7} {'size':>9} {'run':>8} {'made':>8} {'usable':>8} {'search':>8}")
    with tempfile.TemporaryDirectory() as folder:
        models = []
        if not arguments.networks:
            write_large_report(Path(folder))
            x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
            models.append(("5,000 layers", Path(folder) / "large.xml", [x], "layer2501"))
        for name in arguments.networks:
            import zoo

            path = zoo.fetch(name)
            models.append((name, path, zoo.load_inputs(name), "add"))
        for name, path, inputs, query in models:
            output = Path(folder) / f"{name}.html"
            run, making = measure_making(path, inputs, output)
            usable, search = measure_page(output, query)
            count = sum(1 for _ in irrun.read_model(path).graph.walk())
            size = f"{output.stat().st_size / 1e6:.2f} MB"
            times = " ".join(f"{seconds:6.2f} s" for seconds in (run, making, usable, search))
            print(f"{name:16} {count:7} {size:>9} {times}")


if __name__ == "__main__":
    main()
