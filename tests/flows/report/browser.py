"""Debian's Chromium, headless and without a network, for the pages' tests and their screenshots."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from playwright.sync_api import Browser, Page, sync_playwright

__all__ = ["Scheme", "chromium", "open_browser", "open_page"]

Scheme = Literal["light", "dark"]
NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """Where the browser is, or None; one is never downloaded."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """One browser, gone with all its processes when the block ends."""
    path = chromium()
    if path is None:
        raise FileNotFoundError(f"one of {', '.join(NAMES)} must be installed; .ci/browser does it")
    arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def open_page(browser: Browser, *, width: int = 1280, scheme: Scheme = "light") -> Iterator[Page]:
    """An empty page of that width and colour scheme, which can reach files alone."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        reduced_motion="reduce",
        offline=True,
    )
    try:
        yield context.new_page()
    finally:
        context.close()
