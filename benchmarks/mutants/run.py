"""Plant every mutant, one at a time, and count those that a test catches.

``make mutants``, or ``python -m benchmarks.mutants.run [--only PART] [--sample N --seed S] [--workers N]``.
What a run printed, kept in a file, says with ``--among`` which mutants to try again.
It exits with 1 where fewer than 95 in 100 are caught, where one that survives is not listed with its reason
(`survivors.py`), or where a mutant on a list is of code that is there no more. A run of all of them, or of
a sample of all, writes its page.
"""

import gc
import math
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from pathlib import Path

from scipy.stats import binomtest

from benchmarks.mutants.operators import Mutant, mutants_of
from benchmarks.mutants.planting import KILLED, SURVIVED, UNPLANTED, Alive, reach_of, try_mutant
from benchmarks.mutants.reach import Reach
from benchmarks.mutants.survivors import SURVIVORS
from benchmarks.mutants.written import WRITTEN, check_written, copy_tree, try_written
from benchmarks.publish import parser_of, publish

ROOT = Path(__file__).resolve().parents[2]
ENOUGH = 0.95
LIMIT = 60  # CPU seconds for one mutant, beside four times what its tests take
SECONDS = 10.0  # CPU seconds of tests for one mutant, as traced
OUTCOMES = {KILLED: "killed", SURVIVED: "survived", UNPLANTED: "not planted"}
FOLDERS = (
    "privacy/ledger", "privacy/accounting", "learners/holdout", "privacy", "privacy/mechanisms",
    "flows/spending", "flows/spending/without_run",
)  # fmt: skip
"""The folders whose files are mutated."""

TESTS = (
    "tests/privacy", "tests/learners/holdout", "tests/flows/spending",
    "tests/flows/stages/test_publication.py", "tests/flows/stages/test_corrected_shares.py",
    "tests/flows/stages/test_year_counts.py", "tests/flows/stages/learning/test_model.py",
    "tests/flows/cli/crowd/test_multilabel_publication.py",
    "tests/flows/cli/crowd/test_rank_publication.py", "tests/flows/cli/spending/test_gate_campaigns.py",
)  # fmt: skip
"""The tests that a mutant may meet, if they reach its line."""

LEFT_OUT = ("__init__.py", "privacy/ledger/postgres.py", "flows/spending/audit.py")
"""Faces hold names alone. What a server does is tested on one, by `make test-postgres`; the mutants of
its rules are written by hand. The made-up neighbours that audits are of may be any."""

Task = tuple[str, Path, Mutant]
"""A mutant's full name, its file, and itself."""

Outcome = tuple[str, str, int, int]
"""A mutant's file and full name, its line, and what became of it."""

BY_HAND = "by hand"


def targets() -> list[Path]:
    """The files that are mutated."""
    return [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).glob("*.py"))
        if not path.as_posix().endswith(LEFT_OUT)
    ]


def own_tests(path: Path) -> str:
    """The test file that stands where the file does, whether or not there is one."""
    return str(Path("tests", path.parent.relative_to(ROOT), f"test_{path.stem}.py"))


def tests_of(reach: Reach, path: Path, mutant: Mutant) -> list[str]:
    """The tests that reach a mutant, those beside its file first, then the rest of these.

    What a test keeps from an earlier one was reached by that alone, so the rest may notice too. Tests after
    the first `SECONDS` are left out.
    """
    own, found = own_tests(path), reach.tests_of(path, mutant.statement)
    near = [test for test in found if test.startswith(f"{own}::")]
    rest = [test for test in reach.seconds if test.startswith(f"{own}::") and test not in near]
    ordered = [*near, *(test for test in found if test not in near), *rest]
    before = accumulate((reach.seconds[test] for test in ordered), initial=0.0)
    return [test for test, spent in zip(ordered, before, strict=False) if spent < SECONDS]


def near_tests(tasks: Sequence[Task]) -> list[str]:
    """The test files that stand where the mutants' files do."""
    return sorted({own for _, path, _ in tasks if (ROOT / (own := own_tests(path))).is_file()})


def all_tasks(only: str, among: str | None = None) -> list[Task]:
    """Every mutant made by rule whose name holds a text, and stands in another one if that is given."""
    found = []
    for path in targets():
        for mutant in mutants_of(path.read_text(encoding="utf-8")):
            name = f"{path.relative_to(ROOT)} {mutant.name}"
            if only in name and (among is None or name in among):
                found.append((name, path, mutant))
    return found


def sampled(tasks: Sequence[Task], n: int, seed: int) -> list[Task]:
    """Draw `n` mutants or so, from each folder in proportion, and put them in random order."""
    rng, by_folder = random.Random(seed), dict[Path, list[Task]]()
    for task in tasks:
        by_folder.setdefault(task[1].parent, []).append(task)
    drawn = [
        task
        for some in by_folder.values()
        for task in rng.sample(some, math.ceil(n * len(some) / len(tasks)))
    ]
    rng.shuffle(drawn)
    return drawn


def outcomes(tasks: Sequence[Task], reach: Reach, workers: int) -> Iterator[Outcome]:
    """Try mutants in forks of this process, several at a time."""
    waiting, running = list(reversed(tasks)), dict[int, Task]()
    alive = Alive()
    gc.freeze()  # a fork that collected garbage would copy all memory
    while waiting or running:
        while waiting and len(running) < workers:
            task = waiting.pop()
            _, path, mutant = task
            tests = tests_of(reach, path, mutant)
            child = os.fork()
            if child == 0:
                limit = LIMIT + 4 * sum(reach.seconds[test] for test in tests)
                os._exit(try_mutant(alive, path, mutant, tests, int(limit)))
            running[child] = task
        child, status = os.wait()
        name, path, mutant = running.pop(child)
        code = os.waitstatus_to_exitcode(status)
        outcome = code if code in (SURVIVED, UNPLANTED) else KILLED
        yield str(path.relative_to(ROOT)), name, mutant.line, outcome


def written_outcomes(only: str) -> Iterator[Outcome]:
    """Try the mutants written by hand."""
    with tempfile.TemporaryDirectory() as folder:
        copy_tree(ROOT, Path(folder))
        for one in WRITTEN:
            if only in one.name:
                text = (ROOT / one.path).read_text(encoding="utf-8")
                line = 1 + text[: text.index(one.old)].count("\n")
                yield BY_HAND, f"{one.path}: {one.name}", line, try_written(one, Path(folder))


def judge(found: Iterable[Outcome], n_all: int) -> tuple[Counter[str], Counter[str], list[str]]:
    """Print what survives as it is found; return mutants tried and killed of each file, and what is wrong."""
    tried, killed, faults = Counter[str](), Counter[str](), []
    for place, name, line, code in found:
        tried[place] += 1
        killed[place] += code == KILLED
        if tried.total() % 50 == 0:
            print(f"{tried.total():,} of {n_all:,} tried, {killed.total():,} killed", flush=True)
        if code == KILLED and name in SURVIVORS:
            faults.append(f"listed as a survivor, and killed: {name}")
        if code != KILLED:
            print(f"{OUTCOMES[code]}, line {line}: {name}", flush=True)
            if name not in SURVIVORS:
                faults.append(f"{OUTCOMES[code]} and not listed: {name}")
    return tried, killed, faults


def write_page(tried: Counter[str], killed: Counter[str], drawn: str) -> None:
    """Print and keep the outcome by folder; `drawn` says how the mutants were, if not all were tried."""
    folders: dict[str, list[str]] = {}
    for place in sorted(tried):
        folders.setdefault(place.rpartition("/")[0] or place, []).append(place)
    by_rule = [place for place in tried if place != BY_HAND]
    rows = []
    for name, places in [*folders.items(), ("all made by rule", by_rule)]:
        n, n_killed = (sum(counts[place] for place in places) for counts in (tried, killed))
        interval = binomtest(n_killed, n).proportion_ci()
        rows.append(
            (name, f"{n:,}", f"{n_killed:,}", f"{n_killed / n:.1%}")
            + ((f"{interval.low:.1%} to {interval.high:.1%}",) if drawn else ())
        )
    header = [
        "place",
        "mutants",
        "killed",
        "share",
        *(["of all, with 95 % confidence"] if drawn else []),
    ]
    publish("mutants", "Mutants", header, rows, note=NOTE + drawn)


def main() -> int:
    """Try all mutants; return the exit code."""
    parser = parser_of(__doc__)
    parser.add_argument("--only", default="", help="mutants whose file, function or code holds it")
    parser.add_argument("--among", type=Path, help="a file with the names of those to try")
    parser.add_argument("--sample", type=int, help="so many of those made by rule, at random")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--by", choices=("rule", "hand"), help="only mutants made this way")
    parser.add_argument("--near", action="store_true", help="with the tests beside each file alone")
    parser.add_argument("--list", action="store_true", help="print those made by rule, try none")
    given = parser.parse_args()
    check_written(ROOT)
    among = None if given.among is None else given.among.read_text(encoding="utf-8")
    made = [] if given.by == "hand" else all_tasks(given.only, among)
    names = {name for name, _, _ in made}
    whole = bool(made) and given.among is None
    gone = [one for one in SURVIVORS if whole and given.only in one and one not in names]
    if given.list:
        print(*sorted(names), sep="\n")
        return 0
    begun = time.monotonic()
    tasks = made if given.sample is None else sampled(made, given.sample, given.seed)
    tests = near_tests(tasks) if given.near else TESTS if tasks else ()
    reach = reach_of(tests, targets())
    print(f"{len(reach.seconds):,} tests reach them, {time.monotonic() - begun:.0f} s", flush=True)
    found = outcomes(tasks, reach, given.workers)
    if given.by != "rule":
        found = chain(found, written_outcomes(given.only))
    tried, killed, faults = judge(found, len(tasks) + len(WRITTEN) * (given.by != "rule"))
    faults += [f"listed as a survivor, and no mutant: {one}" for one in gone]
    minutes, n, n_killed = (time.monotonic() - begun) / 60, tried.total(), killed.total()
    print(f"{n_killed:,} of {n:,} mutants killed ({n_killed / n:.1%}), {minutes:.0f} minutes")
    print(*faults, sep="\n")
    if whole and not given.only and not given.near:
        drawn = f" Here {len(tasks):,} of the {len(made):,} made by rule, {SAMPLED} {given.seed})."
        write_page(tried, killed, drawn if len(tasks) < len(made) else "")
    return int(bool(faults) or n_killed < ENOUGH * n)


SAMPLED = "drawn from each folder in proportion at random (seed"

NOTE = (
    "Small faults planted one at a time: by rule in every file of the folders named (each comparison, "
    "guard, truth value, call without a result, least and most, rounding up and down), and by hand where "
    "no rule makes them. *Killed*: a test fails, or does not end. Each meets the tests that reach its "
    f"line, the quickest first, {SECONDS:.0f} CPU seconds of them at most. "
    "Those that may survive are listed in `benchmarks/mutants/survivors.py`, each with its reason; any other "
    "makes the command fail."
)


if __name__ == "__main__":
    sys.exit(main())
