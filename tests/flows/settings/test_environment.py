"""Settings from the environment: what they override, what is refused, and what never enters them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.pipeline import run_pipeline
from flows.settings import Settings, SettingsError, section_of
from flows.settings.environment import variables_of
from flows.settings.settings import load_settings
from tests.flows.campaign import write_small_campaign
from tests.flows.run.test_canaries import trace

MINIMAL = 'name = "c"\nclasses = ["a", "b"]\n[input]\nlabels = "labels.csv"\n'
CANARY = "zebra8675309"


def write(folder: Path, text: str = MINIMAL) -> Path:
    path = folder / "settings.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_key_has_one_variable() -> None:
    keys = {
        (name, *inside)
        for name, field in Settings.model_fields.items()
        for section in [section_of(field.annotation)]
        for inside in ([()] if section is None else [(key,) for key in section.model_fields])
    }
    known = variables_of(Settings)
    assert set(known.values()) == keys
    assert len(known) == len(keys)
    assert known["CROWDASSAY__PRIVACY__EPSILON"] == ("privacy", "epsilon")
    assert known["CROWDASSAY__RUNS"] == ("runs",)


def test_the_environment_stands_in_for_the_files_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, MINIMAL + "[privacy]\nepsilon = -1.0\nlevel = 0.8\n")
    for name, value in {
        "CROWDASSAY__PRIVACY__EPSILON": "2",
        "CROWDASSAY__PRIVACY__UNIT": "answer",
        "CROWDASSAY__CONSENSUS__AGGREGATOR": "majority_vote",
        "CROWDASSAY__CONSENSUS__GROUPS": "ignore",
        "CROWDASSAY__RUNS": "/data/runs",
        "CROWDASSAY__STATE": "elsewhere",
        "CROWDASSAY__NAME": "2026",
        "CROWDASSAY__CLASSES": '["x", "y", "z"]',
        "CROWDASSAY__INPUT__TASKS": '["a.csv"]',
        "CROWDASSAY__FILTER__N_WORKERS": "0",
        "CROWDASSAY__INPUT__STANDARDIZE": "true",
    }.items():
        monkeypatch.setenv(name, value)
    settings = load_settings(path)
    assert settings.privacy is not None
    assert (settings.privacy.epsilon, settings.privacy.level) == (2.0, 0.8)
    assert settings.privacy.unit == "answer"
    assert settings.runs == Path("/data/runs")
    assert settings.state == tmp_path / "elsewhere"
    assert (settings.name, settings.classes) == ("2026", ("x", "y", "z"))
    assert settings.input.tasks == (tmp_path / "a.csv",)
    assert (settings.filter.n_workers, settings.input.standardize) == (0, True)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        (
            "CROWDASSAY__PRIVACY__EPSILN",
            "2",
            "unknown environment variable CROWDASSAY__PRIVACY__EPSILN; "
            "did you mean CROWDASSAY__PRIVACY__EPSILON?",
        ),
        ("CROWDASSAY_PRIVACY_EPSILON", "2", "did you mean CROWDASSAY__PRIVACY__EPSILON?"),
        ("CROWDASSAY__privacy__epsilon", "2", "did you mean CROWDASSAY__PRIVACY__EPSILON?"),
        ("CROWDASSAY__PRIVACY", "2", "unknown environment variable CROWDASSAY__PRIVACY; did you"),
        ("CROWDASSAY__Q", "2", "its form is CROWDASSAY__SECTION__KEY"),
        ("CROWDASSAY__RUNS", " ", "CROWDASSAY__RUNS must have a value, got an empty one"),
        ("CROWDASSAY__CLASSES", "a,b", "CROWDASSAY__CLASSES must be a list as TOML has it"),
        ("CROWDASSAY__CLASSES", '"a"', "CROWDASSAY__CLASSES must be a list as TOML has it"),
        (
            "CROWDASSAY__PRIVACY__EPSILON",
            "-2",
            "privacy.epsilon: input should be greater than 0, got '-2'; "
            "set by the environment: CROWDASSAY__PRIVACY__EPSILON",
        ),
        (
            "CROWDASSAY__GATE__SIGMA",
            "0.5",
            "gate: sigma must be below threshold, or noise alone refutes, got 0.5 and 0.1; "
            "set by the environment: CROWDASSAY__GATE__SIGMA",
        ),
        (
            "CROWDASSAY__MODEL__NORM_BOUND",
            "2",
            "CROWDASSAY__MODEL__NORM_BOUND needs a [model] section in the settings file",
        ),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, sentence: str
) -> None:
    path = write(tmp_path, MINIMAL + "[privacy]\nepsilon = 1.0\n")
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as caught:
        load_settings(path)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    told = CliRunner().invoke(app, ["run", str(path), "--no-prefect"])
    assert told.exit_code == 2


def test_a_fault_of_the_file_is_not_laid_to_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROWDASSAY__RUNS", "/data/runs")
    with pytest.raises(SettingsError, match=r"got -1\.0$"):
        load_settings(write(tmp_path, MINIMAL + "[privacy]\nepsilon = -1.0\n"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (MINIMAL.replace('["a", "b"]', '["a"]'), "classes must name two or more, got 1"),
        (MINIMAL + "sheat = 1\n", "unknown key 'input.sheat'; did you mean 'sheet'?"),
        (MINIMAL + "[consensus]\nuse_gold = true\n", "consensus.use_gold needs input.gold"),
    ],
)
def test_a_fault_of_several_keys_or_an_unknown_one_is_not_laid_to_it_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, sentence: str
) -> None:
    """Every variable that was set was named; and of two faults the place of the other was."""
    monkeypatch.setenv("CROWDASSAY__FILTER__FRACTION", "2" if "sheat" in text else "0.2")
    with pytest.raises(SettingsError) as caught:
        load_settings(write(tmp_path, text))
    assert str(caught.value).endswith(sentence)


def test_a_fault_of_several_keys_names_the_variables_that_set_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROWDASSAY__CONSENSUS__USE_GOLD", "true")
    monkeypatch.setenv("CROWDASSAY__SEED", "3")
    with pytest.raises(SettingsError, match="environment: CROWDASSAY__CONSENSUS__USE_GOLD$"):
        load_settings(write(tmp_path))


def test_the_manifest_records_what_the_environment_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_small_campaign(tmp_path)
    path.write_text(path.read_text().partition("[privacy]")[0])
    monkeypatch.setenv("CROWDASSAY__RUNS", str(tmp_path / "deployed"))
    monkeypatch.setenv("CROWDASSAY__SEED", "77")
    result = run_pipeline(load_settings(path))
    assert result.folder.parent == tmp_path / "deployed"
    manifest = json.loads((result.folder / "manifest.json").read_text())
    assert manifest["settings"]["seed"] == 77
    assert manifest["settings"]["runs"] == str(tmp_path / "deployed")


def test_secrets_of_the_environment_enter_no_settings_and_no_run_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole run that opens no ledger, and one that cannot reach it, with its password in the URL."""
    path = write_small_campaign(tmp_path)
    url = f"postgresql+psycopg://ledger:{CANARY}@127.0.0.1:1/ledger"
    monkeypatch.setenv("CROWDASSAY_LEDGER", url)
    refused = CliRunner().invoke(app, ["run", str(path), "--no-prefect"])
    assert refused.exit_code == 2
    assert CANARY not in refused.output + refused.stderr
    path.write_text(path.read_text().partition("[privacy]")[0])
    settings = load_settings(path)
    assert CANARY not in repr(settings) + settings.model_dump_json()
    result = run_pipeline(settings)
    files = [one for one in tmp_path.rglob("*") if one.is_file()]
    assert result.folder / "manifest.json" in files
    assert [one.name for one in files if CANARY in trace(one)] == []


def test_a_secret_given_in_the_form_of_an_override_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROWDASSAY__LEDGER", f"postgresql://ledger:{CANARY}@host/ledger")
    told = CliRunner().invoke(app, ["run", str(write(tmp_path)), "--no-prefect"])
    assert told.exit_code == 2
    assert "unknown environment variable CROWDASSAY__LEDGER" in told.stderr
    assert CANARY not in told.output + told.stderr
