"""The command that compiles every kernel that runs need: warm."""

from __future__ import annotations

import time

from flows.cli.kernels import compile_kernels, where_kept
from flows.cli.root import Quiet, app, console, mistakes

__all__ = ["warm"]


@app.command(epilog="Example: `crowdassay warm`, with NUMBA_CACHE_DIR set where an image is built")
def warm(quiet: Quiet = False) -> None:
    """Compile the loops that runs need, so that no run has to: for images, and after an upgrade."""
    with mistakes():
        began = time.process_time()
        n_compiled = compile_kernels()
        seconds = time.process_time() - began
        console().print(
            f"{n_compiled} kernels compiled in {seconds:.0f} s of processor time; {where_kept()}",
            soft_wrap=True,
            markup=False,
        )
