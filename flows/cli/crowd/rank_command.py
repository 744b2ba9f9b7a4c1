"""The command that ranks items by comparisons, and says how each worker judges: rank."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.crowd.label_commands import output_file
from flows.cli.publishing import (
    Begun,
    Budget,
    Epsilon,
    Key,
    Payer,
    Publish,
    State,
    key_now,
    leaving_no_empty,
    refuse_state_in,
    refuse_unpublished,
)
from flows.cli.root import (
    JSON_LISTS,
    AsJson,
    Encoding,
    Force,
    Guard,
    Output,
    Quiet,
    Sep,
    Sheet,
    app,
    mistakes,
    named_path,
    one_table,
    print_line,
    reading_of_options,
    refuse_unwritten,
    show_rows,
    waiting_for,
    write_rows,
)

if TYPE_CHECKING:
    from flows.spending import WinShares
    from quality import Comparisons, CrowdBradleyTerry, NextPairs, RankIntervals

__all__ = ["rank"]


@app.command(epilog='Example: `crowdassay rank comparisons.csv --models "model-*" --next 10`')
def rank(
    context: typer.Context,
    comparisons: Annotated[
        Path,
        typer.Argument(
            help="table with the columns worker, left, right, winner (left, right, tie or an item), and "
            "question where there is one: a file, a folder, a pattern, or -",
            parser=named_path,
        ),
    ],
    models: Annotated[
        str | None, typer.Option(help='workers who are models, such as "model-*"')
    ] = None,
    level: Annotated[
        float, typer.Option(help="probability that all rank intervals hold at once")
    ] = 0.95,
    next_: Annotated[
        int,
        typer.Option("--next", min=0, max=10_000, help="how many comparisons to propose next"),
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="seed of the draws behind the intervals")] = 0,
    publish: Publish = None,
    epsilon: Epsilon = 1.0,
    campaign: Payer = "comparisons",
    budget: Budget = None,
    publication: Key = None,
    state: State = Path("state"),
    begun: Begun = False,
    sep: Sep = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    output: Output = None,
    guard: Guard = False,
    force: Force = False,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Rank items by which of two was preferred, with intervals, and say how each worker judges.

    With --publish also pay for private shares of wins, which may be shown, with the ranks that follow from
    them: `crowdassay budget` lists what was spent, and the same publication is never paid twice.
    """
    import numpy as np  # these load numba and DuckDB, for this command only

    from flows.spending import check_rank_level
    from flows.tables import inputs_of, read_comparisons, reading_of_comparisons
    from quality import crowd_bradley_terry, dependent_groups, next_pairs, rank_intervals

    with mistakes(), leaving_no_empty(publish):
        check_rank_level(level)
        refuse_unpublished(context, publish)
        refuse_unwritten(context, {"--output": output}, {"--publish": publish})
        if publish is not None:
            refuse_state_in(publish, state)
        asked = _asked(
            publish, inputs_of(comparisons), force, campaign=campaign, epsilon=epsilon, budget=budget,
            publication=publication, level=level, begun=begun,
        )  # fmt: skip
        written = output_file(output, [comparisons], force)
        reading = reading_of_comparisons(reading_of_options(sep, encoding, sheet, False))
        needed = ("worker", "left", "right")
        with (
            one_table(comparisons, needed, reading, tell=not json_) as file,
            waiting_for("comparisons"),
        ):
            table = read_comparisons(file)
        if models is not None:
            _check_models(table.workers, models)
        with waiting_for("ranks") as progress:
            progress("who does not answer on their own", 0, 1)
            groups = dependent_groups(table.as_labels()).group
            progress("items and workers, fitted together", 0, 1)
            found = crowd_bradley_terry(table, groups=groups, progress=progress)
            progress("intervals of the ranks", 0, 1)
            ranks = rank_intervals(
                found.score, found.covariance, level=level, rng=np.random.default_rng(seed)
            )
            progress("which pairs to compare next", 0, 1)
            pairs = next_pairs(found.score, found.covariance, n=next_) if next_ else None
            progress("the publication", 0, 1)
            published = None if asked is None else asked(table, state)
        header, rows = _item_rows(table, found, ranks)
        sentences = _sentences(found, int((groups >= 0).sum()), models, pairs)
        if published is not None and publish is not None:
            sentences += _published_sentences(published, publish)
        if json_:
            write_rows(header, rows, written, numbers=header[1:], guard=guard)
            more = {} if published is None else {"published": published.public()}
            told = {"sentences": sentences}
            print(json.dumps(_as_json(found, ranks, pairs) | more | told))
        else:
            show_rows("Items", header, rows, written, numbers=header[1:], guard=guard)
            header, rows = _worker_rows(table, found)
            show_rows(
                "Workers, most informative first", header, rows, None, numbers=header[1:],
                all_by=JSON_LISTS,
            )  # fmt: skip
            for line in sentences:
                print_line(line)


def _asked(
    publish: Path | None, inputs: tuple[Path, ...], force: bool, **terms: Any
) -> Callable[[Comparisons, Path], WinShares] | None:
    """Check what a publication needs, before anything is read; return how it is made and written."""
    if publish is None:
        return None
    from flows.report import WIN_SHARES  # Jinja, for this option only
    from flows.spending import PublicationTerms, publish_win_shares

    terms["publication"] = key_now(terms["publication"])
    files = WIN_SHARES.files(publish, inputs=inputs, force=force)

    def publish_shares(table: Comparisons, state: Path) -> WinShares:
        shares = publish_win_shares(state, table, PublicationTerms(**terms))
        WIN_SHARES.write(files, shares.public())
        return shares

    return publish_shares


def _published_sentences(shares: WinShares, folder: Path) -> list[str]:
    """Return lines about the publication, its price, and facts for the team alone."""
    from privacy.accounting import level_text, price_text  # loaded already by what was published

    key = "" if shares.terms.publication is None else f"publication {shares.terms.publication}, "
    again = " (paid for before)" if shares.paid_before else ""
    lines = [
        f"published: {key}{len(shares.items):,} items{again} at epsilon {price_text(shares.terms.epsilon)}, "
        f"each within ±{shares.half_width / 2:g} wins at {level_text(shares.terms.level)}; "
        f"{price_text(shares.spent)} of {price_text(shares.budget.epsilon, left=True)} spent; "
        f"{folder / 'public.html'}"
    ]
    if shares.stale:
        lines.append("internal: it stays as it was published, and answers have changed since")
    return lines


def _item_rows(
    table: Comparisons, found: CrowdBradleyTerry, ranks: RankIntervals
) -> tuple[list[str], list[list[str]]]:
    """Return a header and a row per item, the best first."""
    import numpy as np  # `--help` need not load it

    n_items = len(found.items)
    met = np.bincount(table.left, minlength=n_items) + np.bincount(table.right, minlength=n_items)
    won = np.bincount(table.left[table.outcome == 0], minlength=n_items)
    won = won + np.bincount(table.right[table.outcome == 1], minlength=n_items)
    rows = [
        [
            str(found.items[i]), str(ranks.rank[i]), str(ranks.best[i]), str(ranks.worst[i]),
            f"{found.score[i]:z.3f}", f"{np.sqrt(found.covariance[i, i]):.3f}",
            str(met[i]), str(won[i]),
        ]
        for i in np.argsort(ranks.rank)
    ]  # fmt: skip
    header = ["item", "rank", "best", "worst", "score", "standard error", "comparisons", "won"]
    return header, rows


def _worker_rows(table: Comparisons, found: CrowdBradleyTerry) -> tuple[list[str], list[list[str]]]:
    """Return a header and a row per worker, by the information in an answer of hers."""
    import numpy as np  # `--help` need not load it

    given = np.diff(table.worker_start)
    rows = [
        [
            str(found.workers[k]), str(given[k]), f"{found.discrimination[k]:z.2f}",
            f"{found.position[k]:z.2f}", f"{found.tie[k]:z.2f}", f"{found.information[k]:.2f}",
        ]
        for k in np.argsort(-found.information, kind="stable")
    ]  # fmt: skip
    return ["worker", "comparisons", "discrimination", "left", "tie", "worth"], rows


def _sentences(
    found: CrowdBradleyTerry, n_grouped: int, models: str | None, pairs: NextPairs | None
) -> list[str]:
    """Return a line for each other finding."""
    lines = []
    if n_grouped:
        lines.append(
            f"{n_grouped} workers do not answer on their own: each group of them has one vote on a question"
        )
    if found.dispersion > 1.2:
        lines.append(
            f"answers to one question agree more than the model explains: intervals are "
            f"{found.dispersion**0.5:.2f} times as wide"
        )
    if models is not None:
        lines += _model_lines(found, models)
    if pairs is not None:
        both = zip(found.items[pairs.item], found.items[pairs.other], strict=True)
        names = (f"{item} : {other}" for item, other in both)
        lines.append("compare next: " + "; ".join(names))
    return lines


def _check_models(workers: Iterable[object], pattern: str) -> None:
    """Raise SettingsError unless the pattern names some of the workers, and not all."""
    from flows.settings import SettingsError  # pydantic, for this command only

    named = [fnmatchcase(str(name), pattern) for name in workers]
    if all(named) or not any(named):
        raise SettingsError(f"--models {pattern} must name some of the workers and leave people")


def _model_lines(found: CrowdBradleyTerry, pattern: str) -> list[str]:
    """Return a line for each model: how many answers of people one of its answers is worth."""
    is_model = [fnmatchcase(str(name), pattern) for name in found.workers]
    people = [w for w, model in zip(found.information, is_model, strict=True) if not model]
    mean = sum(people) / len(people)
    return [
        f"{name}: an answer says as much as {worth / mean:.1f} answers of the average person, if its "
        "errors are its own"
        for name, worth, model in zip(found.workers, found.information, is_model, strict=True)
        if model
    ]


def _as_json(
    found: CrowdBradleyTerry, ranks: RankIntervals, pairs: NextPairs | None
) -> dict[str, Any]:
    """Return all results as one object for JSON."""
    items = [
        {
            "item": str(found.items[i]),
            "rank": int(ranks.rank[i]),
            "best": int(ranks.best[i]),
            "worst": int(ranks.worst[i]),
            "score": float(found.score[i]),
            "standard_error": float(found.covariance[i, i] ** 0.5),
        }
        for i in range(len(found.items))
    ]
    workers = [
        {
            "worker": str(found.workers[k]),
            "discrimination": float(found.discrimination[k]),
            "position": float(found.position[k]),
            "tie": float(found.tie[k]),
            "worth": float(found.information[k]),
        }
        for k in range(len(found.workers))
    ]
    chosen = (
        []
        if pairs is None
        else [
            [str(item), str(other)]
            for item, other in zip(found.items[pairs.item], found.items[pairs.other], strict=True)
        ]
    )
    return {
        "items": items,
        "workers": workers,
        "next": chosen,
        "dispersion": found.dispersion,
        "converged": found.converged,
    }
