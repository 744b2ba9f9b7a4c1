"""What every export is reduced to: responses of workers to tasks, and the labels among them.

>>> responses = [Response(1, "ann", "t1", {"mood": "good"}), Response(2, "ben", "t1", {"mood": ""})]
>>> gather(responses, "export.csv", question="mood", keep_rejected=False)
ImportedLabels(2 answers to 'mood' read from export.csv; dropped 1 skipped; 1 label)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from flows.tables import TableError, refuse_missing, text_of_value

__all__ = [
    "SHOWN", "Dropped", "ImportedLabels", "Response", "Several", "choose_question", "fate_of", "gather",
    "readable",
]  # fmt: skip

SHOWN = 12  # questions, columns or keys named in one message


class Dropped(StrEnum):
    """Why an answer does not become a label."""

    rejected = "rejected"
    skipped = "skipped"
    unfinished = "unfinished"
    several = "with several labels at once"
    truth = "marked as ground truth"


class Several(NamedTuple):
    """How answers with several labels at once become cells: what stands between their labels.

    `nothing` is the word for an answer in which nothing was ticked; without it that counts as skipped. With
    `in_cells` a text is a cell already, in which `split` may stand; without it a text is one label.
    """

    split: str = "|"
    nothing: str | None = None
    in_cells: bool = False


class Response(NamedTuple):
    """One worker's answers to one task, by question; a list is of the options that she ticked.

    With `partly`, her answers to other questions are in other responses. `kind` is "model" where the export
    marks her as one. `pair` has the items left and right, where she was asked which is better.
    """

    row: int
    worker: str
    task: str
    answers: Mapping[str, object]
    seconds: float | None = None
    dropped: Dropped | None = None
    partly: bool = False
    kind: str = ""
    pair: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ImportedLabels:
    """The label table of an export, in the export's order, and how many answers were left out.

    A time is None where the export has none, a kind of worker blank. Comparisons have the names of the
    items left and right, and the label says which of these sides is better.
    """

    file: str
    question: str
    worker: Sequence[str]
    task: Sequence[str]
    label: Sequence[str]
    seconds: Sequence[float | None]
    dropped: Mapping[Dropped, int]
    kind: Sequence[str] = ()
    left: Sequence[str] = ()
    right: Sequence[str] = ()

    def __repr__(self) -> str:
        return f"ImportedLabels({self.summary()}; {_counted(self.n_labels, 'label')})"

    @property
    def n_labels(self) -> int:
        """The number of labels."""
        return len(self.label)

    @property
    def has_seconds(self) -> bool:
        """Whether any label has a time."""
        return any(time is not None for time in self.seconds)

    def summary(self) -> str:
        """Return what was read and what was dropped, as a sentence without its full stop."""
        n_read = self.n_labels + sum(self.dropped.values())
        counts = [f"{count:,} {why.value}" for why, count in self.dropped.items()]
        left_out = f"; dropped {', '.join(counts)}" if counts else "; none dropped"
        return f"{_counted(n_read, 'answer')} to {self.question!r} read from {self.file}{left_out}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Raise TableError with one sentence where the block finds that `path` is no file or not UTF-8 text."""
    if path.is_dir():
        raise TableError(f"{path} is a folder, and an export is one file; name a file in it")
    if not path.is_file():
        refuse_missing(path)
    try:
        yield
    except UnicodeDecodeError:
        raise TableError(
            f"{path.name} must be UTF-8 text; save it as UTF-8, or check --format"
        ) from None
    except (OSError, EOFError) as error:
        raise TableError(f"{path.name} cannot be read: {error}") from None


def fate_of(status: str, fates: Mapping[str, Dropped | None], where: str) -> Dropped | None:
    """Return why an answer of that status is dropped, None if it counts; raise TableError if unknown."""
    if status not in fates:
        raise TableError(f"{where}: {status!r} must be one of {', '.join(fates)}")
    return fates[status]


def choose_question(file: str, there: Sequence[str], asked: str | None) -> str:
    """Return the question asked for, or the only one; raise TableError with the names of those there are."""
    named = ", ".join(there[:SHOWN]) + (", ..." if len(there) > SHOWN else "")
    if not there:
        raise TableError(f"{file} holds no answers to any question; check --format")
    if asked is not None and asked not in there:
        raise TableError(f"{file} has no question {asked!r}; it has {named}")
    if asked is None and len(there) > 1:
        raise TableError(f"{file} has several questions: {named}; name one with --question")
    return there[0] if asked is None else asked


def gather(
    responses: Sequence[Response],
    file: str,
    *,
    question: str | None,
    keep_rejected: bool,
    several: Several | None = None,
) -> ImportedLabels:
    """Return the labels of one question, and how many answers were dropped for each reason."""
    there = list(dict.fromkeys(name for response in responses for name in response.answers))
    asked = choose_question(file, there, question)
    dropped: Counter[Dropped] = Counter()
    kept: list[tuple[Response, str]] = []
    for response in responses:
        if response.partly and asked not in response.answers:
            continue
        why = response.dropped
        if why is not None and not (keep_rejected and why is Dropped.rejected):
            dropped[why] += 1
            continue
        given = response.answers.get(asked)
        if several is None:
            label = _label(given, file, response.row, asked)
        else:
            label = _cell(given, several, file, response.row, asked)
        if isinstance(label, Dropped):
            dropped[label] += 1
            continue
        _check_names(response, file)
        kept.append((response, label))
    counted = {why: dropped[why] for why in Dropped if dropped[why]}
    if not kept:
        counts = ", ".join(f"{count:,} {why.value}" for why, count in counted.items())
        raise TableError(f"{file}: no answer to {asked!r} is left to write ({counts})")
    of, labels = zip(*kept, strict=True)
    pairs = [one.pair for one in of if one.pair is not None]
    left, right = zip(*pairs, strict=True) if pairs else ((), ())
    return ImportedLabels(
        file, asked, tuple(one.worker for one in of), tuple(one.task for one in of), labels,
        tuple(one.seconds for one in of), counted, tuple(one.kind for one in of), left, right,
    )  # fmt: skip


def _label(value: object, file: str, row: int, question: str) -> str | Dropped:
    """Return the label of an answer, or why it has none."""
    if isinstance(value, list):
        if len(value) > 1:
            return Dropped.several
        value = value[0] if value else None
    text = text_of_value(value)
    if text is None:
        raise TableError(
            f"{file}, row {row}: the answer to {question!r} must be a single value, not one with parts; "
            "import a question whose answers are single choices"
        )
    return Dropped.skipped if not text or text.isspace() else text


def _cell(value: object, several: Several, file: str, row: int, question: str) -> str | Dropped:
    """Return the labels of an answer as one cell, or why it has none."""
    if several.in_cells and isinstance(value, str):
        value = [label.strip() for label in value.split(several.split)]
    texts = [text_of_value(one) for one in (value if isinstance(value, list) else [value])]
    ticked = [text for text in dict.fromkeys(texts) if text is None or text.strip()]
    odd = next((text for text in ticked if text is None or several.split in text), "")
    if odd is None or odd:
        what = "has parts" if odd is None else f"holds {several.split!r}"
        raise TableError(
            f"{file}, row {row}: a label in the answer to {question!r} {what}, and cannot stand in a cell "
            f"with others; import another question{'' if odd is None else ', or name another --split'}"
        )
    if not ticked:
        return Dropped.skipped if several.nothing is None else several.nothing
    return several.split.join(text for text in ticked if text is not None)


def _check_names(response: Response, file: str) -> None:
    for what, name in (("worker", response.worker), ("task", response.task)):
        if not name or name.isspace():
            raise TableError(
                f"{file}, row {response.row}: the {what} is blank; fill it or delete the row"
            )
