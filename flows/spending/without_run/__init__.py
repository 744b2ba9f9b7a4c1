"""What commands ask of the ledger without a run: answers about candidates, shares of several labels.

Each has a campaign, which its first call declares, and a state folder that is kept from call to call.
"""

from typing import TYPE_CHECKING

from flows.faces import late_face

if TYPE_CHECKING:
    from flows.spending.without_run.candidates import (
        CandidateVerdict,
        GateTerms,
        ask_candidates,
    )
    from flows.spending.without_run.set_shares import SetShares, ShareTerms, publish_set_shares

__all__ = [
    "CandidateVerdict", "GateTerms", "SetShares", "ShareTerms", "ask_candidates",
    "publish_set_shares",
]  # fmt: skip

__getattr__, __dir__ = late_face(__name__)
