"""`flows.crowdkit` beside crowd-kit 1.4.2: how closely the numbers agree, and what they cost.

    python -m benchmarks.quality.crowdkit_agreement --sets rte web

crowd-kit runs in an environment of its own, on the same rows in the same shuffled order.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.peers.peers import CROWDKIT
from benchmarks.publish import parser_of, publish
from benchmarks.quality.crowd_sets import DATA, SETS, read_set
from benchmarks.quality.dawid_skene_speed import power_law_crowd
from flows import crowdkit as estimators
from quality import CrowdLabels

SIDE = "crowdkit_agreement_side.py"
HEADER = (
    "set", "labels", "estimator", "probabilities", "skills, priors", "errors", "loss",
    "labels that differ", "rows and names", "theirs, cpu s", "ours, cpu s", "theirs / ours",
)  # fmt: skip
TABLES = (("probas_",), ("skills_", "priors_", "alphas_", "betas_"), ("errors_",))
SMALLER = [name for name in SETS if name not in {"trec2011_task2", "fact_eval", "mill"}]
SAME = 1e-9  # two shares closer than this are tied
Case = tuple[str, str, dict[str, Any], int, bool]


def cases(n_classes: int, glad_iterations: int) -> list[Case]:
    """Name, class, arguments, step through the gold it gets (0: none), initial errors or not."""
    assign, add = ({"initial_error_strategy": way} for way in ("assign", "addition"))
    found: list[Case] = [
        ("MajorityVote", "MajorityVote", {}, 0, False),
        ("Wawa", "Wawa", {}, 0, False),
        ("ZeroBasedSkill", "ZeroBasedSkill", {}, 0, False),
        ("GoldMajorityVote", "GoldMajorityVote", {}, 1, False),
        ("DawidSkene", "DawidSkene", {}, 0, False),
        ("DawidSkene, gold", "DawidSkene", {}, 5, False),
        ("DawidSkene, assign", "DawidSkene", assign, 0, True),
        ("DawidSkene, addition, 1 it.", "DawidSkene", {"n_iter": 1} | add, 0, True),
        ("DawidSkene, addition (*)", "DawidSkene", add, 0, True),
        ("OneCoinDawidSkene", "OneCoinDawidSkene", {}, 0, False),
        (f"GLAD, {glad_iterations} it.", "GLAD", {"n_iter": glad_iterations}, 0, False),
    ]
    return [*found, *([("KOS", "KOS", {}, 0, False)] if n_classes == 2 else [])]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--sets", nargs="+", default=SMALLER)
    parser.add_argument(
        "--large", type=int, default=114_000, help="labels drawn for speed; 0: none"
    )
    arguments = parser.parse_args()
    rows: list[list[str]] = []
    for name in arguments.sets:
        table, gold = read_set(DATA / name)
        rows += compare(name, table, gold, cases(table.n_classes, 100))
    for n_classes in (2, 5) if arguments.large else ():
        table = power_law_crowd(arguments.large, n_classes, np.random.default_rng(0))
        chosen = [case for case in cases(n_classes, 1) if not (case[3] or case[4])]
        rows += compare(f"simulated, K = {n_classes}", table, None, chosen)
    note = (
        "Largest absolute difference of the two results after `fit_predict`. Rows shuffled, "
        "repeated labels dropped, ids text; gold is every fifth gold task, for GoldMajorityVote "
        "every one. Labels that differ: those among tied shares in brackets. Rows and names: "
        "whether index, columns, their order and their names are the same. Process CPU time of "
        "`fit_predict`, crowd-kit with pandas 2.3, on the same machine. A 1e-10 in the "
        "probabilities is crowd-kit raising shares to 1e-10 in passing. (*) crowd-kit forgets the "
        "added counts after its first iteration; here they count in all. GLAD, 100 it.: at "
        "most; its loss is that of every iteration it made. The three largest sets are left out "
        "for what crowd-kit's GLAD costs there (`benchmarks.quality.aggregators`)."
    )
    publish("crowdkit_agreement", "Agreement with crowd-kit 1.4.2", HEADER, rows, note=note)


def compare(
    name: str, table: CrowdLabels, gold: np.ndarray | None, chosen: list[Case]
) -> list[list[str]]:
    """One row per case."""
    labels, truth, initial = frames(table, gold)
    theirs = ask(labels, truth, initial, chosen)
    estimators.Wawa().fit(labels)  # compiled
    rows = []
    for case, kind, arguments, use_gold, use_initial in chosen:
        known = {"true_labels": truth[::use_gold]} if use_gold else {}
        known |= {"initial_error": initial} if use_initial else {}
        start = time.process_time()
        ours = getattr(estimators, kind)(**arguments)
        try:
            ours.fit_predict(labels, **known)
        except ValueError:
            ours = None
        seconds = time.process_time() - start
        rows.append([name, f"{table.n_labels:,}", case, *differences(theirs[case], ours, seconds)])
    return rows


def ask(
    labels: pd.DataFrame, truth: pd.Series, initial: pd.DataFrame, chosen: list[Case]
) -> dict[str, Any]:
    """What crowd-kit holds after each case."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        labels.to_csv(folder / "labels.csv", index=False)
        truth.to_csv(folder / "gold.csv")
        initial.to_csv(folder / "initial.csv")
        (folder / "cases.json").write_text(json.dumps(chosen), encoding="utf-8")
        stored = CROWDKIT.run(SIDE, str(folder))
    if stored is None:
        raise SystemExit("crowd-kit's environment could not be built: is there a package index?")
    answer: dict[str, Any] = json.loads(stored)
    return answer


def frames(
    table: CrowdLabels, gold: np.ndarray | None
) -> tuple[pd.DataFrame, pd.Series, pd.DataFrame]:
    """Answers in shuffled order, true labels, and initial errors right 7 times in 10."""
    order = np.random.default_rng(0).permutation(table.n_labels)
    task, worker = table.task[order], table.worker[order]
    labels = pd.DataFrame(
        {
            "task": [f"t{name}" for name in table.tasks[task]],
            "worker": [f"w{name}" for name in table.workers[worker]],
            "label": table.label[order].astype(int),
        }
    )
    known = np.flatnonzero((gold if gold is not None else np.zeros(table.n_tasks)) >= 0)
    truth = np.zeros(len(known), dtype=int) if gold is None else gold[known].astype(int)
    names = pd.Index([f"t{name}" for name in table.tasks[known]], name="task")
    classes = sorted(labels["label"].unique().tolist())
    pairs = pd.MultiIndex.from_product(
        [labels["worker"].unique(), classes], names=["worker", "label"]
    )
    share = np.where(np.eye(len(classes)), 0.7, 0.3 / (len(classes) - 1))
    shares = np.tile(share, (len(pairs) // len(classes), 1))
    return (
        labels,
        pd.Series(truth, index=names, name="label"),
        pd.DataFrame(shares, index=pairs, columns=classes),
    )


def differences(theirs: dict[str, Any], ours: Any, seconds: float) -> list[str]:
    """The cells of one row after set, labels and estimator."""
    if "error" in theirs or ours is None:
        there, here = theirs.get("error", "a result"), "a result" if ours else "ValueError"
        outcome = f"{there} there, {here} here"
        return ["–"] * 4 + [outcome] + ["–"] * 4
    tables, alike = theirs["tables"], True
    cells = []
    for group in TABLES:
        here = [name for name in group if name in tables and hasattr(ours, name)]
        found = [largest(tables[name], getattr(ours, name)) for name in here]
        cells.append(", ".join(found) or "–")
        alike &= all(same_names(tables[name], getattr(ours, name)) for name in here)
    cells.append(loss(tables.get("loss_history_"), getattr(ours, "loss_history_", None)))
    alike &= same_names(tables["labels_"], ours.labels_)
    cells.append(differing(tables["labels_"], ours))
    there = theirs["seconds"]
    return [
        *cells, "same" if alike else "differ", f"{there:.3f}", f"{seconds:.3f}",
        f"{there / seconds:.0f}",
    ]  # fmt: skip


def largest(stored: dict[str, Any], table: Any) -> str:
    """Largest difference on the rows they have; NaN of theirs is counted apart."""
    there, here = np.array(stored["values"], dtype=float), table.to_numpy(dtype=float)
    if there.shape != here.shape:  # ours has rows more
        here = table.loc[[tuple(key) for key in stored["names"][0]]].to_numpy(dtype=float)
    bad = np.isnan(there)
    bad_rows = bad.any(axis=-1) if bad.ndim == 2 else bad
    text = f"{np.abs(there - here)[~bad].max(initial=0.0):.1g}"
    return f"{text} ({bad_rows.sum()} rows NaN there)" if bad.any() else text


def same_names(stored: dict[str, Any], table: Any) -> bool:
    """Whether index, columns, their names and their order are the same."""
    axes = [table.index, table.columns] if table.ndim == 2 else [table.index]
    names = [[list(k) if isinstance(k, tuple) else k for k in axis.tolist()] for axis in axes]
    titles = [getattr(table, "name", None), *(list(axis.names) for axis in axes)]
    return bool(stored["names"] == names and stored["titles"] == titles)


def loss(stored: dict[str, Any] | None, history: list[float] | None) -> str:
    """Largest difference of the loss, and the iterations where they are not as many."""
    if stored is None or history is None:
        return "–"
    if len(stored["values"]) != len(history):
        return f"{len(stored['values'])} it. there, {len(history)} here"
    return f"{np.abs(np.array(stored['values']) - history).max():.1g} ({len(history)} it.)"


def differing(stored: dict[str, Any], ours: Any) -> str:
    """How many labels differ, and how many of these where our shares are tied."""
    off = np.array(stored["values"], dtype=float) != ours.labels_.to_numpy()
    if not (off.any() and hasattr(ours, "probas_")):
        return str(off.sum())
    best = np.sort(ours.probas_.to_numpy(), axis=1)
    tied = best[:, -1] - best[:, -2] <= SAME
    return f"{off.sum()} ({(off & tied).sum()})"


if __name__ == "__main__":
    main()
