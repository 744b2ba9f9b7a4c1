"""What each of five libraries has or lacks, beside crowdassay: every cell is the answer of a probe.

    python -m benchmarks.peers.comparison

A library's probes are a script that its own interpreter runs; ours are `benchmarks.peers.comparison_here`. A
probe of the same name stands in both and runs the thing that its row is about.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

from benchmarks.peers import comparison_here as here
from benchmarks.peers.peers import CLEANLAB, CROWDKIT, DIFFPRIVLIB, QUAPY
from benchmarks.publish import parser_of, publish

__all__ = ["HEADER", "PEERS", "ROWS", "Row"]

Answer = Callable[[], str]
HEADER = ("peer", "what", "there", "here", "how the peer was asked")
PEERS = {
    "crowd-kit": CROWDKIT,
    "OpenDP": None,  # of the version that crowdassay itself runs on
    "QuaPy": QUAPY,
    "diffprivlib": DIFFPRIVLIB,
    "cleanlab": CLEANLAB,
}


@dataclass(frozen=True)
class Row:
    """A question put to a peer and to us; the peer's probe has the name of ours."""

    peer: str
    what: str
    here: Answer
    how: str


ROWS = (
    Row("crowd-kit", "a rule that is chosen without gold", here.rule_chosen_without_gold,
        "no public name or parameter says auto, choose or select"),
    Row("crowd-kit", f"honest crowds of {here.WORKERS} workers from which one or more are removed",
        here.honest_crowds_thinned, "`entropy_threshold` as it comes, and `filter_dishonest`"),
    Row("crowd-kit", "texts, pairwise comparisons, segmentations",
        here.texts_comparisons_segmentations,
        "`ROVER`, `BradleyTerry` and `SegmentationMajorityVote` are run"),
    Row("crowd-kit", "privacy", here.privacy, "no public name or parameter says privacy or epsilon"),
    Row("OpenDP", "the same release asked for again", here.same_release_again,
        "a Laplace measurement invoked five times, and twice through an odometer"),
    Row("OpenDP", "what was spent is kept when the process ends", here.spending_outlives_the_process,
        "its odometer refuses to be stored"),
    Row("OpenDP", "a command that tries to refute its claims", here.command_that_tries_to_refute,
        "the package's entry points"),
    Row("QuaPy", "learns from proportions of groups alone", here.proportions_of_groups_alone,
        "`ACC` and `PACC` are given four groups and their shares"),
    Row("QuaPy", "an interval for each ratio", here.interval_for_each_ratio,
        "`AggregativeBootstrap` is fitted and asked"),
    Row("diffprivlib", "a bound of the rows that was not given", here.bound_not_given,
        "a model is fitted without `data_norm`"),
    Row("diffprivlib", "a fit is charged", here.charged,
        "an accountant looks at its model when it is charged"),
    Row("diffprivlib", "what was spent is kept when the process ends",
        here.spending_outlives_the_process, "a second process asks the default accountant"),
    Row("diffprivlib", "a solver stopped short of the minimum that the proof speaks of",
        here.solver_that_stops_early, "a model is fitted with `max_iter=1`; here the solver is cut off so"),
    Row("diffprivlib", "a seed for the noise", here.seed_for_the_noise,
        "two fits with `random_state=0` are compared"),
    Row("diffprivlib", "runs on today's scikit-learn", here.scikit_learn_of_today,
        "imported by the interpreter that runs crowdassay"),
    Row("cleanlab", "a consensus without a classifier", here.consensus_without_a_classifier,
        "`get_majority_vote_label` is run; other rules need `pred_probs`"),
    Row("cleanlab", "a classifier's opinion joins the crowd's", here.classifier_joins_in,
        "a tie is decided by `pred_probs`, both ways"),
    Row("cleanlab", "what to label next", here.what_to_label_next,
        "`get_active_learning_scores` is run"),
    Row("cleanlab", "which workers to remove", here.workers_to_remove,
        "the columns of its `annotator_stats`"),
    Row("cleanlab", "wrong labels in a table of one label a row", here.wrong_labels_of_single_rows,
        "`find_label_issues` finds one that was put in"),
)  # fmt: skip


def main() -> None:
    parser_of(__doc__).parse_args()
    answers = {peer: asked(peer) for peer in PEERS}
    rows = [
        (row.peer, row.what, answers[row.peer][row.here.__name__], row.here(), row.how)
        for row in ROWS
    ]
    note = (
        f"{', '.join(map(named, PEERS))}. Each cell is a probe's answer in this run: a library's "
        "own interpreter ran its probe, and ours calls the function that the row is about. "
        "An honest crowd: "
        f"{here.TASKS} tasks, {here.LABELS_PER_TASK} labels each, all workers right with {here.SKILL:.0%}."
    )
    publish("comparison", "What each peer does and does not", HEADER, rows, note=note)


def named(peer: str) -> str:
    """A peer and the version that is asked."""
    known = PEERS[peer]
    return f"{peer} {version(peer.lower()) if known is None else known.name.rpartition('-')[2]}"


def asked(peer: str) -> dict[str, str]:
    """What a peer answers to each probe."""
    script = f"comparison_{peer.lower().replace('-', '')}_side.py"
    known = PEERS[peer]
    with tempfile.TemporaryDirectory() as folder:
        crowds = Path(folder) / "crowds.npz"
        np.savez(crowds, **here.honest_crowds())
        given = (str(crowds), sys.executable)
        if known is None:
            command = [sys.executable, str(script), *given]
            printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        else:
            printed = known.run(script, *given)
    if printed is None:
        raise SystemExit(f"{peer} cannot be installed here: no cell is written")
    found: dict[str, str] = json.loads(printed)
    return found


if __name__ == "__main__":
    main()
