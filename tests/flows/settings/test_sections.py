"""Combinations of settings that cannot be: each is refused before any table is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.settings import SettingsError
from flows.settings.settings import load_settings

MINIMAL = 'name = "c"\n[input]\nlabels = "labels.csv"\n'
BUDGET = "[privacy]\nepsilon = 4.0\n"
TASKS = 'tasks = ["tasks.csv"]\n'
GOLD = 'gold = "gold.csv"\n'
LEARNS = MINIMAL + TASKS + BUDGET + "[model]\nnorm_bound = 1.0\n"
DESCENDS = (
    MINIMAL + TASKS + BUDGET + "delta = 1e-6\n"
    '[model]\nnorm_bound = 1.0\nmethod = "noisy_descent"\ndelta_train = 1e-6\n'
)


def load(folder: Path, text: str) -> None:
    path = folder / "settings.toml"
    path.write_text(text, encoding="utf-8")
    load_settings(path)


@pytest.mark.parametrize(
    ("text", "mended", "sentence"),
    [
        (
            MINIMAL + BUDGET + "delta = 1e-6\nproportions_delta = 1e-5\n",
            MINIMAL + BUDGET + "delta = 1e-5\nproportions_delta = 1e-5\n",
            "privacy: proportions_delta must be at most delta, got 1e-05 of 1e-06",
        ),
        (
            MINIMAL + BUDGET + "planned_tasks = 100\n",
            MINIMAL + BUDGET + "planned_tasks = 100\nplanned_runs = 12\n",
            "privacy: planned_tasks is for planned_runs above 1",
        ),
        (
            MINIMAL + BUDGET + 'unpaid = "skip"\n',
            MINIMAL + BUDGET + 'unpaid = "skip"\npublication = "2026-11"\n',
            'privacy: unpaid = "skip" needs a publication key or planned_runs',
        ),
        (
            MINIMAL + BUDGET + "planned_runs = 12\nplanned_releases = 2\n",
            MINIMAL + BUDGET + "planned_runs = 12\n",
            "privacy: give planned_runs, which pays for the counts too, or planned_releases",
        ),
        (
            MINIMAL
            + TASKS
            + BUDGET
            + "planned_runs = 2\n[model]\nnorm_bound = 1.0\nepsilon_score = 1.0\n",
            MINIMAL + TASKS + BUDGET + "planned_runs = 2\n[model]\nnorm_bound = 1.0\n",
            "model.epsilon_score must be left out with privacy.planned_runs",
        ),
        (
            LEARNS + '[gate]\nthreshold = "auto"\nsigma = 0.1\n',
            LEARNS + '[gate]\nthreshold = "auto"\n',
            'gate: sigma must be left out with threshold = "auto", which settles it too',
        ),
        (
            LEARNS + "[gate]\nsigma = 0.1\n",
            LEARNS + "[gate]\nsigma = 0.05\n",
            "gate: sigma must be below threshold, or noise alone refutes, got 0.1 and 0.1",
        ),
        (
            MINIMAL + BUDGET + "[model]\nnorm_bound = 1.0\n",
            MINIMAL + TASKS + BUDGET + "[model]\nnorm_bound = 1.0\n",
            "[model] needs input.tasks",
        ),
        (
            MINIMAL + '[groups]\npattern = "(x)"\n',
            MINIMAL + TASKS + '[groups]\npattern = "(x)"\n',
            "groups.pattern needs input.tasks",
        ),
        (
            MINIMAL + '[groups]\ncolumn = "site"\n',
            MINIMAL + TASKS + '[groups]\ncolumn = "site"\n',
            "groups.column needs input.tasks",
        ),
        (
            MINIMAL + TASKS + '[groups]\ncolumn = "task"\n',
            MINIMAL + TASKS + '[groups]\ncolumn = "site"\n',
            'groups: column must not be "task": every task would be its own group',
        ),
        (
            MINIMAL + "[consensus]\nuse_gold = true\n",
            MINIMAL + 'gold = "gold.csv"\n[consensus]\nuse_gold = true\n',
            "consensus.use_gold needs input.gold",
        ),
        (
            MINIMAL + 'seconds = "label"\n',
            MINIMAL + 'seconds = "time"\n',
            "input: seconds must name a column of its own, got 'label'",
        ),
        (
            'classes = ["a", "b "]\n' + MINIMAL,
            'classes = ["a", "b"]\n' + MINIMAL,
            "classes must have no blanks around them",
        ),
        (
            'classes = ["a", ""]\n' + MINIMAL,
            'classes = ["a", "b"]\n' + MINIMAL,
            "classes must have no blanks around them",
        ),
        (
            MINIMAL + "[privacy]\nepsilon = true\n",
            MINIMAL + "[privacy]\nepsilon = 1\n",
            "privacy.epsilon: input should not be true or false, got True",
        ),
        (
            LEARNS + "regularization = [true, 0.5]\n",
            LEARNS + "regularization = [1.0, 0.5]\n",
            "model.regularization: input should not be true or false, got [True, 0.5]",
        ),
        (
            DESCENDS + "regularization = [0.1]\n",
            DESCENDS,
            'model: regularization must be left out with method = "noisy_descent"',
        ),
        (
            MINIMAL + TASKS + '[topics]\ntext = "words"\nlevels = [true]\n',
            MINIMAL + TASKS + '[topics]\ntext = "words"\nlevels = [1]\n',
            "topics.levels: input should not be true or false, got [True]",
        ),
    ],
)
def test_an_impossible_combination_is_refused_and_the_mended_one_is_not(
    tmp_path: Path, text: str, mended: str, sentence: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, text)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    load(tmp_path, mended)


@pytest.mark.parametrize(
    ("text", "mended", "sentence"),
    [
        (
            MINIMAL + "[gate]\nholdout = 0.2\n",
            LEARNS + "[gate]\nholdout = 0.2\n",
            "[gate] needs a [model] section: it judges the model",
        ),
        *(
            (MINIMAL + line, MINIMAL + TASKS + line, f"input.{line.split()[0]} needs input.tasks")
            for line in (
                'features = ["x*"]\n', 'ignore = ["note"]\n', 'shown = ["text"]\n', "standardize = true\n",
            )
        ),
        *(
            (
                MINIMAL + GOLD + "[report]\n" + line,
                MINIMAL + TASKS + GOLD + "[report]\n" + line,
                f"report.{line.split()[0]} needs input.tasks",
            )
            for line in (
                "error_features = true\n", "decision_images = true\n", 'psychometric = "boundary"\n',
            )
        ),
        *(
            (
                MINIMAL + f'gold_sampling = "{sampling}"\n',
                MINIMAL + GOLD + f'gold_sampling = "{sampling}"\n',
                f'input.gold_sampling = "{sampling}" needs input.gold',
            )
            for sampling in ("random", "stratified")
        ),
        (
            MINIMAL + TASKS + "[report]\nerror_features = true\n",
            MINIMAL + TASKS + GOLD + "[report]\nerror_features = true\n",
            "report.error_features needs input.gold",
        ),
        (
            MINIMAL + TASKS + GOLD + "[consensus]\nuse_gold = true\n[report]\nerror_features = true\n",
            MINIMAL + TASKS + GOLD + "[consensus]\nuse_gold = true\n",
            "report.error_features needs input.gold, and consensus.use_gold = false",
        ),
        (
            MINIMAL + TASKS + "[report]\nimage_shape = [2, 2]\n",
            MINIMAL + TASKS + "[report]\nimage_shape = [2, 2]\ndecision_images = true\n",
            "report: image_shape needs decision_images = true",
        ),
        (
            LEARNS.replace(BUDGET, BUDGET + "delta = 1e-4\n")
            + 'delta_train = 1e-5\nmethod = "objective_perturbation"\n',
            LEARNS.replace(BUDGET, BUDGET + "delta = 1e-4\n")
            + 'delta_train = 1e-5\nmethod = "auto"\n',
            "model.delta_train must be 0 with model.method",
        ),
        (
            MINIMAL + "[report]\nplan_search = true\nplan_labels = 0\n",
            MINIMAL + "[report]\nplan_search = true\nplan_labels = 1\n",
            "report: plan_search needs plan_labels above 0",
        ),
        *(
            (
                LEARNS.replace(BUDGET, BUDGET + "planned_runs = 2\n") + f"[gate]\n{line}",
                LEARNS.replace(BUDGET, BUDGET + "planned_runs = 2\n") + "[gate]\nthreshold = 0.2\n",
                f"gate.{line.split()[0]} must be left out with privacy.planned_runs",
            )
            for line in ("sigma = 0.01\n", "budget = 2\n")
        ),
    ],
)  # fmt: skip
def test_a_key_that_nothing_would_read_is_refused(
    tmp_path: Path, text: str, mended: str, sentence: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, text)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    load(tmp_path, mended)


@pytest.mark.parametrize("key", ["runs", "state"])
@pytest.mark.parametrize(
    "address", ["s3://bucket/kept", "file:///srv/kept", "postgresql://ann:secret@host/kept"]
)
def test_runs_and_state_lie_in_folders_of_this_machine(
    tmp_path: Path, key: str, address: str
) -> None:
    """A folder of the address's name was made under the working folder: elsewhere, another ledger."""
    with pytest.raises(SettingsError, match=f"{key} must be a folder .* CROWDASSAY_LEDGER") as told:
        load(tmp_path, f'{key} = "{address}"\n{MINIMAL}')
    assert "secret" not in str(told.value)
    load(tmp_path, f'{key} = "kept/of-s3"\n{MINIMAL}')


@pytest.mark.parametrize("place", ["runs", "state", "input.labels", "input.gold", "input.tasks"])
@pytest.mark.parametrize("path", ["~", "~/kept"])
def test_a_path_does_not_begin_with_the_shells_home(tmp_path: Path, place: str, path: str) -> None:
    """A folder called ~ was made beside the settings."""
    *section, key = place.split(".")
    given = f'["{path}"]' if key == "tasks" else f'"{path}"'
    text = f"{MINIMAL}{key} = {given}\n" if section else f"{key} = {given}\n{MINIMAL}"
    if key == "labels":
        text = MINIMAL.replace('"labels.csv"', given)
    with pytest.raises(SettingsError, match=f"{place}: must be a path without ~, .* write it out"):
        load(tmp_path, text)
    load(tmp_path, text.replace(path, "~kept"))


@pytest.mark.parametrize(
    ("text", "key"),
    [(MINIMAL + BUDGET + "level = ", "privacy.level"), (LEARNS + "[gate]\nconfidence = ", "gate.confidence")],
)  # fmt: skip
def test_a_confidence_is_one_that_bounds_can_be_given_at(
    tmp_path: Path, text: str, key: str
) -> None:
    """Beyond, the bounds were refused after the holdout's answer was paid for."""
    for number in ("1e-17", "0.9999999999", "0.0", "1.0", "nan"):
        with pytest.raises(SettingsError, match=rf"{key}: input should be .* got {number}"):
            load(tmp_path, text + number)
    for number in ("1e-9", "0.999999999"):
        load(tmp_path, text + number)
