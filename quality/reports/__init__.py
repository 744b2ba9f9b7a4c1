"""Reports for a campaign's owner: workers, tasks, agreement, times, and the next labels.

:func:`worker_report` and :func:`task_report` gather everything about each worker and each task.
:func:`krippendorff_alpha` and :func:`pairwise_agreement` measure how far labels agree,
:func:`accuracy` compares a consensus with gold, and :func:`response_times` finds labels given too
quickly. :func:`next_labels` ranks tasks by uncertainty; :func:`plan_labels` chooses workers and tasks
under a budget.

>>> from quality import encode
>>> labels = encode(["ann", "bob"] * 4, [1, 1, 2, 2, 3, 3, 4, 4], list("xxyyxxyx"))
>>> round(krippendorff_alpha(labels), 3)
0.533

``CrowdSums``, ``crowd_sums`` and ``report_of`` make the worker report of a table in shards.
"""

from quality.reports.agreement import (
    Accuracy,
    CrowdSums,
    PairwiseAgreement,
    accuracy,
    agreement_rows,
    crowd_sums,
    krippendorff_alpha,
    pairwise_agreement,
    wilson_interval,
    worker_agreement,
)
from quality.reports.label_plan import LabelPlan, plan_labels
from quality.reports.tasks import (
    DECIMALS,
    NextLabels,
    TaskReport,
    next_labels,
    posterior_entropy,
    rank_tasks,
    task_report,
)
from quality.reports.timing import ResponseTimes, response_times
from quality.reports.workers import WorkerReport, report_of, worker_report

__all__ = [
    "DECIMALS", "Accuracy", "CrowdSums", "LabelPlan", "NextLabels", "PairwiseAgreement",
    "ResponseTimes", "TaskReport", "WorkerReport", "accuracy", "agreement_rows", "crowd_sums",
    "krippendorff_alpha", "next_labels", "pairwise_agreement", "plan_labels", "posterior_entropy",
    "rank_tasks", "report_of", "response_times", "task_report", "wilson_interval",
    "worker_agreement", "worker_report",
]  # fmt: skip
