"""Class ratios of the groups that nobody labelled, from published proportions and features alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int

from flows.run.crowd import Crowd
from flows.run.store import Run
from flows.spending.releases import count_noise
from flows.stages.reading import load
from flows.stages.skipping import skip, why_no_features, why_nothing_leaves
from flows.tables import arrow_table, numpy_array
from learners import ClassRatio, learn_ratios

__all__ = ["Published", "estimate_ratios", "published_in", "write_ratios"]


def estimate_ratios(run: Run) -> str:
    """Class ratios of the groups that nobody labelled, from published proportions and features alone."""
    crowd = load(run)
    published = published_in(run, crowd)
    if isinstance(published, str):
        return skip(run, "class_ratios.json", published)
    features, group, table = crowd.label_features(), crowd.label_group(), crowd.table
    codes = np.searchsorted(crowd.group_names, published.groups)
    new = [table.features[table.group == code] for code in published.unlabelled]
    try:
        model = learn_ratios(
            [features[group == code] for code in codes],
            published.proportions,
            noise=published.noise,
            level=published.level,
            classes=published.classes,
        )
        found = [model.ratio(bag) for bag in new]
    except (
        ValueError
    ) as error:  # groups that cannot tell the classes apart, or one without two tasks:
        return skip(run, "class_ratios.json", str(error))  # public facts, as they are
    return write_ratios(run, crowd, published, found, [len(bag) for bag in new])


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """What class ratios are learned from, but for the features; and the groups to be told of."""

    groups: tuple[str, ...]
    proportions: Float[np.ndarray, "bags classes"]
    noise: Float[np.ndarray, "bags classes classes"]
    unlabelled: Int[np.ndarray, " groups"]
    level: float
    classes: tuple[str, ...]


def published_in(run: Run, crowd: Crowd) -> Published | str:
    """The run's published proportions and their noise; or why there are no class ratios."""
    unlabelled = np.setdiff1d(np.arange(crowd.group_names.size), crowd.label_group())
    privacy, why_not = run.settings.privacy, why_nothing_leaves(run.settings)
    why_not = why_not or why_no_features(crowd)
    if why_not is None and not unlabelled.size:
        why_not = "every group has labels"
    if privacy is None or why_not is not None:
        return str(why_not)
    table, n_classes = run.read_table("proportions.parquet"), crowd.labels.n_classes
    size = numpy_array(table.column("n"))[::n_classes].astype(np.float64)
    return Published(
        groups=tuple(table.column("group").to_pylist()[::n_classes]),
        proportions=numpy_array(table.column("proportion")).reshape(-1, n_classes),
        noise=count_noise(privacy, n_classes).projected / np.square(size)[:, None, None],
        unlabelled=unlabelled,
        level=privacy.level,
        classes=tuple(crowd.labels.classes.astype(str).tolist()),
    )


def write_ratios(
    run: Run,
    crowd: Crowd,
    published: Published,
    found: list[ClassRatio],
    sizes: list[int],
    *,
    streamed: bool = False,
) -> str:
    """Write the unlabelled groups' class ratios, and say how far to trust them."""
    names = crowd.group_names[published.unlabelled].astype(str).tolist()
    ratios = dict(zip(names, found, strict=True))
    run.write_table("class_ratios.parquet", _ratio_table(list(published.classes), ratios, sizes))
    first, private = found[0], run.settings.input.features_private
    method = f"{first.method} of streamed features" if streamed else first.method
    run.write_json(
        "class_ratios.json",
        {
            "method": method,
            "bandwidth": first.bandwidth,
            "level": first.level,
            "cross_validated_l1": first.diagnostics.error_left_out,
            "warnings": sorted({text for one in found for text in one.diagnostics.warnings}),
            "public": not private,
            "why_internal": "the features are private and were read in the clear"
            if private
            else None,
        },
    )
    how = f", by {method}" if streamed else ""
    error = first.diagnostics.error_left_out
    return f"{len(found)} unlabelled groups, cross-validated L1 error {error:.3f}{how}"


def _ratio_table(classes: list[str], found: dict[str, ClassRatio], sizes: list[int]) -> pa.Table:
    """One row per unlabelled group and class."""
    intervals = np.concatenate([one.interval for one in found.values()])
    return arrow_table(
        {
            "group": [name for name in found for _ in classes],
            "class": classes * len(found),
            "n": np.repeat(sizes, len(classes)),
            "ratio": np.concatenate([one.ratio for one in found.values()]),
            "low": intervals[:, 0],
            "high": intervals[:, 1],
        }
    )
