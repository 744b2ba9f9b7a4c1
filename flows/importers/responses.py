"""What every platform's export comes down to: who answered which task, how, and whether it counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from flows.tables import TableError

__all__ = ["Dropped", "ImportedLabels", "Response", "choose_question", "gather", "text_of"]

SHOWN = 12  # questions named in one message


class Dropped(StrEnum):
    """Why an answer is no label of the table."""

    rejected = "rejected"
    skipped = "skipped"
    unfinished = "unfinished"
    several = "with several labels at once"
    truth = "marked as ground truth"


class Response(NamedTuple):
    """One worker's answers to one task; a list of labels is what was ticked.

    With `partly` the worker's answers to other questions stand in other responses.
    """

    row: int
    worker: str
    task: str
    answers: Mapping[str, object]
    seconds: float | None = None
    dropped: Dropped | None = None
    partly: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ImportedLabels:
    """The label table of an export, in the export's order, and how many answers were left out.

    A time that the export lacks is None.
    """

    file: str
    question: str
    worker: Sequence[str]
    task: Sequence[str]
    label: Sequence[str]
    seconds: Sequence[float | None]
    dropped: Mapping[Dropped, int]

    def __repr__(self) -> str:
        return f"ImportedLabels({self.told()}; {self.n_labels:,} labels)"

    @property
    def n_labels(self) -> int:
        """How many labels there are."""
        return len(self.label)

    @property
    def has_seconds(self) -> bool:
        """Whether any label has a time."""
        return any(time is not None for time in self.seconds)

    def told(self) -> str:
        """What was read and what was dropped, in one sentence without its stop."""
        n_read = self.n_labels + sum(self.dropped.values())
        counts = [f"{count:,} {why.value}" for why, count in self.dropped.items()]
        left_out = f"; dropped {', '.join(counts)}" if counts else "; none dropped"
        return f"{n_read:,} answers to {self.question!r} read from {self.file}{left_out}"


def choose_question(file: str, there: Sequence[str], asked: str | None) -> str:
    """The question asked for, or the only one there is; else a refusal that names those there are."""
    named = ", ".join(there[:SHOWN]) + (", ..." if len(there) > SHOWN else "")
    if not there:
        raise TableError(f"{file} holds no answers to any question; check --format")
    if asked is not None and asked not in there:
        raise TableError(f"{file} has no question {asked!r}; it has {named}")
    if asked is None and len(there) > 1:
        raise TableError(f"{file} has several questions: {named}; name one with --question")
    return there[0] if asked is None else asked


def gather(
    responses: Sequence[Response], file: str, *, question: str | None, keep_rejected: bool
) -> ImportedLabels:
    """The labels that count, of one question, and how many answers were dropped and why."""
    there = list(dict.fromkeys(name for response in responses for name in response.answers))
    asked = choose_question(file, there, question)
    dropped: Counter[Dropped] = Counter()
    kept: list[tuple[str, str, str, float | None]] = []
    for response in responses:
        if response.partly and asked not in response.answers:
            continue
        why = response.dropped
        if why is not None and not (keep_rejected and why is Dropped.rejected):
            dropped[why] += 1
            continue
        label = _label(response.answers.get(asked), file, response.row, asked)
        if isinstance(label, Dropped):
            dropped[label] += 1
            continue
        _refuse_nameless(response, file)
        kept.append((response.worker, response.task, label, response.seconds))
    counted = {why: dropped[why] for why in Dropped if dropped[why]}
    if not kept:
        counts = ", ".join(f"{count:,} {why.value}" for why, count in counted.items())
        raise TableError(f"{file}: no answer to {asked!r} is left to write ({counts})")
    worker, task, given, seconds = zip(*kept, strict=True)
    return ImportedLabels(file, asked, worker, task, given, seconds, counted)


def text_of(value: object) -> str | None:
    """A single value as the text of a cell, nothing as blank; None for what is no single value."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or value != value:  # exporters write NaN for nothing
        return ""
    return repr(value) if isinstance(value, int | float) else None


def _label(value: object, file: str, row: int, question: str) -> str | Dropped:
    """The one label of an answer, or why it has none."""
    if isinstance(value, list):
        if len(value) > 1:
            return Dropped.several
        value = value[0] if value else None
    text = text_of(value)
    if text is None:
        raise TableError(
            f"{file}, row {row}: the answer to {question!r} is no label but something with parts; "
            "import a question whose answers are single choices"
        )
    return Dropped.skipped if not text or text.isspace() else text


def _refuse_nameless(response: Response, file: str) -> None:
    for what, name in (("worker", response.worker), ("task", response.task)):
        if not name or name.isspace():
            raise TableError(
                f"{file}, row {response.row}: the {what} is blank; fill it or delete the row"
            )
