"""What a campaign pays for: its account in the ledger, the releases of a run, and their prices beforehand.

`plan_releases` is where a quality statistic becomes a privacy query; `open_account` opens the ledger
that pays for it; `preview` prices a run from public numbers alone.
"""

from typing import TYPE_CHECKING

from flows.faces import late_face

if TYPE_CHECKING:
    from flows.spending.account import (
        LEDGER_URL,
        LedgerSetBack,
        existing_ledger,
        known_statement,
        numbers,
        open_account,
        open_state,
        paying,
        read_statements,
        statement,
    )
    from flows.spending.audit import as_numbers, claimed, outcome, trial
    from flows.spending.bounded_counts import SET_THRESHOLD
    from flows.spending.corrections import (
        Correction,
        GoldProposal,
        gold_needed,
        plan_correction,
        propose_gold,
        split_price,
        why_not_corrected,
    )
    from flows.spending.noise_choice import CountNoise, count_noise
    from flows.spending.partitions import grow_partition
    from flows.spending.prices import check_budget, preview, propose_key
    from flows.spending.releases import (
        Learning,
        Plan,
        plan_learning,
        plan_releases,
        published_group_sizes,
        published_size,
        with_grown_partition,
    )
    from flows.spending.without_run import (
        CandidateVerdict,
        GateTerms,
        PublicationTerms,
        SetShares,
        WinShares,
        ask_candidates,
        check_rank_level,
        publish_set_shares,
        publish_win_shares,
    )
    from flows.spending.year import (
        Year,
        dearest,
        price_of,
        split_budget,
        year_months,
        year_of,
    )
    from flows.spending.year_releases import (
        HOLDOUT,
        TRAINING,
        VALIDATION,
        CohortRows,
        YearReleases,
        learning_features,
        plan_year,
    )

__all__ = [
    "HOLDOUT", "LEDGER_URL", "SET_THRESHOLD", "TRAINING", "VALIDATION", "CandidateVerdict",
    "CohortRows", "Correction", "CountNoise", "GateTerms", "GoldProposal", "Learning", "LedgerSetBack",
    "Plan", "PublicationTerms", "SetShares", "WinShares", "Year", "YearReleases", "as_numbers",
    "ask_candidates", "check_budget", "check_rank_level", "claimed", "count_noise",
    "dearest", "existing_ledger", "gold_needed", "grow_partition", "known_statement",
    "learning_features", "numbers", "open_account", "open_state", "outcome", "paying",
    "plan_correction", "plan_learning", "plan_releases", "plan_year", "preview", "price_of",
    "propose_gold", "propose_key", "publish_set_shares", "publish_win_shares", "published_group_sizes",
    "published_size", "read_statements", "split_budget", "split_price", "statement", "trial",
    "why_not_corrected", "with_grown_partition", "year_months", "year_of",
]  # fmt: skip

__getattr__, __dir__ = late_face(__name__)
