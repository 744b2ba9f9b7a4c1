"""The labels of a campaign behind one door: whole in memory, or in shards; or its sets of classes.

`open_labels` opens them, and stages ask the same of both. `open_answers` opens sets as well, to judge
the workers.
"""

from typing import TYPE_CHECKING

from flows.faces import late_face

if TYPE_CHECKING:
    from flows.stages.labels.campaign_labels import (
        CampaignLabels,
        WorkerLabels,
        open_answers,
        open_labels,
    )
    from flows.stages.labels.set_labels import answers_of, set_agreement, set_consensus
    from flows.stages.labels.sharded_labels import refuse_whole_filter
    from flows.stages.labels.whole_labels import Aggregated, Groups, filter_by, rate_of

__all__ = [
    "Aggregated", "CampaignLabels", "Groups", "WorkerLabels", "answers_of", "filter_by", "open_answers",
    "open_labels", "rate_of", "refuse_whole_filter", "set_agreement", "set_consensus",
]  # fmt: skip

__getattr__, __dir__ = late_face(__name__)
