"""The terminal: what a run and a command show there, and texts of strangers made safe for it.

Names load when they are first used: a text is made safe without the rooms that a run needs.
"""

from typing import TYPE_CHECKING

from flows.faces import late_face

if TYPE_CHECKING:
    from flows.terminal.console import (
        both,
        console_step,
        is_mistake,
        noise_words,
        print_rows,
        print_summary,
        sentence,
    )
    from flows.terminal.progress import Waited, repeating, waiting
    from flows.terminal.texts import printable

__all__ = [
    "Waited", "both", "console_step", "is_mistake", "noise_words", "print_rows", "print_summary",
    "printable", "repeating", "sentence", "waiting",
]  # fmt: skip

__getattr__, __dir__ = late_face(__name__)
