"""What is known of a crowd while labels arrive: the same by any cut and over any restart, and its alarms."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest

from flows.tables import TableError
from flows.watching import HEADER, LabelRows, LabelWatcher, WatchBusy, held_state, watch_once


def crowd(n_tasks: int = 1200, classes: str = "yn") -> str:
    """A table of 8 workers, five a task, at .9; w3 falls to .5 after 400 labels."""
    rng = np.random.default_rng(0)
    lines, given = ["worker,task,label,time,seconds"], np.zeros(8, int)
    for t in range(n_tasks):
        truth = rng.integers(len(classes))
        for w in rng.permutation(8)[:5]:
            right = rng.random() < (0.5 if w == 3 and given[w] > 400 else 0.9)
            given[w] += 1
            label = classes[truth if right else (truth + 1) % len(classes)]
            took = rng.lognormal(2 if rng.random() < 0.6 else 0, 0.3)
            lines.append(f"w{w},t{t},{label},{60 * t},{took:.3f}")
    return "\n".join(lines) + "\n"


def known(watcher: LabelWatcher) -> tuple[object, object, str]:
    return watcher.as_json(), watcher.consensus(), watcher.counts


def test_pieces_of_a_file_leave_what_the_whole_file_leaves(tmp_path: Path) -> None:
    """Cut in the middle of lines; a class that comes late widens the tables."""
    text = crowd(300) + "w0,t9000,late,,\n"
    whole, part = tmp_path / "whole" / "labels.csv", tmp_path / "part" / "labels.csv"
    for path in (whole, part):
        path.parent.mkdir()
    whole.write_text(text)
    expected = watch_once(whole, tmp_path / "whole.npz")
    with part.open("w") as file:
        for start in range(0, len(text), 5001):
            file.write(text[start : start + 5001])
            file.flush()
            found = watch_once(part, tmp_path / "state" / "part.npz")
    assert known(found) == known(expected)
    assert found.n_labels == 1501


def test_the_worker_who_got_worse_is_named_by_both_alarms_and_first_in_the_table(
    tmp_path: Path,
) -> None:
    labels, told = tmp_path / "labels.csv", []
    labels.write_text(crowd())
    watcher = watch_once(labels, tmp_path / "state.npz", on_alarm=told.append)
    assert any("w3 may have got worse" in line for line in told)
    assert any("w3 has got worse" in line for line in told)
    first = dict(zip(HEADER, watcher.rows()[0], strict=True))
    assert first["worker"] == "w3"
    assert 400 < int(first["alarm"].removeprefix("worse at ")) < 600
    assert watch_once(labels, tmp_path / "state.npz", on_alarm=told.append).counts == watcher.counts
    assert len(told) == len(set(told))  # not reported again


def test_the_consensus_so_far_is_mostly_right(tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text(crowd())
    consensus = watch_once(labels, tmp_path / "state.npz").consensus()
    rng, right = np.random.default_rng(0), 0
    for t in range(1200):
        truth = rng.integers(2)
        for _ in rng.permutation(8)[:5]:
            rng.random()
            rng.lognormal(2 if rng.random() < 0.6 else 0, 0.3)
        right += consensus["label"][t] == "yn"[truth]
    assert consensus["task"] == [f"t{t}" for t in range(1200)]
    assert right > 0.97 * 1200


def test_a_repeated_label_is_passed_over() -> None:
    watcher = LabelWatcher()
    rows = LabelRows(["a", "b", "a"], ["t"] * 3, ["x", "y", "y"], [np.nan] * 3, [np.nan] * 3)
    watcher.take(rows)
    assert watcher.counts == "2 labels, 2 workers, 1 task, 1 repeated label passed over"


def test_a_row_that_waits_is_counted_in_bytes_until_it_ends(tmp_path: Path) -> None:
    labels, state = tmp_path / "labels.csv", tmp_path / "state.npz"
    labels.write_text('worker,task,label\na,t,x\nb,t,5" nail\nc,t,"x')
    watcher = watch_once(labels, state)
    assert watcher.counts == "2 labels, 2 workers, 1 task, 6 bytes wait for the end of a row"
    assert watcher.as_json()["bytes_waiting"] == 6
    with labels.open("a") as file:
        file.write('"\n')
    assert watch_once(labels, state).counts == "3 labels, 3 workers, 1 task"


def test_a_link_and_what_it_leads_to_are_one_state(tmp_path: Path) -> None:
    labels, state, link = (tmp_path / name for name in ("labels.csv", "state.npz", "link.npz"))
    labels.write_text(crowd(20))
    watch_once(labels, state)
    link.symlink_to(state)
    labels.write_text(labels.read_text() + "w0,t9000,late,,\n")
    assert watch_once(labels, link).counts == watch_once(labels, state).counts
    assert link.is_symlink()
    with held_state(link), pytest.raises(WatchBusy, match="in use"), held_state(state):
        pass


def test_a_state_keeps_its_probability_of_a_false_alarm(tmp_path: Path) -> None:
    labels, state = tmp_path / "labels.csv", tmp_path / "state.npz"
    labels.write_text(crowd(20) + "w0,t9000,late,,\n")
    with held_state(state, false_alarm=0.2) as watcher:
        watcher.save(state)
    watch_once(labels, state)
    with held_state(state, false_alarm=0.2) as watcher:
        assert watcher.false_alarm == pytest.approx(0.2)
    message = "was begun with --false-alarm 0.2, got 0.05; leave the option out"
    with pytest.raises(TableError, match=message), held_state(state, false_alarm=0.05):
        pass


def test_a_session_ends_after_half_an_hour_without_a_label() -> None:
    watcher = LabelWatcher()
    found = [
        watcher._coded(rows_of(time)) and watcher._place[-1] for time in (0, 60, 120, 4000, 4001)
    ]
    assert found == [0, 1, 2, 0, 1]


def rows_of(time: float) -> LabelRows:
    return LabelRows(["ann"], [f"t{time}"], ["x"], [time], [np.nan])


def test_more_classes_than_labels_have_are_refused() -> None:
    n = 101
    texts = [str(i) for i in range(n)]
    with pytest.raises(TableError, match="100 at most; '100' would be one more"):
        LabelWatcher().take(LabelRows(["a"] * n, texts, texts, [np.nan] * n, [np.nan] * n))


def test_a_state_is_for_this_user_alone_and_holds_no_pickle(tmp_path: Path) -> None:
    labels, state = tmp_path / "labels.csv", tmp_path / "state.npz"
    labels.write_text(crowd(20))
    watch_once(labels, state)
    assert stat.S_IMODE(os.stat(state).st_mode) == 0o600
    with np.load(state, allow_pickle=False) as file:
        assert all(file[name].dtype.kind in "iuf" for name in file)


def test_a_state_is_held_by_one_watcher_at_a_time(tmp_path: Path) -> None:
    state = tmp_path / "state.npz"
    with held_state(state), pytest.raises(WatchBusy, match="in use by another"), held_state(state):
        pass
    with held_state(state) as again:
        assert again.n_labels == 0


def test_a_file_that_is_no_state_and_a_state_of_another_file_are_refused(tmp_path: Path) -> None:
    labels, state = tmp_path / "labels.csv", tmp_path / "state.npz"
    labels.write_text(crowd(20))
    state.write_text("nothing")
    with pytest.raises(TableError, match="must be a state that `crowdassay watch` saved"):
        watch_once(labels, state)
    state.unlink()
    watch_once(labels, state)
    other = tmp_path / "other.csv"
    other.write_text(crowd(20))
    with pytest.raises(TableError, match=r"the state is of labels\.csv, got other\.csv"):
        watch_once(other, state)


def test_a_state_with_any_damaged_byte_is_refused_or_read(tmp_path: Path) -> None:
    """Bytes that the archive does not need may differ; no other error leaves the reader."""
    labels, state = tmp_path / "labels.csv", tmp_path / "state.npz"
    labels.write_text(crowd(5))
    watch_once(labels, state)
    sound, refused = state.read_bytes(), 0
    for place in range(0, len(sound), 7):
        damaged = bytearray(sound)
        damaged[place] ^= 0x55
        state.write_bytes(damaged)
        try:
            LabelWatcher.load(state)
        except TableError:
            refused += 1
    assert refused > len(sound) / 14


def test_a_fault_leaves_the_state_as_it_was(tmp_path: Path) -> None:
    labels, state = tmp_path / "labels.csv", tmp_path / "state.npz"
    labels.write_text(crowd(20))
    watch_once(labels, state)
    before = state.read_bytes()
    with labels.open("a") as file:
        file.write("w1,t99,,,\n")
    with pytest.raises(TableError, match="row 101, column label: the cell is blank"):
        watch_once(labels, state)
    assert state.read_bytes() == before


def test_a_place_that_cannot_hold_a_state_is_refused(tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text(crowd(20))
    with pytest.raises(TableError, match="is a folder; name a file for the state"):
        watch_once(labels, tmp_path)
    with pytest.raises(TableError, match=r"labels\.csv is no folder"):
        watch_once(labels, labels / "state.npz")


def test_a_file_that_is_another_below_its_beginning_is_refused_in_the_next_call(
    tmp_path: Path,
) -> None:
    """Every state knows what was read last; one of an earlier version, which does not, goes on."""
    labels, state = tmp_path / "labels.csv", tmp_path / "state.npz"
    rows = [f"ann,{task:05},yes" for task in range(1_000)]
    labels.write_text("\n".join(["worker,task,label", *rows, "bob,"]))
    assert watch_once(labels, state).n_labels == 1_000
    watcher = LabelWatcher.load(state)
    before = state.read_bytes()
    labels.write_text("\n".join(["worker,task,label", *rows[:500], "bob,0,no", *rows[500:], ""]))
    with pytest.raises(TableError, match="is not the file that was watched"):
        watch_once(labels, state)
    assert state.read_bytes() == before
    labels.write_text("\n".join(["worker,task,label", *rows, "bob,0,no", ""]))
    del watcher.read["end"]
    watcher.save(state)
    assert watch_once(labels, state).n_labels == 1_001
