"""Texts of strangers: what a terminal would obey is written out, and nothing else is changed."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.terminal import printable


@given(text=st.text())
def test_no_control_or_direction_code_is_printed(text: str) -> None:
    kept = {unicodedata.category(one) for one in printable(text) if one not in "\u200c\u200d"}
    assert not kept & {"Cc", "Cf", "Cs", "Zl", "Zp"}


@pytest.mark.parametrize("text", ["ann", "ß 中 ✓ 😀", "می\u200cخواهم", "two words"])
def test_plain_text_of_any_language_stays(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    "text", ["\x1b[31mred", "\x9b2J", "a\u202eb", "a\u2066b", "a\rb", "\u200b"]
)
def test_what_was_written_out_can_be_read_back(text: str) -> None:
    assert printable(text).encode("ascii").decode("unicode_escape") == text
