"""A run on the disk: its folder and manifest, the campaign it has read, and the runs before it.

`open_run` starts a `Run` or goes on with one that died; `load_crowd` reads the campaign; `trend` and
`start_of` look at the runs before.
"""

from typing import TYPE_CHECKING

from flows.faces import late_face

if TYPE_CHECKING:
    from flows.run.comparison import Change, RunChanges, compare_runs
    from flows.run.crowd import FEATURES, Crowd, load_crowd, save_crowd
    from flows.run.history import (
        begun_from,
        complete_runs,
        keep_fit,
        ledger_heads,
        start_of,
        trend,
        unchanged_run,
    )
    from flows.run.listing import (
        LAST_FAILURE,
        ListedRun,
        forget_failure,
        last_failure,
        list_runs,
        note_failure,
        refuse_unfinished,
        why_begun_anew,
    )
    from flows.run.retention import limit_of, prune_runs, runs_to_prune
    from flows.run.store import (
        MANIFEST,
        PARTIAL,
        Run,
        code_version,
        digest_key,
        find_unfinished,
        has_digest_key,
        identity_of,
        open_run,
        publication_now,
        unfinished_runs,
    )

__all__ = [
    "FEATURES", "LAST_FAILURE", "MANIFEST", "PARTIAL", "Change", "Crowd", "ListedRun", "Run",
    "RunChanges", "begun_from", "code_version", "compare_runs", "complete_runs", "digest_key",
    "find_unfinished", "forget_failure", "has_digest_key", "identity_of", "keep_fit",
    "last_failure", "ledger_heads", "limit_of", "list_runs", "load_crowd", "note_failure",
    "open_run", "prune_runs", "publication_now", "refuse_unfinished", "runs_to_prune", "save_crowd",
    "start_of", "trend", "unchanged_run", "unfinished_runs", "why_begun_anew",
]  # fmt: skip

__getattr__, __dir__ = late_face(__name__)
