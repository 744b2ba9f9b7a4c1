"""Verdict logs of models that judge: Inspect, promptfoo, DeepEval and lm-evaluation-harness, as JSON.

A judge is a worker, what it judged a task, its verdict the label, and the criterion the question. Every row
is of the kind "model". Prompts, outputs and reasons are never read.

- Inspect: a log as JSON (`inspect log convert --to json`). Judges are the scorers; a score with several
  values has a question for each. A sample of a later epoch is a task of its own.
- promptfoo: `promptfoo eval --output results.json`. Judges are the providers of the assertions, or their
  types; questions are the metrics, or the types.
- DeepEval: a test run (`.deepeval/.latest_test_run.json`). Judges are the evaluation models, questions the
  metrics.
- lm-evaluation-harness: a file of `--log_samples`. The judge is the model that answered, after which the
  harness names the folder; of choices with likelihoods the label is the number of the likeliest.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flows.importers.records import expect, keys_of, name_in, read_records
from flows.importers.responses import Dropped, Response
from flows.tables import TableError

__all__ = ["read_deepeval", "read_inspect", "read_lm_eval", "read_promptfoo"]

VERDICT, KIND = "verdict", "model"
Record = dict[str, Any]


def read_inspect(path: Path, columns: Mapping[str, str]) -> Iterator[Response]:
    """Yield the scores of a log's samples; those without a value count as skipped."""
    for row, log in read_records(path, ("eval", "samples"), "an Inspect log"):
        samples = expect(log["samples"], list, "samples", path.name, row)
        for place, found in enumerate(samples, start=1):
            sample = expect(found, dict, "a sample", path.name, place)
            task, epoch = (name_in(sample, key, path.name, place) for key in ("id", "epoch"))
            task = task if epoch in ("", "1") else f"{task}/{epoch}"
            for judge, given in _items(sample, "scores", path.name, place):
                score = expect(given, dict, "a score", path.name, place)
                value = score.get("value")
                answers = value if isinstance(value, dict) else {VERDICT: value}
                yield _verdict(place, judge, task, answers, None)


def read_promptfoo(path: Path, columns: Mapping[str, str]) -> Iterator[Response]:
    """Yield the results of every assertion; a row that ended in an error has none."""
    of = "a promptfoo result"
    for row, file in read_records(path, ("results",), of):
        inner = expect(file["results"], dict, "results", path.name, row)
        for place, found in enumerate(
            expect(inner.get("results"), list, "results of results", path.name, row), start=1
        ):
            result = expect(found, dict, "a result", path.name, place)
            task = _promptfoo_task(result, path.name, place)
            graded = expect(
                result.get("gradingResult") or {}, dict, "gradingResult", path.name, place
            )
            seen = Counter[tuple[str, str]]()
            for part in expect(
                graded.get("componentResults") or [], list, "componentResults", path.name, place
            ):
                component = expect(part, dict, "a component result", path.name, place)
                judge, question = _assertion(component, path.name, place)
                seen[judge, question] += 1
                if seen[judge, question] > 1:
                    question = f"{question} {seen[judge, question]}"
                yield _verdict(place, judge, task, {question: _passed(component.get("pass"))}, None)


def read_deepeval(path: Path, columns: Mapping[str, str]) -> Iterator[Response]:
    """Yield whether each metric was met; one that ended in an error counts as unfinished."""
    of = "a DeepEval test run"
    for row, file in read_records(path, (), of):
        run = expect(file.get("testRunData", file), dict, "testRunData", path.name, row)
        if "testCases" not in run:
            raise TableError(
                f"{path.name}, record {row}: must have the key testCases to be of {of}; it has "
                f"{keys_of(run)}; check --format"
            )
        cases = expect(run["testCases"], list, "testCases", path.name, row)
        for place, found in enumerate(cases, start=1):
            case = expect(found, dict, "a test case", path.name, place)
            task = name_in(case, "name", path.name, place)
            data = expect(case.get("metricsData") or [], list, "metricsData", path.name, place)
            for part in data:
                metric = expect(part, dict, "a metric", path.name, place)
                question = name_in(metric, "name", path.name, place)
                judge = name_in(metric, "evaluationModel", path.name, place) or question
                failed = Dropped.unfinished if metric.get("error") else None
                answers = {question: _passed(metric.get("success"))}
                yield _verdict(place, judge, task, answers, failed)


def read_lm_eval(path: Path, columns: Mapping[str, str]) -> Iterator[Response]:
    """Yield the model's answers, a question for each filter."""
    judge = path.resolve().parent.name
    needed = ("doc_id", "filtered_resps")
    for row, record in read_records(path, needed, "samples of lm-evaluation-harness"):
        given = expect(record["filtered_resps"], list, "filtered_resps", path.name, row)
        question = name_in(record, "filter", path.name, row) or "none"
        answer = _likeliest(given) if len(given) > 1 else next(iter(given), None)
        task = name_in(record, "doc_id", path.name, row)
        yield _verdict(row, judge, task, {question: answer}, None)


def _verdict(
    row: int, judge: str, task: str, answers: Mapping[str, object], dropped: Dropped | None
) -> Response:
    return Response(row, judge, task, answers, None, dropped, partly=True, kind=KIND)


def _items(record: Record, key: str, file: str, row: int) -> list[tuple[str, Any]]:
    return list(expect(record.get(key) or {}, dict, key, file, row).items())


def _passed(value: object) -> object:
    """Return a verdict of true or false as a word; anything else as it is."""
    return {True: "pass", False: "fail"}[value] if isinstance(value, bool) else value


def _promptfoo_task(result: Record, file: str, row: int) -> str:
    """Return the id of a result, or without one the numbers of its test and prompt and its provider."""
    if result.get("id") is not None:
        return name_in(result, "id", file, row)
    provider = result.get("provider")
    named = provider.get("id") if isinstance(provider, dict) else provider
    numbers = (name_in(result, key, file, row) for key in ("testIdx", "promptIdx"))
    return "/".join([*numbers, str(named or "")])


def _assertion(component: Record, file: str, row: int) -> tuple[str, str]:
    """Return judge and question of a component result."""
    found = expect(component.get("assertion") or {}, dict, "an assertion", file, row)
    kind = name_in(found, "type", file, row) or "assertion"
    provider = found.get("provider")
    named = provider.get("id") if isinstance(provider, dict) else provider
    judge = named if isinstance(named, str) and named else kind
    return judge, name_in(found, "metric", file, row) or kind


def _likeliest(given: list[Any]) -> object:
    """Return the number of the choice with the largest log-likelihood; other answers as they are."""
    likely = [_log_likelihood(one) for one in given]
    return given if any(map(math.isnan, likely)) else likely.index(max(likely))


def _log_likelihood(one: object) -> float:
    """Return the log-likelihood of a choice, which the harness writes as text; NaN where there is none."""
    try:
        return float(one[0]) if isinstance(one, list) and one else math.nan
    except (TypeError, ValueError):
        return math.nan
