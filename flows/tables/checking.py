r"""All faults of a label table at once, a copy without them, and what was taken out.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     path = Path(folder) / "labels.csv"
...     _ = path.write_text("worker,task,label\nann,t1,Cat\nben,t1,cat\nben,,dog\neve\n")
...     found = check_labels(open_lenient(path), duplicates="error")
...     [(one.what, one.count) for one in found.faults], len(found.clean()["task"])
([('torn line', 1), ('blank task', 1)], 2)
>>> [one.what for one in found.doubts]
['spellings of one label']

A fault is what a run refuses. A doubt may be intended: nothing is changed for it unless the user asks for it.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from flows.choices import LABEL_COLUMNS, Duplicates
from flows.tables.arrow import arrow_array
from flows.tables.dialect import AS_FOUND, Reading
from flows.tables.file_formats import refuse_unheeded, refuse_unmapped
from flows.tables.refusals import MAX_LETTERS, ROW, quote
from flows.tables.text_table import TextTable, open_table

__all__ = [
    "NOTHING", "Finding", "LabelCheck", "check_labels", "is_free", "like_models", "open_lenient",
    "spelled_alike",
]  # fmt: skip

OWN = ("place", "reason", "torn line")  # columns of a quarantine beside those of the table
SOUND = f"{ROW} NOT IN (SELECT row FROM fault)"
SHOWN = 3  # places and examples of one finding
MANY = 20  # classes from which on more than half as many as labels are no classes, but numbers or texts
SECONDS, KIND = "seconds", "kind"
NOTHING = ("nan", "null", "none", "n/a", "na", "#n/a", "nil", "undefined", "-", "?")
HIDDEN = r"[\p{Cc}\p{Cf}\x{a0}]"  # invisible letters
ROUNDED = r"[0-9](\.[0-9]+)?[eE]\+[0-9]+|[0-9]{16}\.0"  # of too many digits
SEVERAL = r"\S\s*\|\s*\S|^\[.*\]$"  # cat|dog, or a list
NUMBER = re.compile(r"[-+]?\d+(\.\d*)?([eE][-+]?\d+)?")
NOT_SECONDS = "NOT coalesce(try_cast({0} AS DOUBLE) BETWEEN 0 AND 1e300, false)"

# language models and their families; a name that people have too counts with a version alone
MODELS = (
    "v?llm", "(chat)?gpt", "(code)?llama", "deepseek", "gemini", "gemma", "mistral", "mixtral", "qwen",
    r"claude[-_. ]?(v?\d|haiku|instant|opus|sonnet)\w*", "command-r", r"grok-\d+", r"phi-\d+",
    "o[134](-mini|-preview|-pro)",
)  # fmt: skip
LIKE_MODELS = f"(^|[^a-z0-9])({'|'.join(MODELS)})([^a-z]|$)"


@dataclass(frozen=True, slots=True)
class Finding:
    """One kind of fault or doubt: in how many rows or spellings, where first, an example, what to do."""

    what: str
    count: int
    where: str
    example: str
    remedy: str


@dataclass(frozen=True, slots=True, eq=False)
class LabelCheck:
    """What is wrong with a label table, and its rows in two parts.

    Parameters
    ----------
    table
        The table; its rows that are at fault are in the table `fault`, each with its reason.
    n_rows
        Rows of the file, torn lines included.
    faults, doubts
        What a run refuses, and what may be intended.
    spelling
        For each label with several spellings, the one that most rows have.
    """

    table: TextTable
    n_rows: int
    faults: tuple[Finding, ...]
    doubts: tuple[Finding, ...]
    spelling: dict[str, str]

    @property
    def n_at_fault(self) -> int:
        """The number of rows at fault, torn lines included."""
        rows = self.table.query("SELECT count(DISTINCT row) FROM fault")[0][0]
        return int(rows) + len(self.table.torn)

    def clean(self, *, merge: bool = False) -> dict[str, list[str]]:
        """Return the columns of the rows without fault, cells trimmed; seconds that are no numbers blank.

        With `merge` each label has the spelling that most rows have.
        """
        cells = {name: f"coalesce({quote(name)}, '')" for name in self.table.names}
        if SECONDS in cells:
            wrong = NOT_SECONDS.format(quote(SECONDS))
            cells[SECONDS] = f"CASE WHEN {wrong} THEN '' ELSE {cells[SECONDS]} END"
        rows = self.table.query(
            f"SELECT {', '.join(cells.values())} FROM t WHERE {SOUND} ORDER BY {ROW}"
        )
        columns = {name: [row[at] for row in rows] for at, name in enumerate(cells)}
        if merge:
            columns["label"] = [self.spelling.get(label, label) for label in columns["label"]]
        return columns

    def quarantine(self) -> dict[str, list[str]]:
        """Return the rows at fault, each with its place and reason; a torn line is one text.

        A column of the table with one of these three names gets another.
        """
        names = self.table.names
        cells = ", ".join(f"coalesce({quote(name)}, '')" for name in names)
        rows = self.table.query(
            f"SELECT {ROW}, (SELECT string_agg(reason, '; ') FROM fault WHERE row = {ROW}), "
            f"{cells}, '' FROM t WHERE {ROW} IN (SELECT row FROM fault) ORDER BY {ROW}"
        )
        blank = ("",) * len(names)
        rows = [(self.table.place(row), *others) for row, *others in rows]
        rows += [(where, "torn line", *blank, text) for where, text in self.table.torn]
        place, reason, torn = OWN
        header = (place, reason, *_renamed(names), torn)
        return {name: [row[at] for row in rows] for at, name in enumerate(header)}


def _renamed(names: Sequence[str]) -> list[str]:
    """Return the names of a table's columns, with others for those that are a quarantine's own.

    >>> _renamed(["task", "Reason"])
    ['task', 'Reason of the table']
    """
    taken = {*OWN, *(name.lower() for name in names)}

    def free(name: str) -> str:
        return free(f"{name} of the table") if name.lower() in taken else name

    return [free(name) if name.lower() in OWN else name for name in names]


def open_lenient(path: Path, reading: Reading = AS_FOUND) -> TextTable:
    """Load a label table, and keep its torn lines aside instead of refusing it."""
    refuse_unheeded(reading, (path,))
    table = open_table(path, LABEL_COLUMNS, replace(reading, lenient=True))
    refuse_unmapped(reading, [path.name], [table.read_as])
    return table


def check_labels(
    table: TextTable, *, duplicates: Duplicates, given: str | None = None
) -> LabelCheck:
    """Find every fault and doubt of a label table; commands name it as it was `given`.

    With `duplicates` of "error" all of a worker's labels of a task are at fault if they differ, else
    all but the first or the last. Of labels that are the same the first is kept.
    """
    table.query("CREATE OR REPLACE TABLE fault (row BIGINT, reason VARCHAR)")
    sought = [one for name in LABEL_COLUMNS for one in _wrong_cells(name)]
    faults = [_torn(table), *_rows_where(table, [*sought, *_repeats(table, duplicates)])]
    faults.append(_hollow(table))
    header = " AND ".join(f"lower({quote(name)}) = '{name}'" for name in LABEL_COLUMNS)
    remedy = "delete the row: files were put one behind another with their headers"
    dubious = [_Sought("the header again", header, "label", remedy)]
    if SECONDS in table.names:
        wrong = f"{quote(SECONDS)} IS NOT NULL AND {NOT_SECONDS.format(quote(SECONDS))}"
        remedy = "the clean copy leaves the cell blank"
        dubious.append(_Sought("seconds that are no number, or below 0", wrong, SECONDS, remedy))
    dubious += [one for name in LABEL_COLUMNS for one in _dubious_cells(name)]
    dubious.append(
        _Sought("several labels in a cell", f"regexp_matches(label, '{SEVERAL}')", "label",
                f"if they hold at once: crowdassay multilabel {shlex.quote(given or table.file)}")
    )  # fmt: skip
    doubts = [*_found(table, dubious), _free_labels(table), _undeclared_models(table)]
    spelling = dict[str, str]()
    for name in LABEL_COLUMNS:
        variants = _variants(table, name)
        doubts.append(_spellings(variants, name))
        if name == "label":
            spelling = {one: group[0] for group in variants for one in group}
    n_rows = table.query("SELECT count(*) FROM t")[0][0] + len(table.torn)
    kept = [tuple(one for one in some if one.count) for some in (faults, doubts)]
    return LabelCheck(table, n_rows, kept[0], kept[1], spelling)


def is_free(n_classes: int, n_labels: int) -> bool:
    """Return whether labels differ so much that they must be numbers or texts, not names of classes.

    >>> is_free(790, 800), is_free(4, 5)
    (True, False)
    """
    return n_classes >= MANY and 2 * n_classes > n_labels


def like_models(workers: np.ndarray) -> tuple[str, ...]:
    """Return the workers whose names hold that of a family of language models, in the order given.

    >>> like_models(np.array(["Claude", "claude-3-haiku", "gpt-4o", "llm-judge-2", "Llama-3-8B", "w07"]))
    ('claude-3-haiku', 'gpt-4o', 'llm-judge-2', 'Llama-3-8B')
    """
    names = arrow_array(workers.astype(np.str_))
    like = pc.match_substring_regex(names, LIKE_MODELS, ignore_case=True)
    return tuple(names.filter(like).to_pylist())


def _hollow(table: TextTable) -> Finding:
    """Return why the rows without fault are nothing to judge workers by, the first reason there is."""
    n_rows, n_labels, n_workers, label, worker = table.query(
        f"SELECT count(*), count(DISTINCT label), count(DISTINCT worker), any_value(label), "
        f"any_value(worker) FROM t WHERE {SOUND}"
    )[0]
    reasons = (
        ("every label the same", n_labels == 1, label, "check the export"),
        ("every label by one worker", n_workers == 1, worker, "check the export"),
        ("no task on which two workers differ", not _differ(table), "",
         "have tasks labelled by several workers, or use the labels as they are"),
    )  # fmt: skip
    for what, holds, example, remedy in reasons if n_rows else ():
        if holds:
            return Finding(what, n_rows, "the whole table", example, remedy)
    return Finding("", 0, "", "", "")


def _differ(table: TextTable) -> bool:
    """Return whether a task without faults has two labels."""
    differing = (
        f"SELECT 1 FROM t WHERE {SOUND} GROUP BY task HAVING count(DISTINCT label) > 1 LIMIT 1"
    )
    return bool(table.query(differing))


def _free_labels(table: TextTable) -> Finding:
    n_labels, n_classes, example = table.query(
        f"SELECT count(label), count(DISTINCT label), min_by(label, {ROW}) FROM t"
    )[0]
    count = n_classes if is_free(n_classes, n_labels) else 0
    remedy = "cut numbers into a few classes first; texts cannot be compared"
    return Finding("different labels, few of them twice", count, "", example or "", remedy)


def _undeclared_models(table: TextTable) -> Finding:
    """Return how many workers have a model's name in a table that has no column of kinds."""
    found: tuple[str, ...] = ()
    if KIND not in table.names:
        workers = table.query(
            f"SELECT worker FROM t WHERE length(worker) <= {MAX_LETTERS} "
            f"GROUP BY worker ORDER BY min({ROW})"
        )
        found = like_models(np.array([worker for (worker,) in workers], dtype=np.str_))
    remedy = f"say who is one: a column {KIND}, with model in their rows, or input.models"
    example = ", ".join(found[:SHOWN])
    return Finding("workers with a language model's name", len(found), "", example, remedy)


def _torn(table: TextTable) -> Finding:
    places = ", ".join(where for where, _ in table.torn[:SHOWN])
    example = table.torn[0][1] if table.torn else ""
    remedy = (
        "mend the line: it has other columns than the header, a quote is open, or it is not UTF-8 "
        "(--encoding)"
    )
    return Finding("torn line", len(table.torn), places, example, remedy)


class _Sought(NamedTuple):
    """Something to look for: in rows where a condition holds, shown by a column's cell, with its remedy."""

    what: str
    where: str
    column: str
    remedy: str


def _wrong_cells(name: str) -> list[_Sought]:
    """Return the faults that a cell of a column may have."""
    cell, long = quote(name), f"{name} of more than {MAX_LETTERS:,} letters"
    return [
        _Sought(f"blank {name}", f"{cell} IS NULL", name, "fill the cell or delete the row"),
        _Sought(long, f"length({cell}) > {MAX_LETTERS}", name, "shorten it"),
        _Sought(f"{name} with a NUL byte", f"contains({cell}, chr(0))", name, "delete the byte"),
    ]


def _dubious_cells(name: str) -> list[_Sought]:
    """Return the doubts that a cell of a column may raise."""
    cell, words = quote(name), ", ".join(f"'{word}'" for word in NOTHING)
    return [
        _Sought(f"{name} that may mean nothing", f"lower({cell}) IN ({words})", name,
                "delete the row if it means that there is none"),
        _Sought(f"{name} with letters that nobody sees", f"regexp_matches({cell}, '{HIDDEN}')", name,
                "delete those letters"),
        _Sought(f"{name} that may be a long number, rounded", f"regexp_full_match({cell}, '{ROUNDED}')",
                name, "numbers rounded alike are one name: export the column as text"),
    ]  # fmt: skip


def _rows_where(table: TextTable, sought: Sequence[_Sought]) -> list[Finding]:
    """Return faults, and note their rows."""
    found = _found(table, sought)
    for fault, one in zip(sought, found, strict=True):
        if one.count:
            table.query(
                f"INSERT INTO fault SELECT {ROW}, '{fault.what}' FROM t WHERE {fault.where}"
            )
    return found


def _found(table: TextTable, sought: Sequence[_Sought]) -> list[Finding]:
    """Return what is found of all that is sought, in one pass over the rows."""
    holds = ", ".join(f"({one.where}) AS holds{place}" for place, one in enumerate(sought))
    told = ", ".join(
        f"count(*) FILTER (holds{place}), min_by({quote(one.column)}, {ROW}) FILTER (holds{place}), "
        f"min({ROW}, {SHOWN}) FILTER (holds{place})"
        for place, one in enumerate(sought)
    )
    (cells,) = table.query(f"SELECT {told} FROM (SELECT *, {holds} FROM t)")
    findings = []
    for one, count, example, rows in zip(sought, cells[::3], cells[1::3], cells[2::3], strict=True):
        places = ", ".join(map(table.place, rows or ()))
        findings.append(Finding(one.what, count, places, example or "", one.remedy))
    return findings


def _repeats(table: TextTable, duplicates: Duplicates) -> list[_Sought]:
    """Return how a worker's labels of a task are found that are given again: the same, and others."""
    given = "worker IS NOT NULL AND task IS NOT NULL AND label IS NOT NULL"
    table.query(
        "CREATE OR REPLACE TABLE again AS WITH twice AS "
        f"(SELECT worker, task FROM t WHERE {given} GROUP BY worker, task HAVING count(*) > 1) "
        f"SELECT {ROW} AS row, "
        f"row_number() OVER (PARTITION BY worker, task, label ORDER BY {ROW}) AS same, "
        f"row_number() OVER (PARTITION BY worker, task ORDER BY {ROW}) AS place, "
        "count(*) OVER (PARTITION BY worker, task) AS size, "
        "min(label) OVER (PARTITION BY worker, task) != max(label) OVER (PARTITION BY worker, task) "
        f"AS differ FROM t SEMI JOIN twice USING (worker, task) WHERE {given}"
    )
    chosen = {"error": "true", "first": "place > 1", "last": "place < size"}[duplicates]
    return [
        _Sought("the same label again", _among("NOT differ AND same > 1"), "label",
                "the clean copy keeps the first"),
        _Sought("another label of the same worker and task", _among(f"differ AND {chosen}"), "label",
                "choose with --duplicates first or last"),
    ]  # fmt: skip


def _among(where: str) -> str:
    return f"{ROW} IN (SELECT row FROM again WHERE {where})"


def _variants(table: TextTable, name: str) -> list[list[str]]:
    """Return names that differ only in spelling, the most frequent one first."""
    found = table.query(
        f"SELECT {quote(name)}, count(*) FROM t WHERE {quote(name)} IS NOT NULL "
        "GROUP BY 1 ORDER BY 2 DESC, 1"
    )
    return spelled_alike([text for text, _ in found])


def spelled_alike(names: Sequence[str]) -> list[list[str]]:
    """Return groups of names that differ only in spelling, each in the order given.

    >>> spelled_alike(["cat", "dog", "Cat"])
    [['cat', 'Cat']]
    """
    groups = defaultdict[str, list[str]](list)
    for name in names:
        groups[_plain(name)].append(name)
    return [group for group in groups.values() if len(group) > 1]


def _plain(text: str) -> str:
    """Return a text without capitals, spaces and variant forms of letters and numbers."""
    if NUMBER.fullmatch(text):
        return repr(float(text)) if len(text) < 16 else text
    if text.isascii():  # nothing to be composed or left out
        return " ".join(text.lower().split())
    seen = (one for one in unicodedata.normalize("NFKC", text) if unicodedata.category(one) != "Cf")
    return " ".join("".join(seen).casefold().split())


def _spellings(variants: Sequence[Sequence[str]], name: str) -> Finding:
    example = "; ".join(" = ".join(map(repr, group[:SHOWN])) for group in variants[:SHOWN])
    remedy = (
        "make them one, as --merge does" if name == "label" else "make them one if they are one"
    )
    return Finding(f"spellings of one {name}", len(variants), "", example, remedy)
