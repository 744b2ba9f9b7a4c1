"""The command that proposes settings: init."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from flows.choices import LABEL_COLUMNS
from flows.cli.root import (
    Encoding,
    Force,
    Map,
    Quiet,
    Repeated,
    Sep,
    Sheet,
    Wide,
    app,
    counted,
    listed,
    mistakes,
    print_line,
    print_reading,
    reading_of_options,
    waiting_for,
)
from flows.importers import FormatName

if TYPE_CHECKING:
    from flows.proposal import CampaignFacts
    from flows.tables import Reading

__all__ = ["init"]

MAX_NAMED = 20  # classes, on the terminal; the settings hold all of them


@app.command(epilog="Example: `crowdassay init labels.csv tasks.csv --gold gold.csv`")
def init(
    labels: Annotated[
        Path,
        typer.Argument(
            help="table with the columns worker, task, label, or an export: a file, a folder, a pattern"
        ),
    ],
    tasks: Annotated[
        list[Path] | None, typer.Argument(help="tables with the column task, and features")
    ] = None,
    gold: Annotated[Path | None, typer.Option(help="table with the columns task, label")] = None,
    gold_column: Annotated[
        str | None,
        typer.Option(help="column of the gold table with the truth; the table may be the labels"),
    ] = None,
    output: Annotated[Path, typer.Option(help="settings file to write")] = Path("settings.toml"),
    name: Annotated[
        str | None, typer.Option(help="the campaign's name [default: the labels' folder]")
    ] = None,
    groups: Annotated[
        str | None, typer.Option(help="column of the task tables [default: group]")
    ] = None,
    duplicates: Repeated = "error",
    sep: Sep = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    wide: Wide = False,
    url_env: Annotated[
        str | None, typer.Option(help="variable with the address of the queries' database")
    ] = None,
    format_: Annotated[
        FormatName | None,
        typer.Option("--format", help="whose export the labels are [default: found out]"),
    ] = None,
    question: Annotated[
        str | None, typer.Option(help="of an export: the question whose answers become labels")
    ] = None,
    map_: Map = "",
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Look at a campaign's tables and write settings that run as they are, with reasons.

    An export of a platform is first made a label table beside the settings. Columns that have other names
    are named in the settings, and their tables are read as they are.
    """
    from flows.proposal import CampaignTables, write_settings  # DuckDB, for this command only
    from flows.settings import SettingsError
    from flows.tables import inputs_of  # DuckDB, too

    with mistakes():
        if labels.suffix.lower() == ".toml":
            raise SettingsError(
                f"init takes tables and writes settings, got {labels}, which is named as settings "
                f"are; to run them: crowdassay run {shlex.quote(str(labels))}"
            )
        roles = {part.partition("=")[0] for part in map_.split(",")}
        imports = not roles.isdisjoint({"seconds", "question"})  # which settings do not map
        form: FormatName | None = "table" if format_ is None and imports else format_
        columns, imported = map_, None
        reading = reading_of_options(sep, encoding, sheet, wide, "" if form else map_)
        if form is None and not map_:
            form, columns = _found_out(labels, reading)
            if form == "table":
                form, reading = None, reading_of_options(sep, encoding, sheet, wide, columns)
        if form is None and question is not None:
            raise SettingsError(
                f"--question is of an export with several, got {question!r} for {labels}, which is read as a "
                "table of worker, task, label; leave it out, or say with --format whose export that is"
            )
        if form is not None:
            asked = Asked(form, question, columns, reading)
            imported = _imported(
                labels, output, asked, inputs_of(labels, *(tasks or ()), gold), force
            )
            labels = imported.path
            reading = reading_of_options(None, None, None, False)
        given = CampaignTables(
            labels, tuple(tasks or ()), gold, gold_column, url_env, groups, duplicates, reading
        )
        with _taken_back(imported), waiting_for("a look at the tables"):
            facts = write_settings(output, given, name=name, force=force)
        print_reading(facts.read_as)
        for line in _lines(facts):
            print_line(line)
        if facts.several is not None:
            print_line(
                f"cells hold several classes at once: input.several = {facts.several!r}; if they are "
                "single classes, delete that line"
            )
        if spent := _of_budget(output):
            print_line(spent)
        print_line(
            f"{output} is written. Read it, the class names above all, then:\n"
            f"crowdassay run {shlex.quote(str(output))}"
        )


class Asked(NamedTuple):
    """How the labels are to be imported: as whose export, which question, which columns, how written."""

    form: FormatName
    question: str | None
    columns: str
    reading: Reading


def _found_out(labels: Path, reading: Reading) -> tuple[FormatName | None, str]:
    """Return the platform of an export, and its columns by role, as --map takes them.

    None stands for a label table, and for an unknown file.
    """
    from flows.importers import recognise  # Arrow and DuckDB, for this command only
    from flows.tables import column_names, find_files, guess_roles, is_fetched

    first = None if reading.wide or is_fetched(labels) else find_files(labels)[0]
    if first is None or not first.is_file():
        return None, ""
    try:
        names = set(column_names(first, (), reading))
    except ValueError:  # such as JSON that is no table; reading it as labels reports that
        names = set()
    if names.issuperset(LABEL_COLUMNS):
        return None, ""
    known, form = guess_roles(names), recognise(labels) if labels.is_file() else None
    if form is not None or len(known) < 3 or any("," in column for column in known.values()):
        return form, ""
    other = ((role, column) for role, column in known.items() if role != column)
    return "table", ",".join(f"{role}={column}" for role, column in other)


class Imported(NamedTuple):
    """The label table of an export, and whether it was not there before."""

    path: Path
    new: bool


@contextmanager
def _taken_back(imported: Imported | None) -> Iterator[None]:
    """Remove a new label table if no settings come of it, so that the command can be repeated."""
    try:
        yield
    except BaseException:
        if imported is not None and imported.new:
            imported.path.unlink(missing_ok=True)
        raise


def _imported(
    labels: Path, output: Path, asked: Asked, inputs: tuple[Path, ...], force: bool
) -> Imported:
    """Write the label table of an export beside the settings, and return where it is."""
    from flows.importers import import_labels, parse_map, write_labels  # Arrow
    from flows.tables import table_file

    written = table_file(output.parent / f"{labels.stem}.labels.csv", inputs=inputs, force=force)
    new = not written.path.exists()
    columns = parse_map(asked.columns, asked.form)
    with waiting_for("the export made a label table"):
        made = import_labels(
            labels, asked.form, question=asked.question, columns=columns, reading=asked.reading
        )
        write_labels(made, written)
    print_line(f"{labels.name} was read as {asked.form}: {made.summary()}")
    if asked.columns:
        print_line(f"its columns as {asked.columns}; --map names others")
    print_line(
        f"{counted(made.n_labels, 'label')} written to {written.path}; for a newer export: crowdassay import "
        f"{shlex.quote(str(labels))} --format {asked.form}"
        + _said_again(asked)
        + f" --output {shlex.quote(str(written.path))} --force"
    )
    return Imported(written.path, new)


def _said_again(asked: Asked) -> str:
    """Return the options that `import` needs to read an export as it was read here."""
    how = asked.reading
    given = {
        "--map": asked.columns, "--question": asked.question, "--sep": how.sep, "--encoding": how.encoding,
        "--sheet": how.sheet,
    }  # fmt: skip
    said = (f" {name} {shlex.quote(value)}" for name, value in given.items() if value)
    return "".join(said) + " --wide" * how.wide


def _lines(facts: CampaignFacts) -> list[str]:
    """Return lines about what the tables hold and what is left out of the settings."""
    from flows.proposal import toml_value, why_no_model  # loaded already by the command

    named = ", ".join(map(toml_value, facts.classes[:MAX_NAMED]))
    more = len(facts.classes) - MAX_NAMED
    lines = [
        f"{counted(facts.n_labels, 'label')} of {counted(facts.n_labelled, 'task')} by "
        f"{counted(facts.n_workers, 'worker')}, {len(facts.classes):,} classes: {named}"
        + (f" and {more:,} more" if more > 0 else ""),
        f"{counted(facts.n_tasks, 'task')} in {counted(facts.n_groups, 'group')} "
        f"({len(facts.group_sizes):,} with labels); {counted(facts.n_features, 'feature')}",
        *_of_gold(facts),
        *_doubts(facts),
        *_like_models(facts),
    ]
    why = why_no_model(facts)
    return lines if why is None else [*lines, f"[model] and [gate] are left out: {why}"]


def _of_gold(facts: CampaignFacts) -> Iterator[str]:
    """Return lines on how much gold there is, and how much of it cannot be compared with labels."""
    if facts.n_gold is None:
        yield "no gold: --gold FILE names tasks whose truth is known, to check the consensus by"
        likely = [
            name
            for name in facts.other_columns
            if "gold" in name.lower() or "truth" in name.lower()
        ]
        if likely:
            column = shlex.quote(likely[0])
            yield f"if the truth is in {likely[0]!r}, --gold LABELS --gold-column {column} reads it"
        return
    beside = facts.n_gold - facts.n_gold_labelled
    apart = f"; {beside:,} of them without a label: are tasks named there as in the labels?"
    yield f"{counted(facts.n_gold, 'gold task')}{apart if beside else ''}"
    if facts.gold_alone:
        alone = ", ".join(map(repr, facts.gold_alone[:MAX_NAMED]))
        yield f"classes that gold alone has, and nobody gave: {alone}; mend them if they are misspelled"


def _doubts(facts: CampaignFacts) -> Iterator[str]:
    """Return a line on class names that are probably mistakes."""
    from flows.tables import NOTHING, is_free, spelled_alike  # loaded already by the command

    if is_free(len(facts.classes), facts.n_labels):
        yield (
            f"{len(facts.classes):,} classes are too many for {counted(facts.n_labels, 'label')}: cut "
            "numbers into a few classes first; texts cannot be compared"
        )
    empty = [name for name in facts.classes if name.lower() in NOTHING]
    if empty:
        yield (
            f"classes that may mean that there is no label: {', '.join(map(repr, empty[:MAX_NAMED]))}; "
            "crowdassay check finds their rows"
        )
    alike = spelled_alike([name for name in facts.classes if name not in facts.gold_alone])
    if alike:
        groups = "; ".join(" = ".join(map(repr, group)) for group in alike[:MAX_NAMED])
        yield (
            f"classes that differ in their spelling alone: {groups}; crowdassay check --merge --clean "
            "makes them one in a copy"
        )
    if "label" in facts.classes:
        yield "a class is called 'label', as the column is; crowdassay check finds a header among the rows"


def _like_models(facts: CampaignFacts) -> Iterator[str]:
    """Return a line on workers who are probably models and are not declared."""
    if facts.like_models:
        yield (
            "workers who look like language models by name: "
            f"{listed(facts.like_models, MAX_NAMED)}; models under [input] declares those who are"
        )


def _of_budget(output: Path) -> str | None:
    """Return a line on earlier spending under the campaign's name, by these tables or by others."""
    from flows.settings import load_settings  # loaded already by the command

    settings = load_settings(output)
    if not settings.state.is_dir():
        return None
    from flows.spending import known_statement  # the ledger, where there is one
    from privacy import LedgerError
    from privacy.accounting import price_text

    try:
        found = known_statement(settings.state, settings.name)
    except LedgerError:  # a run reports it
        return None
    if found is None:
        return None
    spent, budget = price_text(found.spent.epsilon), price_text(found.budget.epsilon, left=True)
    return (
        f"the ledger knows {settings.name!r}, with epsilon {spent} of {budget} spent, and these settings go "
        "on with that budget; if these tables are of other tasks, --name gives them another name"
    )
