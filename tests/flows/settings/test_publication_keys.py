"""Publication keys: which are taken, and which key a date makes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from flows.settings import (
    GRANULARITIES,
    SettingsError,
    granularity_of,
    key_at,
)
from tests.flows.spending.keyed_campaign import (
    counts_alone,
)


@pytest.mark.parametrize(
    ("day", "keys"),
    [
        (datetime(2026, 11, 22, tzinfo=UTC), ("2026-11-22", "2026-W47", "2026-11", "2026")),
        (datetime(2027, 1, 1, tzinfo=UTC), ("2027-01-01", "2026-W53", "2027-01", "2027")),
    ],
)
def test_a_pattern_makes_the_key_of_a_date(day: datetime, keys: tuple[str, ...]) -> None:
    assert tuple(key_at(one.pattern, day) for one in GRANULARITIES) == keys
    assert [granularity_of(f"a-{one.pattern}.b") for one in GRANULARITIES] == list(GRANULARITIES)


def test_a_calendar_year_has_no_more_keys_than_its_price_counts() -> None:
    for year in range(2000, 2030):
        days = [datetime(year, 1, 1, tzinfo=UTC) + timedelta(days) for days in range(366)]
        days = [day for day in days if day.year == year]
        for one in GRANULARITIES:
            assert len({key_at(one.pattern, day) for day in days}) <= one.a_year


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("%m", "publication must hold one date as %Y-%m-%d"),
        ("%Y-%Y", "publication must hold one date"),
        ("%Y-%m %d", "publication must hold one date"),
        ("%Y %m", "publication must hold one date"),
        ("2026/11", "publication must be 1 to 60 letters"),
        ("", "publication must be 1 to 60 letters"),
    ],
)
def test_a_key_that_would_come_back_or_has_no_one_meaning_is_refused(
    tmp_path: Path, key: str, words: str
) -> None:
    with pytest.raises(SettingsError, match=words):
        counts_alone(tmp_path, key=key)
