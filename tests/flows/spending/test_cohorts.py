"""The record of cohorts: who joined when, for ever, or a refusal."""

from __future__ import annotations

import fcntl
from pathlib import Path

import numpy as np
import pytest

from flows.settings import SettingsError
from flows.spending import LEDGER_URL, cohorts
from flows.spending.cohorts import CORRECTED, COUNTED, SPLIT, join_cohorts, known_sizes
from flows.spending.year import Year
from privacy import BudgetError, LatticeLaplace, Ledger, LedgerError, Part, Publication, Query, Unit

PRICES = Year(1.0, 0.0, 0.6, 0.0, 0.2, 0.8, 0.0).text()


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    (tmp_path / "ledger.sqlite").parent.mkdir(exist_ok=True)
    found = Ledger(tmp_path / "ledger.sqlite", key=bytes(32))
    found.open_budget("toy", unit=Unit.CONSENSUS_LABEL, epsilon=2.0, delta=0.0, n=4)
    return found


def join(folder: Path, ledger: Ledger, names: str, *, key: str | None = None, **given: object):
    tasks = np.array(names.split())
    about = {"group": np.array(["north"] * tasks.size), "use": np.zeros(tasks.size, np.int64)}
    about |= {"key": key, "at_most": 12, "prices": PRICES} | given
    return join_cohorts(folder, ledger, "toy", task=tasks, **about)  # type: ignore[arg-type]


def test_a_tasks_cohort_group_and_use_never_change_whatever_later_runs_say(
    tmp_path: Path, ledger: Ledger
) -> None:
    join(tmp_path, ledger, "a b")
    later = join(
        tmp_path, ledger, "c b a",
        group=np.array(["south"] * 3), use=np.array([2, 2, 2]), prices=PRICES.replace("0.8", "0.7"),
    )  # fmt: skip
    assert later.cohort.tolist() == [1, 0, 0]
    assert later.group.tolist() == ["south", "north", "north"]
    assert later.use.tolist() == [2, 0, 0]
    assert [year.gate for year in later.years()] == [0.8, 0.7]


def test_a_cohort_never_gains_a_task_once_it_is_recorded(tmp_path: Path, ledger: Ledger) -> None:
    join(tmp_path, ledger, "a b", key="2026-01")
    assert join(tmp_path, ledger, "a b c", key="2026-01").cohort.tolist() == [0, 0, -1]
    assert join(tmp_path, ledger, "a b c", key="2026-02").cohort.tolist() == [0, 0, 1]
    assert join(tmp_path, ledger, "d", key="2026-01").cohort.tolist() == [-1]
    assert known_sizes(tmp_path, "toy") == {"2026-01": 2, "2026-02": 1}


def test_tasks_that_join_after_the_planned_runs_wait(tmp_path: Path, ledger: Ledger) -> None:
    join(tmp_path, ledger, "a", at_most=1)
    assert join(tmp_path, ledger, "a b", at_most=1).cohort.tolist() == [0, -1]
    assert join(tmp_path, ledger, "a b", at_most=2).cohort.tolist() == [0, 1]


def test_a_run_without_new_tasks_makes_no_cohort(tmp_path: Path, ledger: Ledger) -> None:
    join(tmp_path, ledger, "a b")
    assert join(tmp_path, ledger, "b a").keys == ("run-1",)


def test_tasks_whose_counts_cannot_be_paid_wait_or_are_refused_and_are_not_recorded(
    tmp_path: Path, ledger: Ledger
) -> None:
    """Counts and learning have cost 1 each, of 2; a dearer cohort on record would stop all later runs."""
    join(tmp_path, ledger, "a b", key="1")
    for partition in (COUNTED, SPLIT):
        part, key = Part(partition, "1: north"), Publication("1")
        query = Query("toy", partition, np.array([1, 1]), Unit.CONSENSUS_LABEL, 2, 2.0, part, key)
        ledger.release(LatticeLaplace(1.0), query)
    dearer = {"key": "2", "prices": Year(1.5, 0.0, 0.3, 0.0, 0.1, 0.4, 0.0).text()}
    assert join(tmp_path, ledger, "a b c", waits=True, **dearer).cohort.tolist() == [0, 0, -1]
    with pytest.raises(BudgetError, match="asked epsilon=0.5"):
        join(tmp_path, ledger, "a b c", **dearer)
    assert join(tmp_path, ledger, "a b c", key="2").cohort.tolist() == [0, 0, 1]


def test_a_cohort_without_a_key_has_a_name_that_none_has(tmp_path: Path, ledger: Ledger) -> None:
    join(tmp_path, ledger, "a", key="run-2")
    assert join(tmp_path, ledger, "a b").keys == ("run-2", "run-3")


@pytest.mark.parametrize("partition", [COUNTED, CORRECTED, SPLIT])
def test_what_the_ledger_has_released_is_on_record_or_all_is_refused(
    tmp_path: Path, ledger: Ledger, partition: str
) -> None:
    join(tmp_path, ledger, "a b", key="2026-01")
    early = (tmp_path / "cohorts-toy.npz").read_bytes()
    join(tmp_path, ledger, "a b c d", key="2026-02")
    query = Query(
        "toy", "class counts", np.array([1, 1]), Unit.CONSENSUS_LABEL, 2, 2.0,
        Part(partition, "2026-02: north"), Publication("2026-02"),
    )  # fmt: skip
    ledger.release(LatticeLaplace(1.0), query)
    join(tmp_path, ledger, "a b c d")
    (tmp_path / "cohorts-toy.npz").write_bytes(early)
    with pytest.raises(LedgerError, match="lacks the cohort '2026-02'"):
        join(tmp_path, ledger, "a b c d", key="2026-03")
    (tmp_path / "cohorts-toy.npz").unlink()
    with pytest.raises(LedgerError, match="lacks the cohort '2026-02'"):
        join(tmp_path, ledger, "a b c d", key="2026-03")
    (tmp_path / "cohorts-toy.npz").write_bytes(b"damaged")
    with pytest.raises(LedgerError, match="cannot be read"):
        join(tmp_path, ledger, "a b c d", key="2026-03")


def test_what_was_released_of_no_cohort_is_not_asked_for(tmp_path: Path, ledger: Ledger) -> None:
    join(tmp_path, ledger, "a b", key="2026-01")
    for part in (None, Part("group:1", "north")):
        value = np.array([1, 1])
        query = Query("toy", "class counts", value, Unit.CONSENSUS_LABEL, 2, 2.0, part)
        ledger.release(LatticeLaplace(0.5), query)
    assert join(tmp_path, ledger, "a b c", key="2026-02").keys == ("2026-01", "2026-02")


def test_any_number_of_cohorts_costs_what_the_dearest_does(tmp_path: Path, ledger: Ledger) -> None:
    prices = {"one": 0.5, "two": 1.0, "three": 0.25}
    for key, price in prices.items():
        for cell in ("north", "south"):
            query = Query(
                "toy", "class counts", np.array([1, 1]), Unit.CONSENSUS_LABEL, 2, 2.0,
                Part(COUNTED, f"{key}: {cell}"), Publication(key),
            )  # fmt: skip
            ledger.release(LatticeLaplace(price), query)
    assert float(ledger.statement("toy").spent.epsilon) == 1.0


def test_a_neighbour_touches_one_cell_of_each_partition_however_a_campaign_grew(
    tmp_path: Path, ledger: Ledger, rng: np.random.Generator
) -> None:
    """Parallel composition is about that alone; 20 months in any order of tasks, groups and uses."""
    cells: dict[str, set[tuple[int, str, bool]]] = {}
    for _ in range(20):
        names = rng.choice(60, size=int(rng.integers(1, 40)), replace=False)
        found = join(
            tmp_path, ledger, " ".join(f"t{j}" for j in names),
            group=rng.choice(["north", "south"], size=names.size),
            use=rng.integers(3, size=names.size), at_most=15,
        )  # fmt: skip
        asked = zip(names, found.cohort, found.group, found.use, strict=True)
        for name, cohort, group, use in asked:
            if cohort >= 0:
                cells.setdefault(f"t{name}", set()).add((int(cohort), str(group), use == 2))
    assert len(cells) > 40
    assert all(len(of_task) == 1 for of_task in cells.values())


def test_a_record_that_holds_objects_is_not_loaded(tmp_path: Path, ledger: Ledger) -> None:
    """An object in a file is code that loading it would run."""
    join(tmp_path, ledger, "a b")
    path = tmp_path / "cohorts-toy.npz"
    with np.load(path) as stored:
        arrays = dict(stored)
    np.savez(path, **arrays | {"keys": arrays["keys"].astype(object)}, allow_pickle=True)
    with pytest.raises(LedgerError, match="cannot be read"):
        join(tmp_path, ledger, "a b c")


def test_without_a_record_no_cohort_is_known_and_without_releases_none_lacks(
    tmp_path: Path, ledger: Ledger
) -> None:
    assert known_sizes(tmp_path, "toy") == {}
    other = Ledger(
        tmp_path / "other.sqlite", key=bytes(32)
    )  # which has never heard of the campaign
    assert join(tmp_path, other, "a b").cohort.tolist() == [0, 0]


def test_a_record_in_a_folder_is_refused_beside_a_ledger_on_a_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cohorts.check_record_beside_ledger()
    monkeypatch.setenv(LEDGER_URL, "postgresql://somewhere")
    with pytest.raises(SettingsError, match=f"the ledger must be there too: unset {LEDGER_URL}"):
        cohorts.check_record_beside_ledger()


def test_cohorts_are_joined_one_at_a_time_and_the_lock_is_left(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is of the open file, so that a second one in this process stands for another process."""
    read, tried = cohorts._read, list[Path]()

    def take() -> None:
        with open(tmp_path / "groups.lock", "rb") as other:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def trying(path: Path) -> object:
        with pytest.raises(BlockingIOError):
            take()
        tried.append(path)
        return read(path)

    monkeypatch.setattr(cohorts, "_read", trying)
    join(tmp_path, ledger, "a b")
    assert len(tried) == 1
    take()
