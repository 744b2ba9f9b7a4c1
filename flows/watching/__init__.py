"""Labels watched while they arrive: read from a growing file, judged once each, kept between calls.

    watcher = watch_once(Path("labels.csv"), Path("state/watch.npz"))   # reads what is new, and saves
    watcher.rows()

`LabelWatcher` holds the consensus so far and each worker's card, `LabelLines` and `FileTail` read.
Names load when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.faces import late_face

if TYPE_CHECKING:
    from flows.watching.label_lines import FileTail, LabelLines, LabelRows
    from flows.watching.label_watcher import HEADER, Alarm, LabelWatcher
    from flows.watching.watch_state import WatchBusy, held_state, read_new, reader_of, watch_once

__all__ = [
    "HEADER", "Alarm", "FileTail", "LabelLines", "LabelRows", "LabelWatcher", "WatchBusy",
    "held_state", "read_new", "reader_of", "watch_once",
]  # fmt: skip

__getattr__, __dir__ = late_face(__name__)
