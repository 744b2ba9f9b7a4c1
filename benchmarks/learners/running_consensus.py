"""The consensus that is kept label by label beside batch fits: per cent of gold that is right.

    python -m benchmarks.learners.running_consensus

*As filed* takes the labels in the order of the file, *shuffled* in a random one (seed 0); each label is seen
once. The batch fits may go through all labels as often as they like; *to hierarchical* is how far one pass is
from the fit of the same model, as filed and shuffled. *µs* is CPU time for each label, as filed.
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks.publish import parser_of, publish
from benchmarks.quality.crowd_sets import DATA, NEWER, SETS, arrivals, read_set, right
from learners import RunningConsensus
from quality import CrowdLabels, dawid_skene, hierarchical_dawid_skene, majority_vote

HEADER = (
    "set", "majority vote", "as filed", "shuffled", "Dawid–Skene, batch", "hierarchical, batch",
    "to hierarchical", "µs",
)  # fmt: skip
CLOSE = 0.3  # points
BATCH = (dawid_skene, hierarchical_dawid_skene)


def one_pass(columns: tuple[np.ndarray, ...], table: CrowdLabels) -> tuple[np.ndarray, float]:
    """Posterior of every task and CPU seconds, of labels taken once in their order."""
    worker, task, label = columns
    seen, first, code = np.unique(task, return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(first))  # tasks are numbered as they come
    consensus = RunningConsensus(len(table.classes))
    start = time.process_time()
    consensus.partial_fit(worker, place[code], label)
    seconds = time.process_time() - start
    posterior = np.full((table.n_tasks, len(table.classes)), 1 / len(table.classes))
    posterior[seen] = consensus.posterior()[place]
    return posterior, seconds


def figures(name: str) -> list[float]:
    table, gold = read_set(DATA / name)
    columns = arrivals(DATA / name, table)
    order = np.random.default_rng(0).permutation(len(columns[0]))
    filed, seconds = one_pass(columns, table)
    shuffled, _ = one_pass(tuple(one[order] for one in columns), table)
    found = [majority_vote(table).posterior, filed, shuffled]
    found += [fit(table).posterior for fit in BATCH]
    return [*(right(one, gold) for one in found), 1e6 * seconds / len(columns[0])]


def main() -> None:
    parser_of(__doc__).parse_args()
    one_pass((np.zeros(3, int), np.zeros(3, int), np.zeros(3, int)), read_set(DATA / "bluebird")[0])
    table = {name: figures(name) for name in SETS + NEWER}
    means = {
        f"mean of the {len(names)} {kind}": np.mean([table[name] for name in names], axis=0)
        for kind, names in (("older sets", SETS), ("newer sets", NEWER), ("sets", SETS + NEWER))
    }
    rows = [
        (
            name, *(f"{one:.2f}" for one in found[:5]),
            ", ".join(f"{one - found[4]:+.2f}" for one in found[1:3]), f"{found[5]:.1f}",
        )
        for name, found in {**table, **means}.items()
    ]  # fmt: skip
    each = np.array(list(table.values()))
    close = (each[:, 1:3] >= each[:, 4:5] - CLOSE - 1e-9).sum(axis=0)
    _, filed, shuffled, plain, hierarchical, _ = means["mean of the 21 sets"]
    publish(
        "running_consensus",
        "The consensus so far, beside batch fits",
        HEADER,
        rows,
        note=" ".join(" ".join(__doc__.splitlines()[4:]).split())
        + f" In the mean of all sets one pass is {filed - plain:+.2f} points from Dawid–Skene and "
        f"{filed - hierarchical:+.2f} from hierarchical Dawid–Skene, shuffled {shuffled - plain:+.2f} and "
        f"{shuffled - hierarchical:+.2f}. On {close[0]} of the {len(table)} sets it is no more than "
        f"{CLOSE} points below the hierarchical fit as filed, on {close[1]} shuffled; on the others it is "
        "further below: use a run's consensus for what is decided once.",
    )


if __name__ == "__main__":
    main()
