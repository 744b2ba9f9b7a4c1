"""What a fit found, as where the next one may start."""

from typing import TypeAlias

import numpy as np
from jaxtyping import Bool

from quality.aggregation.dawid_skene_em import DawidSkene
from quality.aggregation.em_start import EMStart
from quality.aggregation.hierarchical_em import HierarchicalDawidSkene
from quality.aggregation.one_coin import OneCoin
from quality.labels.table import CrowdLabels
from quality.reports.label_plan import one_coin_confusion

__all__ = ["Fit", "start_from"]

Fit: TypeAlias = DawidSkene | HierarchicalDawidSkene | OneCoin


def start_from(
    labels: CrowdLabels,
    fit: Fit,
    *,
    labelled: Bool[np.ndarray, " workers"] | None = None,
) -> EMStart:
    """Return what a fit believed of the workers who have labels, for a later fit's `start`.

    Parameters
    ----------
    labels
        What was fitted.
    fit
        What :func:`~quality.dawid_skene` or its kin found.
    labelled
        Who has labels, where `labels` holds the names alone; by its rows if None.

    Notes
    -----
    **Guarantees.** A worker without labels is unknown to it.

    Examples
    --------
    >>> from quality import dawid_skene, encode
    >>> workers, tasks = ["ann", "bob", "cy"] * 4, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    >>> labels = encode(workers, tasks, list("aabbbbaabbbb"))
    >>> start = start_from(labels, dawid_skene(labels))
    >>> more = encode(["dee", *workers], [4, *tasks], list("baabbbbaabbbb"))
    >>> dawid_skene(more).n_iter, dawid_skene(more, start=start).n_iter
    (7, 2)
    """
    known = np.diff(labels.worker_start) > 0 if labelled is None else labelled
    confusion = (
        one_coin_confusion(fit.reliability, max(labels.n_classes, 2))
        if isinstance(fit, OneCoin)
        else fit.confusion
    )
    shown = confusion[known, : labels.n_classes, : labels.n_classes]
    return EMStart(labels.workers[known], labels.classes.view(), fit.prior, shown)
