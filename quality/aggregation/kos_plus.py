"""KOS+: message passing for crowds in which a few workers give most of the labels."""

import numpy as np

from quality.aggregation.kos_messages import MessagePassing, pass_messages
from quality.labels.table import CrowdLabels
from quality.progress import Progress

__all__ = ["kos_plus"]


def kos_plus(
    labels: CrowdLabels,
    *,
    max_iter: int = 100,
    tol: float = 1e-6,
    rng: np.random.Generator,
    threads: int | None = None,
    progress: Progress | None = None,
) -> MessagePassing:
    """Weigh every label by what the worker's other labels say about her, label for label.

    :func:`quality.aggregation.kos_messages.kos` with messages that do not grow with the degrees. What a worker says is
    divided by her number of labels: a mean, so having many gives her no louder voice. What a task
    says is divided by the square root of its number of labels, by which a sum of guesses grows.

    Parameters
    ----------
    labels
        The crowd's labels.
    max_iter
        At most so many iterations, at least 1.
    tol
        Stop when the workers' totals move by no more than this, messages being scaled to unit
        length, at least 0.
    rng
        Source of the messages that workers begin with: normal, mean 1, standard deviation 1.
    threads
        At most so many; all cores if None.
    progress
        Told after every iteration: see :data:`quality.progress.Progress`.

    Returns
    -------
    MessagePassing
        Not reaching `tol` is told in ``converged``; it is not an error.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    **Guarantees.** Where all workers have equally many labels, and all tasks, it gives KOS's
    labels. Tasks without labels are tied between all classes and change nothing else. Where nobody
    confirms or denies what a task's workers say elsewhere, their labels count alike. The same
    generator gives the same bytes, on any number of threads.

    **Limits.** As :func:`quality.aggregation.kos_messages.kos`, but for the busiest workers' weight. Errors that most
    of the crowd shares are believed, as by a majority vote.

    **Cost.** As :func:`quality.aggregation.kos_messages.kos`.

    References
    ----------
    .. [1] Karger, Oh, Shah, "Iterative learning for reliable crowdsourcing systems", NIPS 2011.
    .. [2] Jagabathula, Subramanian, Venkataraman, "Reputation-based worker filtering in
       crowdsourcing", NIPS 2014, section 4: KOS+, which names the normalisation and gives no
       formula; this one gives the figures of its table 1 (``benchmarks.quality.kos_normalisations``).

    Examples
    --------
    >>> from quality import encode
    >>> workers, tasks = ["ann", "bob", "cy", "dan"] * 4, np.repeat([1, 2, 3, 4], 4)
    >>> labels = encode(workers, tasks, list("aaabbbbbaaabbbbb"))
    >>> result = kos_plus(labels, rng=np.random.default_rng(0))
    >>> labels.classes[result.label]
    array(['a', 'b', 'a', 'b'], dtype='<U1')
    """
    task_scale = 1.0 / np.sqrt(np.maximum(np.diff(labels.task_start), 1))
    worker_scale = 1.0 / np.maximum(np.diff(labels.worker_start), 1)
    return pass_messages(
        labels, "KOS+", task_scale, worker_scale, max_iter=max_iter, tol=tol, rng=rng,
        threads=threads, progress=progress,
    )  # fmt: skip
