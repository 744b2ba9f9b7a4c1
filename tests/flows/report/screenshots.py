"""Both pages of a run as pictures, at three widths, light and dark.

    python -m tests.flows.report.screenshots                   # the sample campaign, run for the purpose
    python -m tests.flows.report.screenshots runs/20261121T... # or runs that are there
    python -m tests.flows.report.screenshots --docs            # the first screen, for the documentation

One PNG each in `screenshots/<campaign>/`, or two in `docs/assets/`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from flows.pipeline import run_pipeline
from flows.report import write_reports
from flows.settings.settings import load_settings
from flows.simulate import copy_sample
from tests.flows.report.browser import Scheme, open_browser, open_page

TARGET = Path(__file__).resolve().parents[3] / "screenshots"
DOCS = Path(__file__).resolve().parents[3] / "docs" / "assets"
WIDTHS = (390, 820, 1280)
SCHEMES: tuple[Scheme, ...] = ("light", "dark")


def main(given: list[str]) -> None:
    with TemporaryDirectory() as folder:
        if given == ["--docs"]:
            print(*photograph_first_screen(_run_the_sample(Path(folder))), sep="\n")
            return
        runs = [Path(name).resolve() for name in given] or [_run_the_sample(Path(folder))]
        for run in runs:
            write_reports(run)
            name = json.loads((run / "inputs.json").read_text(encoding="utf-8"))["name"]
            for path in photograph(run, TARGET / name):
                print(path)


def photograph(run: Path, target: Path) -> list[Path]:
    """Write the pictures of one run's pages, whole from top to bottom."""
    target.mkdir(parents=True, exist_ok=True)
    written = []
    with open_browser() as browser:
        for width in WIDTHS:
            for scheme in SCHEMES:
                with open_page(browser, width=width, scheme=scheme) as page:
                    for name in ("report", "public"):
                        page.goto((run / f"{name}.html").as_uri())
                        path = target / f"{name}-{width}-{scheme}.png"
                        page.screenshot(path=path, full_page=True)
                        written.append(path)
    return written


def photograph_first_screen(run: Path) -> list[Path]:
    """Write the report's first screen, light and dark, in few colours."""
    written = []
    with open_browser() as browser:
        for scheme in SCHEMES:
            path = DOCS / f"report-{scheme}.png"
            with open_page(browser, scheme=scheme) as page:
                page.goto((run / "report.html").as_uri())
                page.screenshot(path=path)
            Image.open(path).convert("RGB").quantize(48).save(path, optimize=True)
            written.append(path)
    return written


def _run_the_sample(folder: Path) -> Path:
    """The sample campaign's run."""
    return run_pipeline(load_settings(copy_sample(folder))).folder


if __name__ == "__main__":
    main(sys.argv[1:])
