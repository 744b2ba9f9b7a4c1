"""A run with each aggregator on a hundred thousand labels in thousands of classes.

    python -m benchmarks.flows.many_classes

The campaigns are those of `benchmarks.flows.default_run`: 2,000 workers, 20 groups, no features. `init`
proposes settings, the aggregator is put into them, and all stages run in a process of their own, `init`
included. A small run loads compiled kernels before the clock starts. Peak memory is that of the process.
An aggregator that needs more memory than such tables allow refuses the campaign, in the words shown.
The ordinal model is not here: classes without an order have no use for it.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from benchmarks.flows.default_run import REFUSED, SHAPES, Shape, measure, write_campaign
from benchmarks.flows.ingest import in_own_process
from benchmarks.machine import LOOP, loop_seconds
from benchmarks.publish import parser_of, publish
from flows.aggregators import AGGREGATORS, ORDERED

HEADER = ("classes", "aggregator", "cpu s", "peak MB", "refused")
CAMPAIGNS = ("many-classes", "most-classes")


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--folder", type=Path, help="run the campaign in this folder alone")
    parser.add_argument("--aggregator", choices=AGGREGATORS)
    asked = parser.parse_args()
    if asked.folder:
        print(json.dumps(measure(asked.folder, aggregator=asked.aggregator)))
        return
    before = loop_seconds()
    rows = [row for name in CAMPAIGNS for row in rows_of_campaign(SHAPES[name])]
    speed = (before + loop_seconds()) / 2
    rows.append(("", LOOP, f"{speed:.2f}", "", ""))
    note = " ".join(" ".join(__doc__.splitlines()[4:]).split())
    title = "Each aggregator among thousands of classes"
    publish("many_classes", title, HEADER, rows, note=note)


def rows_of_campaign(shape: Shape) -> list[tuple[str, ...]]:
    """The row of each aggregator."""
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, aggregator in AGGREGATORS.items():
            if name == ORDERED:
                continue
            folder = Path(scratch) / name
            folder.mkdir()
            write_campaign(folder, shape)
            asked = "--folder", str(folder), "--aggregator", name
            *_, (step, cpu, _, peak) = in_own_process("flows.many_classes", *asked)
            refusal = step.removeprefix(REFUSED) if step.startswith(REFUSED) else ""
            figures = ("", "") if refusal else (f"{cpu:.1f}", f"{peak:,.0f}")
            rows.append((f"{shape.n_classes:,}", aggregator.title, *figures, refusal))
    return rows


if __name__ == "__main__":
    main()
