"""What tells the public folders of neighbouring campaigns apart: an audit of a whole run under each unit.

    python -m benchmarks.flows.folder_audit --pairs 2000

A small campaign (40 tasks in four groups, three workers, gold) and a neighbour that differs in one unit are
published so many times each, in turns, with class counts, their correction by gold, a model, its score and
the gate, every time from a new ledger. Half of the publications choose what tells the two apart best: among
the set of files, a digest of each file's bytes, every number shown and Fisher's combination of them, at or
above a quantile, below it, equal to a frequent value, or missing. The other half count how often it holds.
The bound is one that epsilon exceeds with the confidence named, at the run's delta (Clopper-Pearson); a
price below it would be refuted. An exact leak would show as a bound of about log(pairs / 20). Stages
without noise are not among the pairs: ten times their files must follow, byte for byte, from what was paid
for. CPU seconds are those of all processes on a machine that does other things as well. Each unit is audited
by itself; rows of units that were not asked for are kept from the page.
"""

from __future__ import annotations

import resource

from benchmarks.publish import RESULTS, parser_of, publish
from flows.cli.spending.folder_audit import audit_folder
from privacy import Unit

LEVEL = 0.999
HEADER = (
    "unit", "pairs", "counted on", "price", "epsilon at least", "held here, there", "distinguishers tried",
    "files that do not follow", "refuted", "CPU s",
)  # fmt: skip


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument(
        "--pairs", type=int, default=2_000, metavar="N", help="publications of each"
    )
    parser.add_argument(
        "--units", nargs="+", choices=[str(unit) for unit in Unit], default=list(Unit)
    )
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="processes")
    asked = parser.parse_args()
    rows = kept()
    for unit in asked.units:
        rows[unit] = measure(Unit(unit), asked.pairs, asked.workers)
        note = " ".join(" ".join(__doc__.splitlines()[4:]).split())
        title = f"What tells the public folders of neighbours apart, with {LEVEL:.1%} confidence"
        publish("folder_audit", title, HEADER, [*rows.values()], note=note)


def kept() -> dict[str, list[str]]:
    """The rows of the page as it is, by their unit."""
    page = RESULTS / "folder_audit.md"
    lines = page.read_text(encoding="utf-8").splitlines() if page.is_file() else []
    rows = [line.strip("| ").split(" | ") for line in lines]
    return {row[0]: row for row in rows if row[0] in set(Unit) and len(row) == len(HEADER)}


def measure(unit: Unit, pairs: int, workers: int) -> list[str]:
    """One row: what an audit under a unit found."""
    begin = _cpu_seconds()
    found = audit_folder(unit, draws=pairs, level=LEVEL, workers=workers)
    often, seldom = found.bound.hits
    return [
        str(unit),
        f"{found.draws:,}",
        f"{found.bound.draws:,}",
        f"{found.epsilon:g}",
        f"{found.bound.least_epsilon(found.delta):.2f}",
        f"{often:,}, {seldom:,}",
        f"{found.bound.tried:,}",
        ", ".join(found.unlike) or "none",
        "yes" if found.refuted else "no",
        f"{_cpu_seconds() - begin:,.0f}",
    ]


def _cpu_seconds() -> float:
    """CPU seconds of this process and of those it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    main()
