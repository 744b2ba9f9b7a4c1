"""What a stage is: a name, the section it is set by, what it writes, its function and its verdicts.

What of its outputs may be shown is stated here alone; `flows.stages.output_list` makes the list of it.

>>> from flows.stages import STAGES
>>> [stage.name for stage in STAGES if stage.holds_ledger]
['publish_proportions', 'train_privately', 'ask_holdout']
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from flows.run import Run

__all__ = ["Output", "Stage", "Verdict", "counted", "late"]


@dataclass(frozen=True, slots=True)
class Output:
    """One file or folder that a stage leaves in the run folder.

    Parameters
    ----------
    name
        Its name in the run folder.
    about
        What it holds.
    public
        True if it may be shown to anybody: it holds releases and public facts alone.
    private_names
        True if it may hold what a person or a task is called, or a feature's value.
    only
        The setting without which a run does not write it; written by every run if None.

    Examples
    --------
    >>> Output("workers.parquet", "each worker's reputation", public=True, private_names=True)
    Traceback (most recent call last):
    ValueError: a public output must hold no private names, got workers.parquet
    """

    name: str
    about: str
    public: bool = False
    private_names: bool = False
    only: (
        Literal[
            "consensus.go_on",
            "engine",
            "filter.potentials",
            "input.several",
            "privacy.correction_epsilon",
            "report.archetypes",
            "report.decision_images",
            "report.error_features",
            "report.psychometric",
            "several files or a query",
            "task features",
            "task texts",
            "topics",
        ]
        | None
    ) = None

    def __post_init__(self) -> None:
        if self.public and self.private_names:
            raise ValueError(f"a public output must hold no private names, got {self.name}")


@dataclass(frozen=True, slots=True)
class Verdict:
    """One line of the closing table: the sentence that a JSON output comes to.

    Parameters
    ----------
    title
        What the line is about.
    output
        The JSON file that it is read from.
    sentence
        Makes the sentence of the file's content; not called for a stage that was skipped.
    """

    title: str
    output: str
    sentence: Callable[[dict[str, Any]], str]

    def of(self, run: Run) -> str:
        """Return the sentence about a run, or why the stage was skipped."""
        found = run.read_json(self.output)
        return f"skipped: {found['skipped']}" if "skipped" in found else self.sentence(found)


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a run: it reads the run folder, works, and writes its outputs there.

    Parameters
    ----------
    name
        Its name in the manifest, on the terminal and in Prefect; its section of the internal report
        is the template of that name, if there is one.
    about
        What it does, in one sentence.
    function
        Does the work and returns the stage's line, which says what was found.
    outputs
        Everything it may write into the run folder.
    settings
        The section of the settings that is its own, or None.
    verdicts
        Its lines in the closing table.
    reads_input
        True if it reads the user's tables: where the operating system fails, it may be tried again.
    holds_ledger
        True if it may spend privacy budget: it is never tried again.
    """

    name: str
    about: str
    function: Callable[[Run], str]
    outputs: tuple[Output, ...]
    settings: str | None = None
    verdicts: tuple[Verdict, ...] = ()
    reads_input: bool = False
    holds_ledger: bool = False

    def __call__(self, run: Run) -> str:
        """Run the stage and return its line."""
        return self.function(run)


def counted(number: int, what: str) -> str:
    """Return a count with its noun, for the line of a stage.

    >>> counted(1, "task"), counted(1_000, "task")
    ('1 task', '1,000 tasks')
    """
    return f"{number:,} {what}{'s' * (number != 1)}"


def late(module: str, name: str) -> Callable[..., str]:
    """Return a function of a stage's file that is imported when it is first called.

    Numba, scikit-learn and OpenDP take seconds to import: a run where nothing is new, or without a model,
    does not wait for libraries that it does not use.
    """

    def call(argument: Any) -> str:
        found: str = getattr(import_module(f"flows.stages.{module}"), name)(argument)
        return found

    call.__name__ = name
    return call
