r"""Scores of candidates, prompts or models, on each example of a development set and of a holdout.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     path = Path(folder) / "scores.csv"
...     _ = path.write_text("candidate,example,split,score\nshort,q1,dev,1\nshort,q2,holdout,0\n")
...     (found,) = read_scores(path)
>>> found.name, found.development.tolist(), found.holdout_examples
('short', [1.0], ('q2',))
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from flows.tables.dialect import AS_FOUND, Reading
from flows.tables.refusals import (
    ROW,
    TableError,
    quote,
    refuse_duplicates,
    refuse_names,
    refuse_outside,
)
from flows.tables.text_table import TextTable, open_table

__all__ = ["CandidateScores", "read_scores", "reading_of_scores"]

DEVELOPMENT = ("development", "dev")
HOLDOUT = "holdout"
SPLITS = (*DEVELOPMENT, HOLDOUT)
NAMES = ("candidate", "example", "split")


class _Rows(NamedTuple):
    """A candidate's rows: of each split the names of its examples, sorted, and their scores."""

    name: str
    scored: dict[str, tuple[np.ndarray, np.ndarray]]

    def examples(self, split: str) -> np.ndarray:
        """Return the names of a split's examples."""
        return self.scored[split][0]


@dataclass(frozen=True, slots=True, eq=False)
class CandidateScores:
    """One candidate's scores; examples of each split are in the order of their names.

    Parameters
    ----------
    name
        The candidate.
    development
        Scores in [0, 1] on the development examples.
    development_digest
        Digest of development examples and scores, which identifies a version of a candidate.
    holdout_examples
        Names of the holdout's examples.
    holdout
        Scores on them as they came, **private**; NaN where a cell is no number. It has no repr.
    """

    name: str
    development: Float[np.ndarray, " development"]
    development_digest: str
    holdout_examples: tuple[str, ...]
    holdout: Float[np.ndarray, " examples"] = field(repr=False)


def reading_of_scores(reading: Reading, score: str) -> Reading:
    """Return a reading by which no cell decides whether the others have decimal commas.

    A score that did would move those of other examples, which the gate's price does not cover.
    """
    return replace(reading, apart=(*NAMES, score))


def read_scores(
    path: Path, reading: Reading = AS_FOUND, *, score: str = "score", candidate: str | None = None
) -> tuple[CandidateScores, ...]:
    """Read a table with a row per candidate and example.

    The columns are example, split (development, or dev; holdout), the score, and candidate. Without a column
    candidate all rows are of the candidate named, or else of one with the file's name. True is 1 and false
    is 0. A comma is a decimal point, in each cell by itself. Any cell of a holdout's score is accepted:
    refusing one would reveal an example.

    Raises
    ------
    TableError
        If a column is missing, a name blank, a row repeated, a split not one of these or empty, an
        example in both, a development score not in [0, 1], or candidates lack examples that others have.
    """
    table = open_table(path, ("example", "split", score), reading_of_scores(reading, score))
    if "candidate" not in table.names:
        _name_candidate(table, candidate or path.name.partition(".")[0])
    refuse_names(table, NAMES)
    refuse_outside(table, "split", SPLITS, f"splits, which are {DEVELOPMENT[0]} and {HOLDOUT}")
    refuse_duplicates(
        table, ("candidate", "example"), "error", "give each version of a candidate its own name"
    )
    number = f"CASE lower({quote(score)}) WHEN 'true' THEN 1 WHEN 'false' THEN 0 ELSE "
    number += f"try_cast(replace({quote(score)}, ',', '.') AS DOUBLE) END"
    _refuse_scores(table, score, number)
    rows = table.connection.execute(
        f"SELECT candidate, example, split = '{HOLDOUT}' AS held, coalesce({number}, 'nan') AS score, "
        f"min({ROW}) OVER (PARTITION BY candidate) AS first FROM t ORDER BY first, held, example"
    ).fetchnumpy()
    names, examples = (np.asarray(rows[one], dtype=np.str_) for one in ("candidate", "example"))
    values, held = np.asarray(rows["score"], dtype=float), np.asarray(rows["held"], dtype=bool)
    starts = np.flatnonzero(np.append(True, names[1:] != names[:-1]))
    found: list[_Rows] = []
    for place in np.split(np.arange(names.size), starts[1:]):
        on, off = place[held[place]], place[~held[place]]
        scored = {HOLDOUT: (examples[on], values[on]), DEVELOPMENT[0]: (examples[off], values[off])}
        found.append(_Rows(str(names[place[0]]), scored))
    _refuse_other_examples(path.name, found)
    kept = [one for one in found if candidate is None or one.name == candidate]
    if not kept:
        known = ", ".join(one.name for one in found[:8])
        raise TableError(f"{path.name} must have the candidate {candidate!r}; it has {known}")
    return tuple(map(_scores, kept))


def _name_candidate(table: TextTable, name: str) -> None:
    """Add a column candidate of one name to the view of the rows."""
    table.connection.execute("ALTER VIEW t RENAME TO unnamed")
    quoted = name.replace("'", "''")
    table.connection.execute(f"CREATE VIEW t AS SELECT *, '{quoted}' AS candidate FROM unnamed")


def _refuse_scores(table: TextTable, score: str, number: str) -> None:
    """Raise TableError for a development score that is no number in [0, 1]; the holdout's are private."""
    wrong = table.query(
        f"SELECT {ROW}, {quote(score)} FROM t WHERE split <> '{HOLDOUT}' AND "
        f"NOT coalesce({number} BETWEEN 0 AND 1, false) ORDER BY {ROW} LIMIT 1"
    )
    if wrong:
        row, value = wrong[0]
        raise TableError(
            f"{table.file}, row {row}, column {score}: a development score must be a number in [0, 1], got "
            f"{value!r}; bring all scores to this scale"
        )


def _refuse_other_examples(file: str, found: Sequence[_Rows]) -> None:
    """Raise TableError unless all candidates have the same examples in each split, in one split each."""
    first = found[0]
    for split in (HOLDOUT, DEVELOPMENT[0]):
        wanted = first.examples(split)
        if not wanted.size:
            raise TableError(
                f"{file} must have rows of the split {split}; candidate {first.name!r} has none"
            )
        for one in found[1:]:
            if np.array_equal(one.examples(split), wanted):
                continue
            lacking, lacks, has = np.setdiff1d(wanted, one.examples(split)), one, first
            if not lacking.size:
                lacking, lacks, has = np.setdiff1d(one.examples(split), wanted), first, one
            raise TableError(
                f"{file}: candidate {lacks.name!r} lacks {lacking.size:,} {split} "
                f"example{'s' * (lacking.size != 1)} that candidate {has.name!r} has, such as "
                f"{str(lacking[0])!r}; score every candidate on all examples"
            )


def _scores(rows: _Rows) -> CandidateScores:
    """Return one candidate's scores, read-only."""
    (held, private), (developed, public) = rows.scored[HOLDOUT], rows.scored[DEVELOPMENT[0]]
    digest = hashlib.blake2b(digest_size=8)
    for example, value in zip(developed.tolist(), public.tolist(), strict=True):
        digest.update(f"{len(example)}:{example}:{value.hex()};".encode())
    for scores in (private, public):
        scores.setflags(write=False)
    return CandidateScores(rows.name, public, digest.hexdigest(), tuple(held.tolist()), private)
