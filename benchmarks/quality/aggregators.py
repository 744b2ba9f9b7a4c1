"""Every aggregator on every shared data set, beside crowd-kit's own.

    python -m benchmarks.quality.aggregators [--keep-peers]

crowd-kit takes a quarter of an hour; its figures change only with its version and the sets, and can be kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from benchmarks.peers.crowdkit_labels import GIGABYTES, PEERS, SECONDS, ask_crowdkit
from benchmarks.publish import RESULTS, parser_of, publish
from benchmarks.quality.crowd_sets import DATA, SETS, read_set, right
from quality import (
    Auto,
    Consensus,
    CrowdLabels,
    auto,
    dawid_skene,
    ebcc,
    encode,
    mace,
    majority_vote,
    mmsr,
)
from quality.aggregation.dawid_skene_em import one_coin_dawid_skene
from quality.aggregation.glad_em import glad
from quality.aggregation.hierarchical_em import hierarchical_dawid_skene
from quality.aggregation.kos_messages import kos, kos_plus
from quality.aggregation.penalty_weights import penalty_vote

AGGREGATORS: dict[str, Callable[[CrowdLabels], Consensus]] = {
    "majority_vote": majority_vote,
    "dawid_skene": dawid_skene,
    "hierarchical_dawid_skene": hierarchical_dawid_skene,
    "one_coin_dawid_skene": one_coin_dawid_skene,
    "glad": glad,
    "mace": mace,
    "ebcc": lambda labels: ebcc(labels, rng=np.random.default_rng(0)),
    "mmsr": mmsr,
    "kos": lambda labels: kos(labels, rng=np.random.default_rng(0)),
    "kos_plus": lambda labels: kos_plus(labels, rng=np.random.default_rng(0)),
    "penalty_vote": penalty_vote,
    "auto": auto,
}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument(
        "--keep-peers", action="store_true", help="crowd-kit's rows stay the page's"
    )
    kept = of_page() if parser.parse_args().keep_peers else None
    tiny = encode([0, 1, 2] * 3, [0, 0, 0, 1, 1, 1, 2, 2, 2], list("abcaabbbc"))
    for run in AGGREGATORS.values():
        run(tiny)  # compiles, so that the seconds below are work
    columns: dict[str, dict[str, tuple[float | str, float]]] = {}
    picks: dict[str, str] = {}
    for name in SETS:
        labels, gold = read_set(DATA / name)
        peers = theirs(labels, gold) if kept is None else kept[name]
        columns[name] = ours(labels, gold, picks, name) | peers
    names = [*AGGREGATORS, *(f"crowd-kit {peer}" for peer in PEERS)]
    rows = [row(name, columns) for name in names]
    rows.append(
        ("auto's choice", *(SHORT.get(picks[name], picks[name]) for name in SETS), "", "", "")
    )
    header = ("rule", *(SHORT.get(name, name) for name in SETS), "mean", "auto there", "cpu s")
    publish(
        "aggregators", "Aggregators on the shared sets, per cent of gold tasks right", header, rows,
        note=NOTE if kept is None else f"{NOTE} {KEPT}",
    )  # fmt: skip


SHORT = {
    "trec2011_task2": "trec2011", "sentence_polarity": "polarity", "dawid_skene": "DS",
    "one_coin_dawid_skene": "one coin", "majority_vote": "MV", "kos_plus": "KOS+", "kos": "KOS",
}  # fmt: skip
NOTE = (
    "No gold is used but to score. Of a worker's repeated labels for one task the first is kept "
    "(task2 has 881 repeats, fact_eval 1,810). Ties count in expectation for ours; crowd-kit "
    "1.4.2 gives one label. mean: over the sets with a figure; auto there: `auto`'s over the same "
    "sets. cpu s: process seconds over all sets, from coded labels, compilation "
    "left out. crowd-kit: integer ids, 100 iterations where it takes a number; its KOS is binary; "
    f"a fit gets {SECONDS} s and {GIGABYTES} GB; an error is shown by its name; MACE starts once, as all "
    "its restarts are alike, and gives some tasks of mill no label. `auto` was settled on "
    "these sets among others: `benchmarks.quality.choice` leaves families of sets out. "
    "fact_eval's gold is 1.4 % of its tasks and of another mix of classes than its labels."
)
KEPT = "crowd-kit's rows are kept from an earlier run of this command, of the same version on the same sets."


def of_page() -> dict[str, dict[str, tuple[float | str, float]]]:
    """crowd-kit's figures on the page as it stands, by set; its seconds over all sets are on the first."""
    found: dict[str, dict[str, tuple[float | str, float]]] = {name: {} for name in SETS}
    for line in (RESULTS / "aggregators.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| crowd-kit "):
            peer, *cells, _, _, seconds = (cell.strip() for cell in line.strip("|").split("|"))
            for place, cell in zip(SETS, cells, strict=True):
                value = float(cell) if cell.replace(".", "").isdigit() else cell
                found[place][peer] = value, float(seconds) if place == SETS[0] else 0.0
    return found


def ours(
    labels: CrowdLabels, gold: np.ndarray, picks: dict[str, str], name: str
) -> dict[str, tuple[float, float]]:
    """Per cent right and seconds of each of ours; notes what `auto` chose."""
    found = {}
    for aggregator, run in AGGREGATORS.items():
        start = time.process_time()
        result = run(labels)
        found[aggregator] = (right(result.posterior, gold), time.process_time() - start)
        print(
            f"{name}, {aggregator}: {found[aggregator][0]:.1f} in {found[aggregator][1]:.1f} s",
            flush=True,
        )
        if isinstance(result, Auto):
            picks[name] = result.chosen
    return found


def theirs(labels: CrowdLabels, gold: np.ndarray) -> dict[str, tuple[float | str, float]]:
    """The same for crowd-kit, on integer codes; nothing where it cannot be installed."""
    return {
        f"crowd-kit {peer}": (answer.right(gold), answer.seconds)
        for peer, answer in ask_crowdkit(labels).items()
    }


def row(name: str, columns: dict[str, dict[str, tuple[float | str, float]]]) -> tuple[str, ...]:
    """One aggregator over all sets; its mean, and `auto`'s, where it has a figure."""
    cells = [columns[set_name].get(name, ("–", 0.0)) for set_name in SETS]
    shown = [value if isinstance(value, str) else f"{value:.1f}" for value, _ in cells]
    peer_result = [
        place for place, (value, _) in zip(SETS, cells, strict=True) if not isinstance(value, str)
    ]
    means = [
        f"{np.mean([columns[set_name][of][0] for set_name in peer_result]):.2f}"
        if peer_result
        else ""
        for of in (name, "auto")
    ]
    return (name, *shown, *means, f"{sum(seconds for _, seconds in cells):.1f}")


if __name__ == "__main__":
    main()
