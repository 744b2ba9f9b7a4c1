"""The labels of a campaign behind one door: whole in memory, or in shards.

`open_labels` opens them, and stages ask the same of both.
"""

from typing import TYPE_CHECKING

from flows.faces import late_face

if TYPE_CHECKING:
    from flows.stages.labels.campaign_labels import CampaignLabels, open_labels
    from flows.stages.labels.whole_labels import Aggregated, Groups, filter_by

__all__ = ["Aggregated", "CampaignLabels", "Groups", "filter_by", "open_labels"]

__getattr__, __dir__ = late_face(__name__)
