"""Kernels: the loops that numba compiles when they are first called, where they are kept, and all at once.

>>> notice() is None  # kept for good, so that there is nothing to say
True
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from flows.choices import LABEL_COLUMNS

if TYPE_CHECKING:
    from quality import CrowdLabels, Progress

__all__ = ["compile_kernels", "notice", "where_kept"]

ROOMS = ("quality", "learners", "flows")
SHARD = 8_000  # labels: several shards of the sample
N_LABELS, N_WORKERS = 40_000, 50  # enough rows for the readers of large tables
NEURONS = """
include hodgkin_huxley.g
include connor_stevens.g
make_hh /one
make_cs /two
foreach cell (one two)
  create passive_compartment /{cell}/dendrite
  create synapse /{cell}/dendrite/synapse
  create axon /{cell}/axon
  link /{cell}/dendrite to /{cell}
  link /{cell}/dendrite/synapse to /{cell}/dendrite
  link /{cell} to /{cell}/axon
end
connect /one/axon to /two/dendrite/synapse -weight 1 -delay 3
connect /two/axon to /one/dendrite/synapse -weight 1 -delay 3
set /one inject 15
"""


def where_kept() -> str:
    """Return the sentence about where compiled kernels are kept."""
    from quality.parallel import kernel_folders  # numba, which `--help` need not load

    folders = kernel_folders()
    if folders.write is None:
        return "no folder can be written, so they are not kept: set NUMBA_CACHE_DIR"
    beside = folders.write.name == "__pycache__"
    return "kept beside the source" if beside else f"kept in {folders.write.parent}"


def notice() -> str | None:
    """Return a notice about compiled kernels; empty where they are kept permanently."""
    parallel = sys.modules.get("quality.parallel")
    if parallel is None:
        return None
    folders = parallel.kernel_folders()
    if folders.temporary:
        return (
            f"compiled kernels are kept among the temporary files, in {folders.write}: set "
            "NUMBA_CACHE_DIR to a folder of your own to keep them for good"
        )
    if folders.write is None and not folders.read:
        return (
            "no folder can keep compiled kernels, so every command compiles them anew: set "
            "NUMBA_CACHE_DIR to a folder of your own"
        )
    return None


def compile_kernels(progress: Progress | None = None) -> int:
    """Run the sample, whole and in shards, every reader, penalty, aggregator and estimator.

    Compare workers, take sets and preferences, watch labels, map concepts, simulate crowds and neurons
    too. Return how many kernels were compiled.

    What is compiled depends on the types that a kernel is called with, so the kernels are called as
    runs call them, and not from a list that could fall behind.
    """
    before = _n_compiled()
    with TemporaryDirectory() as folder:
        works: list[tuple[str, Callable[[], object]]] = [
            ("a run", partial(_run_sample, Path(folder, "sample"))),
            ("a run on shards", partial(_run_sharded, Path(folder, "sharded"))),
            ("reading", partial(_read_parquet, Path(folder, "labels.parquet"))),
            ("simulated crowds", partial(_simulate, Path(folder, "crowd"))),
            ("EM", _fit_em),
            *((f"aggregators, {k} classes", partial(_aggregate, _some_labels(k))) for k in (2, 3)),
            ("very many classes", _name_classes),
            ("penalties", partial(_penalize, _some_labels(2))),
            ("estimators", partial(_fit_crowdkit, _some_labels(2))),
            ("workers compared", _judge),
            ("labels watched", _watch),
            ("concepts", _map_concepts),
            ("neurons", _simulate_neurons),
        ]
        for done, (what, work) in enumerate(works):
            if progress is not None:
                progress(f"kernels: {what}", done, len(works))
            work()
    return _n_compiled() - before


def _fit_em() -> None:
    from quality import dawid_skene, one_coin_dawid_skene  # numba, for `warm` only

    for n_classes in range(2, 10):  # passes and steps are compiled for each number up to eight
        for fit in (dawid_skene, one_coin_dawid_skene):
            fit(_some_labels(n_classes))


def _run_sample(folder: Path) -> None:
    from flows.pipeline import run_pipeline  # all rooms, for `warm` only
    from flows.settings import load_settings
    from flows.simulate import copy_sample

    run_pipeline(load_settings(copy_sample(folder)))


def _run_sharded(folder: Path) -> None:
    """Run the sample with an engine, which reads Parquet and filters by a share of the workers."""
    import pyarrow.parquet as pq  # heavy, for `warm` only
    from pyarrow import csv

    from flows.pipeline import run_pipeline
    from flows.settings import load_settings
    from flows.simulate import copy_sample

    path = copy_sample(folder)
    for table in folder.glob("*.csv"):
        pq.write_table(csv.read_csv(table), table.with_suffix(".parquet"))
    text = path.read_text(encoding="utf-8").replace(".csv", ".parquet")
    text = text.replace("false_removal_rate = 0.1", "fraction = 0.1")
    path.write_text(f"{text}\n[engine]\nshard_labels = {SHARD}\n", encoding="utf-8")
    run_pipeline(load_settings(path))


def _some_labels(n_classes: int) -> CrowdLabels:
    import numpy as np  # heavy, for `warm` only

    from quality import encode

    rng = np.random.default_rng(0)
    worker, task = np.divmod(np.arange(600), 60)
    return encode(worker, task, (task + (rng.random(600) < 0.3)) % n_classes)


def _aggregate(labels: CrowdLabels) -> None:
    """Call every aggregator that takes so many classes."""
    from flows.aggregators import AGGREGATORS, consensus_of  # for `warm` only
    from flows.settings import ConsensusSettings

    for name in AGGREGATORS:
        chosen = ConsensusSettings.model_validate({"aggregator": name})
        with contextlib.suppress(ValueError):  # some take two classes alone
            consensus_of(labels, chosen, seed=0)


def _name_classes() -> None:
    """Call the aggregators for very many classes."""
    from quality import many_classes  # numba, for `warm` only

    labels = _some_labels(3)
    for name in many_classes.__all__:
        if name.endswith("_of_named") and name != "weighted_of_named":  # which takes weights
            getattr(many_classes, name)(labels)


def _penalize(labels: CrowdLabels) -> None:
    """Filter by every penalty, by distances of ordered classes, and by shards."""
    # numba, for `warm` only
    import numpy as np

    from quality import (
        LocalEngine,
        balanced_penalty,
        cut_labels,
        filter_dishonest,
        filter_dishonest_by_shards,
        filter_workers,
        graded_penalty,
        hard_level,
        soft_penalty,
    )

    for penalty in (balanced_penalty, graded_penalty, hard_level, soft_penalty):
        filter_workers(labels, penalty=penalty, n_workers=1)
    filter_dishonest(_some_labels(3), ordered=True, rng=np.random.default_rng(0))
    engine = LocalEngine(cut_labels(labels, [0, labels.n_tasks]))
    filter_dishonest_by_shards(engine, labels.tasks, rng=np.random.default_rng(0))


def _fit_crowdkit(labels: CrowdLabels) -> None:
    """Fit every estimator with crowd-kit's names."""
    # heavy, for `warm` only
    import pandas as pd  # type: ignore[import-untyped]

    from flows import crowdkit

    answers = pd.DataFrame({name: getattr(labels, name) for name in LABEL_COLUMNS})
    gold = answers.groupby("task")["label"].first()
    sets = answers.assign(label=[[label] for label in answers["label"]])
    pairs = pd.DataFrame(
        {"worker": 0, "left": list("aaab"), "right": list("bbba"), "label": list("aaba")}
    )
    for name in crowdkit.__all__:
        estimator = getattr(crowdkit, name)
        if name == "BradleyTerry":  # as crowd-kit has it, without a default
            estimator(n_iter=10).fit(pairs)
        elif name == "NoisyBradleyTerry":
            estimator().fit(pairs)
        elif name == "BinaryRelevance":
            estimator().fit(sets)
        else:
            estimator().fit(answers, *([gold] if name == "GoldMajorityVote" else []))


def _judge() -> None:
    """Compare workers, as `agreement` does, and renumber them, as fits to many do.

    Take sets as `multilabel`, preferences as `rank` does.
    """
    # numba, for `warm` only
    from quality import (
        crowd_bradley_terry,
        encode_comparisons,
        encode_multilabels,
        multilabel_consensus,
        pair_kappas,
        set_alpha,
    )
    from quality.labels import order_by_votes, walk_near

    pair_kappas(_some_labels(2))
    for bring in (order_by_votes, walk_near):
        bring(_some_labels(2))
    given = list("abc") * 4, list("qqqrrrsssttt"), [["x"], ["x", "y"], ["y"]] * 4
    sets = encode_multilabels(*given)
    for shown in (None, {"q": ["x", "y"]}):
        multilabel_consensus(encode_multilabels(*given, shown=shown))
    for metric in ("masi", "jaccard"):
        set_alpha(sets, metric)
    crowd_bradley_terry(
        encode_comparisons(list("wwvvuu"), list("abcabc"), list("bcabca"), list("abcabc"))
    )


def _watch() -> None:
    """Watch some labels."""
    from flows.watching import LabelRows, LabelWatcher  # numba, for `warm` only

    watcher = LabelWatcher()
    task = [str(row // 4) for row in range(40)]
    watcher.take(LabelRows(list("abcd") * 10, task, list("yyn" * 14)[:40], [0.0] * 40, [1.0] * 40))
    watcher.consensus()


def _map_concepts() -> None:
    """Learn the concepts of some texts, as a run with `[topics]` does."""
    import numpy as np  # heavy, for `warm` only
    from sklearn.feature_extraction.text import CountVectorizer

    from learners import GraphLDA

    texts = ["purr whisker kitten", "bark leash puppy", "gill reef scale"] * 10
    names = np.full(len(texts), None, dtype=object)
    names[:2] = ["cat", "dog"]
    counts = CountVectorizer().fit_transform(texts)
    for y in (names, None):  # where no task is confident none has a name
        model = GraphLDA((1, 3, 2), random_state=0, n_iter=4, burn_in=2, n_samples=1)
        model.fit(counts, y).transform(counts)
    model.score(counts)
    GraphLDA((1, 2), sampler="conditional", random_state=0, n_iter=2, burn_in=1, n_samples=1).fit(
        counts
    )


def _simulate(folder: Path) -> None:
    """Simulate a crowd from a script, and campaigns for the number of labels."""
    from flows.power import Crowd, labels_needed  # numba, for `warm` only
    from flows.simulate import write_scripted

    write_scripted(folder, Path("copiers.g"), seed=1)
    labels_needed(Crowd(goal=0.6, tasks=20, workers=5, most=3), campaigns=2)


def _simulate_neurons() -> None:
    """Step two cells, one with each library's channels, that excite one another."""
    import numpy as np  # heavy, for `warm` only

    from learners.genesis import Simulation

    sim = Simulation(rng=np.random.default_rng(0))
    sim.script(NEURONS, name="neurons")
    sim.step(300)  # beyond its first spike


def _read_parquet(path: Path) -> None:
    """Read a large table of Parquet, whose names are text and whose names are numbers."""
    import pyarrow as pa  # heavy, for `warm` only
    import pyarrow.parquet as pq

    from flows.tables import read_labels

    code = range(N_LABELS)
    worker, task = [row % N_WORKERS for row in code], [row // 2 for row in code]
    label = ["yes" if row % 3 else "no" for row in code]
    names = [f"{number % 9}-{number:012}" for number in task]  # many that begin alike
    for columns in ((worker, task), (list(map(str, worker)), names)):
        pq.write_table(pa.table({"worker": columns[0], "task": columns[1], "label": label}), path)
        read_labels(path, classes=None, duplicates="error", known_tasks=None)


def _n_compiled() -> int:
    """Return how many kernels, by signature, this process has compiled."""
    return sum(sum(one.stats.cache_misses.values()) for one in _kernels())


def _kernels() -> list[Any]:
    """Return the kernels of the modules that are loaded, each once."""
    from numba.core.dispatcher import Dispatcher  # numba, for `warm` only

    modules = [value for name, value in list(sys.modules.items()) if name.startswith(ROOMS)]
    kernels = {
        id(value): value
        for module in modules
        for value in list(vars(module).values())
        if isinstance(value, Dispatcher)
    }
    return list(kernels.values())
