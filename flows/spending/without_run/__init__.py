"""What commands ask of the ledger without a run: answers about candidates, shares of labels and of wins.

Each has a campaign, which its first call declares, and a state folder that is kept from call to call.
"""

from typing import TYPE_CHECKING

from flows.faces import late_face

if TYPE_CHECKING:
    from flows.spending.without_run.campaign_terms import PublicationTerms
    from flows.spending.without_run.candidates import (
        CandidateVerdict,
        GateTerms,
        ask_candidates,
    )
    from flows.spending.without_run.set_shares import SetShares, publish_set_shares
    from flows.spending.without_run.win_shares import (
        WinShares,
        check_rank_level,
        publish_win_shares,
    )

__all__ = [
    "CandidateVerdict", "GateTerms", "PublicationTerms", "SetShares", "WinShares", "ask_candidates",
    "check_rank_level", "publish_set_shares", "publish_win_shares",
]  # fmt: skip

__getattr__, __dir__ = late_face(__name__)
