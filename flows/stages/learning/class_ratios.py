"""Class ratios of the unlabelled groups, from published proportions and features alone.

Up to `WHOLE_ROWS` rows in memory the method is the one that predicts the labelled groups best. Beyond, every
method takes minutes, and kernel mean matching is used. Of more than `MAX_ROWS` rows an even part is used,
whose sampling error is part of the intervals. Features in a folder are streamed a block at a time, here or
by Dask, by kernel mean matching.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int

from flows.run import Crowd, Run, load_crowd
from flows.settings import EngineSettings, PrivacySettings, Settings
from flows.sharding import FeatureFolder, FeaturePasses, Mapper, open_mapper, stored
from flows.spending import count_noise
from flows.stages.ordered_classes import with_cumulative_shares
from flows.stages.publication import why_no_release
from flows.stages.stage import counted
from flows.tables import arrow_table, numpy_array
from learners import ClassRatio, learn_ratios, learn_streamed_ratios
from privacy.accounting import level_text
from quality import Progress
from quality.shares import CumulativeShares, cumulative_band, unmixed_shares

__all__ = ["Published", "estimate_ratios", "published_in", "ratios_verdict", "why_no_features"]


WHOLE_ROWS = 20_000
MAX_ROWS = 50_000
MIN_TASKS = 2  # of a group: of one, features have no spread


def estimate_ratios(run: Run) -> str:
    """Estimate the class ratios of the groups without labels from what was released."""
    run.waits_for("the campaign as it was read")
    crowd = load_crowd(run.folder)
    published = published_in(run, crowd)
    if isinstance(published, str):
        return run.skip("class_ratios.json", published)
    with _learner(run, crowd) as learn:
        try:
            found, sizes = learn(published)
        except ValueError as error:  # groups that do not separate the classes, or one without
            return run.skip("class_ratios.json", _in_words(error))  # two tasks: public facts
    return _write_ratios(run, crowd, published, found, sizes)


def _in_words(error: ValueError) -> str:
    """Return why nothing was learned: a learner's bags are labelled groups, its bandwidth no setting."""
    words = re.sub(r"\bbag(s?)\b", r"labelled group\1", str(error))
    return words.replace(", or give bandwidth", "")


def ratios_verdict(found: dict[str, Any]) -> str:
    """Say how far to trust the class ratios, from `class_ratios.json`."""
    error, level, strange = found["cross_validated_l1"], found["level"], len(found["not_mixtures"])
    line = f"cross-validated L1 error {error:.3f}, intervals at {level_text(level)}"
    return line if not strange else f"{line}; {strange} not a mixture of what was seen"


def why_no_features(crowd: Crowd) -> str | None:
    """Return why nothing can be learned from features, or None."""
    has_none = crowd.tasks is None or not crowd.tasks.feature_names
    return "there are no task features" if has_none else None


def why_internal(settings: Settings) -> str | None:
    """Return why class ratios, which read features in the clear, must not be shown, or None."""
    if settings.privacy is not None and settings.privacy.unit.protects_features:
        return (
            f"the unit '{settings.privacy.unit}' protects the features, which were read in the clear "
            "and not paid for"
        )
    if settings.input.features_private:
        return "the features are private and were read in the clear"
    return None


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """What class ratios are learned from beside the features, and the groups to estimate them for."""

    groups: tuple[str, ...]
    proportions: Float[np.ndarray, "bags classes"]
    noise: Float[np.ndarray, "bags classes classes"]
    unlabelled: Int[np.ndarray, " groups"]
    level: float
    classes: tuple[str, ...]
    corrected: bool = False

    def known(self) -> dict[str, Any]:
        """Return the keyword arguments of a learner."""
        return {"noise": self.noise, "level": self.level, "classes": self.classes}

    def noise_of_parts(
        self, bags: Sequence[np.ndarray], parts: Sequence[np.ndarray]
    ) -> Float[np.ndarray, "bags classes classes"]:
        """Return the noise of the proportions, as those of parts that are drawn without replacement."""
        n, m = (np.array([len(one) for one in some], dtype=np.float64) for some in (bags, parts))
        share = self.proportions
        spread = share[:, :, None] * (np.eye(share.shape[1]) - share[:, None, :])
        drawn: np.ndarray = spread * ((1 - m / n) / m)[:, None, None]
        return np.asarray(self.noise + drawn)


def published_in(run: Run, crowd: Crowd) -> Published | str:
    """Return the run's published proportions and their noise, or why there are no class ratios."""
    unlabelled = np.setdiff1d(np.arange(crowd.group_names.size), crowd.label_group())
    privacy, why_not = run.settings.privacy, why_no_release(run.settings)
    if why_not is None and "skipped" in run.read_json("proportions.json"):
        why_not = "no proportions were published to estimate them from"
    why_not = why_not or why_no_features(crowd)
    if why_not is None and run.settings.input.several is not None:
        why_not = "several classes may hold, and the ratios of classes that exclude each other are estimated"
    if why_not is None and not unlabelled.size:
        why_not = "every group has labels"
    if why_not is None and privacy is not None:
        size = np.bincount(crowd.table.group, minlength=crowd.group_names.size)[unlabelled]
        unlabelled = unlabelled[size >= privacy.min_group_size]
        why_not = None if unlabelled.size else "every group without labels is below min_group_size"
    if privacy is None or why_not is not None:
        return str(why_not)
    table, n_classes = run.read_table("proportions.parquet"), crowd.labels.n_classes
    groups = tuple(table.column("group").to_pylist()[::n_classes])
    if (why_not := _why_too_small(crowd, groups, unlabelled)) is not None:
        return why_not
    size = numpy_array(table.column("n"))[::n_classes].astype(np.float64)
    found = Published(
        groups=groups,
        proportions=numpy_array(table.column("proportion")).reshape(-1, n_classes),
        noise=_noise(run, privacy, n_classes) / np.square(size)[:, None, None],
        unlabelled=unlabelled,
        level=privacy.level,
        classes=tuple(crowd.labels.classes.astype(str).tolist()),
    )
    return _corrected(run, found, size)


def _why_too_small(
    crowd: Crowd, published: Sequence[str], unlabelled: Int[np.ndarray, " groups"]
) -> str | None:
    """Return which group has too few tasks for a spread of features, or None; sizes are public."""
    names = crowd.group_names
    for what, group, codes in (
        ("labelled task", crowd.label_group(), np.searchsorted(names, published)),
        ("task", crowd.table.group, unlabelled),
    ):
        size = np.bincount(group, minlength=names.size)[codes]
        if size.min() < MIN_TASKS:
            name = str(names[codes[size.argmin()]])
            return (
                f"group {name!r} has {size.min()} {what}, and ratios are learned from {MIN_TASKS} or more in "
                f"each; join it to another, or leave it out by privacy.min_group_size = {MIN_TASKS}"
            )
    return None


def _noise(
    run: Run, privacy: PrivacySettings, n_classes: int
) -> Float[np.ndarray, "... classes classes"]:
    """Return the covariance of the noise on each group's counts, which a year adds up over cohorts."""
    variances = run.read_json("proportions.json")["noise"].get("variances")
    if variances is None:
        return count_noise(privacy, n_classes).projected
    on_lattice = n_classes / (n_classes - 1) * (np.eye(n_classes) - 1 / n_classes)
    return np.asarray(np.array(variances)[:, None, None] * on_lattice)


def _corrected(run: Run, published: Published, size: Float[np.ndarray, " bags"]) -> Published:
    """Return the shares corrected by gold of all groups, if the run released a correction."""
    facts = run.read_json("corrected_shares.json")
    if "skipped" in facts:
        return published
    # all groups together
    rows = run.read_table("corrected_shares.parquet")[: len(published.classes)]
    found = unmixed_shares(
        published.proportions, np.broadcast_to(published.noise, (size.size, *published.noise.shape[1:])),
        weight=size, share=numpy_array(rows.column("share")),
        share_covariance=np.array(rows.column("covariance").to_pylist()), wrong=facts["wrong"],
    )  # fmt: skip
    return replace(published, proportions=found.share, noise=found.covariance, corrected=True)


Learned = tuple[list[ClassRatio], list[int]]


@contextmanager
def _learner(run: Run, crowd: Crowd) -> Iterator[Callable[[Published], Learned]]:
    """Yield the function that learns class ratios, from features in memory or in files."""
    run.waits_for("class ratios learned from groups of known shares")
    if crowd.features is None:
        yield partial(_learn_whole, crowd)
        return
    chosen = run.settings.engine or EngineSettings()
    paths = crowd.features.read_by_workers
    with stored(paths, chosen) as store, open_mapper(chosen) as mapper:
        features = replace(crowd.features, store=store)
        yield partial(_learn_streamed, crowd, features, _counted(mapper, run.progress))


def _counted(mapper: Mapper, progress: Progress | None) -> Mapper:
    """Return a mapper that reports, in each pass over the features, how many blocks are done."""
    if progress is None:
        return mapper

    def counted(
        work: Callable[[Any, Any], Any], pieces: Sequence[Any], parameters: Any
    ) -> Iterator[Any]:
        for done, found in enumerate(mapper(work, pieces, parameters), 1):
            progress("a pass over the features", done, len(pieces))
            yield found

    return counted


def _learn_whole(crowd: Crowd, published: Published) -> Learned:
    features, table = crowd.label_features(), crowd.table
    codes = np.searchsorted(crowd.group_names, published.groups)
    new = _rows_by_group(table.features, table.group, published.unlabelled)
    bags = _rows_by_group(features, crowd.label_group(), codes)
    sizes = [len(bag) for bag in new]
    if len(features) <= WHOLE_ROWS:
        model = learn_ratios(bags, published.proportions, **published.known())
        return [model.ratio(bag) for bag in new], sizes
    parts = [_even_part(bag, len(bag) / len(features)) for bag in bags]
    known = published.known() | {"noise": published.noise_of_parts(bags, parts)}
    streamed = learn_streamed_ratios([[part] for part in parts], published.proportions, **known)
    return streamed.ratios([[bag] for bag in new]), sizes


def _rows_by_group(
    rows: Float[np.ndarray, "tasks features"],
    group: Int[np.ndarray, " tasks"],
    codes: Int[np.ndarray, " chosen"],
) -> list[np.ndarray]:
    """Return the rows of each of these groups, in their order; the groups may be as many as the tasks."""
    order = np.argsort(group, kind="stable")
    ends = (np.searchsorted(group, codes, side, sorter=order) for side in ("left", "right"))
    return [rows[order[first:last]] for first, last in zip(*ends, strict=True)]


def _even_part(bag: Float[np.ndarray, "rows features"], share: float) -> np.ndarray:
    """Return a bag's share of `MAX_ROWS` rows, evenly over its rows; two at least, if it has them."""
    wanted = min(len(bag), max(2, round(share * MAX_ROWS)))
    return bag[np.arange(wanted) * len(bag) // wanted] if wanted else bag


def _learn_streamed(
    crowd: Crowd, features: FeatureFolder, mapper: Mapper, published: Published
) -> Learned:
    size, labelled = features.bags()
    first = np.cumsum(size) - size
    known = np.searchsorted(crowd.group_names, published.groups)
    bags = [(int(first[code]), int(first[code] + labelled[code])) for code in known]
    passes = FeaturePasses(features, bags, mapper)
    model = learn_streamed_ratios(passes, published.proportions, **published.known())
    new = [(int(first[code]), int(first[code] + size[code])) for code in published.unlabelled]
    found = model.ratios(FeaturePasses(features, new, mapper))
    return found, size[published.unlabelled].tolist()


def _write_ratios(
    run: Run, crowd: Crowd, published: Published, found: list[ClassRatio], sizes: list[int]
) -> str:
    """Write the unlabelled groups' class ratios, and say how far to trust them."""
    names = crowd.group_names[published.unlabelled].astype(str).tolist()
    ratios = dict(zip(names, found, strict=True))
    table = _ratio_table(list(published.classes), ratios, sizes)
    if run.settings.input.order:
        table = with_cumulative_shares(table, [_band(one) for one in found])
    run.write_table("class_ratios.parquet", table)
    first, streamed, why = found[0], crowd.features, why_internal(run.settings)
    method = first.method if streamed is None else f"{first.method} of streamed features"
    error = first.diagnostics.error_left_out
    run.write_json(
        "class_ratios.json",
        {
            "method": method,
            "bandwidth": first.bandwidth,
            "level": first.level,
            "cross_validated_l1": error,
            "corrected": published.corrected,
            "warnings": sorted({text for one in found for text in one.diagnostics.warnings}),
            "not_mixtures": [name for name, one in ratios.items() if one.interval is None],
            "public": why is None,
            "why_internal": why,
        },
    )
    how = "" if streamed is None else f", by {method}"
    how += ", from shares corrected by gold" if published.corrected else ""
    kept = "" if why is None else f"; internal: {why}"
    return f"{counted(len(found), 'unlabelled group')}, cross-validated L1 error {error:.3f}{how}{kept}"


def _band(found: ClassRatio) -> CumulativeShares:
    """Return the cumulative ratios of ordered classes; without a band where a ratio has no interval."""
    unknown = np.full((found.ratio.size - 1, 2), np.nan)
    return cumulative_band(found.ratio, *(unknown if found.at_most is None else found.at_most).T)


def _ratio_table(classes: list[str], found: dict[str, ClassRatio], sizes: list[int]) -> pa.Table:
    """Return a row per unlabelled group and class; one that is no mixture of the classes has no interval."""
    none = np.full((len(classes), 2), np.nan)
    intervals = np.concatenate(
        [none if one.interval is None else one.interval for one in found.values()]
    )
    return arrow_table(
        {
            "group": [name for name in found for _ in classes],
            "class": classes * len(found),
            "n": np.repeat(sizes, len(classes)),
            "ratio": np.concatenate([one.ratio for one in found.values()]),
            "low": intervals[:, 0],
            "high": intervals[:, 1],
            "fit": np.repeat([one.diagnostics.fit for one in found.values()], len(classes)),
        }
    )
