"""Files that platforms read: workers to block, and tasks to post again for more labels.

    removed = [("A1SAMPLE", "agrees with the consensus on 31% of 112 labels")]
    write_block_list("mturk", removed, OutputFile(Path("block.csv")))
    write_repost("mturk", {"3HIT01": ["A2SAMPLE"]}, Path("export.csv"), OutputFile(Path("batch.csv")))

One table of platforms for each kind of file. Names load when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.faces import late_face

if TYPE_CHECKING:
    from flows.exporters.block_lists import write_block_list
    from flows.exporters.reposts import Reposted, write_repost

__all__ = ["Reposted", "write_block_list", "write_repost"]

__getattr__, __dir__ = late_face(__name__)
