"""Settings: what is refused, in which words, and how paths are resolved."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.settings import Section, Settings, SettingsError, key_sentences, section_of
from flows.settings.settings import load_settings
from privacy import Unit

MINIMAL = 'name = "c"\n[input]\nlabels = "labels.csv"\n'


def write(folder: Path, text: str) -> Path:
    path = folder / "settings.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_campaigns_folder_must_have_a_path_that_runs_can_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under LC_ALL=C with PYTHONUTF8=0 every name beyond ASCII is none: renaming is not what helps."""
    folder = tmp_path / os.fsdecode(b"campagne d\xe9j\xe0")
    try:
        folder.mkdir()
    except OSError:  # a file system that takes UTF-8 alone
        return
    (folder / "settings.toml").write_text(MINIMAL)
    with pytest.raises(
        SettingsError, match=r"path of UTF-8 text, got '.*d\\udce9j\\udce0'; rename it"
    ):
        load_settings(folder / "settings.toml")
    monkeypatch.setattr("flows.files.sys.getfilesystemencoding", lambda: "ascii")
    with pytest.raises(SettingsError, match=r"reads names as ascii: set PYTHONUTF8=1, or LC_ALL="):
        load_settings(folder / "settings.toml")


def test_settings_that_come_through_a_pipe_are_refused(tmp_path: Path) -> None:
    """A run reads them more than once: it waited for ever, or missed the first key."""
    os.mkfifo(tmp_path / "settings.toml")
    with pytest.raises(SettingsError, match="is a pipe or a device, .*; save what comes, and name"):
        load_settings(tmp_path / "settings.toml")


def test_paths_are_relative_to_the_settings_file(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, MINIMAL))
    assert settings.input.labels == tmp_path / "labels.csv"
    assert settings.state == tmp_path / "state"


def test_what_is_absent_is_switched_off(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, MINIMAL))
    assert (settings.privacy, settings.model, settings.classes) == (None, None, None)


def test_the_budget_names_its_unit(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, MINIMAL + "[privacy]\nepsilon = 1.0\n"))
    assert settings.privacy is not None
    assert settings.privacy.unit is Unit.CONSENSUS_LABEL


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            MINIMAL + "[filter]\nfracton = 0.1\n",
            "unknown key 'filter.fracton'; did you mean 'fraction'?",
        ),
        (
            MINIMAL + "[privacy]\nepsilon = -1\n",
            "privacy.epsilon: input should be greater than 0, got -1",
        ),
        (
            MINIMAL + "[privacy]\nepsilon = nan\n",
            "privacy.epsilon: input should be a finite number, got nan",
        ),
        (MINIMAL + "[model]\nnorm_bound = 1.0\n", "[model] needs a [privacy] section"),
        (
            'keep_runs = "90days"\n' + MINIMAL,
            "keep_runs: must be a number of runs, such as 20, or an age, such as \"90 days\", got '90days'",
        ),
        ('classes = ["a\\u0000", "a"]\n' + MINIMAL, "classes must hold no NUL"),
        (
            MINIMAL.replace('name = "', f'name = "{"n" * 300}'),
            "a letter or digit first, at most 200 in all, got",
        ),
        (MINIMAL + 'sep = "\\u0000"\n', 'sep must be one letter, such as ";" or'),
        (
            MINIMAL + "[filter]\nfraction = 0.1\nn_workers = 3\n",
            "give one of false_removal_rate, n_workers and fraction",
        ),
        (
            MINIMAL + '[filter]\npenalty = "hard"\nfalse_removal_rate = 0.1\n',
            'false_removal_rate is for penalty = "soft"',
        ),
        (
            MINIMAL + '[consensus]\naggregator = "glad"\nsmoothing = 1.0\n',
            "smoothing is for dawid_skene, one_coin_dawid_skene, not for glad",
        ),
        (
            MINIMAL + '[consensus]\naggregator = "majority_vote"\nuse_gold = true\n',
            "use_gold is for dawid_skene, hierarchical_dawid_skene, mace, one_coin_dawid_skene",
        ),
        (MINIMAL + '[groups]\npattern = "x"\n', "pattern must have a (capturing group), got 'x'"),
        (
            MINIMAL + '[groups]\npattern = "(x)"\ncolumn = "site"\n',
            "column and pattern must not both be given",
        ),
        ('name = "c"\n', "input must be given"),
        (MINIMAL + "[privacy]\nepsilom = 4.0\n", "'privacy.epsilom'; did you mean 'epsilon'?"),
        ('name = "a/b"\n[input]\nlabels = "l"\n', "name: must be letters, digits, dots"),
        (
            'name = "a"\nclasses = "cat"\n[input]\nlabels = "l"\n',
            'classes: must be a list, as in ["a", "b"] or [0.1, 1], got',
        ),
        (
            'name = "a"\n[input]\nlabels = 5\n',
            'input.labels: must be a path, as in "labels.csv", got 5',
        ),
        ('name = "a"\ninput = 5\n', "input: must be a section of keys, got 5"),
        ('name = "a"\n[input]\nlabels = l.csv\n', "texts stand in quotes"),
        ('classes = ["a"]\n' + MINIMAL, "classes must name two or more, got 1"),
        ('classes = ["a", "a"]\n' + MINIMAL, "classes must differ from one another"),
        (
            MINIMAL + 'standardize = true\n[privacy]\nepsilon = 1.0\nunit = "row"\n',
            'input.standardize must be false with privacy.unit = "row": it reads all features',
        ),
        (
            MINIMAL + "standardize = true\nfeatures_private = true\n",
            "standardize must be false with features_private: it reads all features in the clear",
        ),
        ("name = ", "must be TOML"),
        (
            'name = "c"\n[input]\nlabels = ""\n',
            "input.labels: must be a path, as in \"labels.csv\", got ''",
        ),
        ('state = " "\n' + MINIMAL, "state: must be a path, as in \"labels.csv\", got ' '"),
        ('runs = "a\\u0000"\n' + MINIMAL, "runs: must be a path, as in"),
        (MINIMAL + 'tasks = ["t.csv", ""]\n', "input.tasks: must be a list of paths, none of them"),
        (MINIMAL + 'seconds = ""\n', "input.seconds: must be a text that is not empty"),
        (
            MINIMAL + 'sheet = "a\\u0000"\n',
            "input.sheet: must be a text that is not empty and holds no",
        ),
        (MINIMAL + 'embeddings = "a\\nb"\n', "embeddings must be a file .npy, got 'a\\nb'"),
        (
            MINIMAL + "[consensus]\nsmoothing = 1e-320\n",
            "smoothing must be from 1e-100 to 1e+100",
        ),
        (
            MINIMAL + "[consensus]\nsmoothing = 1e308\n",
            "smoothing must be from 1e-100 to 1e+100, got 1e+308",
        ),
        (
            MINIMAL + "[engine]\nmemory_gb = 1e308\n",
            "engine.memory_gb: input should be less than or equal to 1000000",
        ),
        (MINIMAL + "[engine]\nmemory_gb = nan\n", "engine.memory_gb: input should be"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(write(tmp_path, text))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.toml cannot be read: No such file"):
        load_settings(tmp_path / "none.toml")


def keys_of(section: type[Section]) -> Iterator[tuple[type[Section], str]]:
    for key, field in section.model_fields.items():
        inner = section_of(field.annotation)
        yield from [(section, key)] if inner is None else keys_of(inner)


@pytest.mark.parametrize(("section", "key"), list(keys_of(Settings)))
def test_every_key_says_in_a_sentence_what_it_is_for(section: type[Section], key: str) -> None:
    said = key_sentences(section)[key]
    assert re.fullmatch(r"[A-Z][^\n|]+\.", said), said


def test_settings_cannot_be_changed(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, MINIMAL))
    with pytest.raises(ValueError, match="frozen"):
        settings.name = "d"  # type: ignore[misc]


def test_the_settings_of_the_shared_data_are_sound() -> None:
    folder = Path(__file__).resolve().parents[3] / "sample_data" / "settings"
    loaded = [load_settings(path) for path in sorted(folder.glob("*.toml"))]
    assert {s.name for s in loaded} == {"labelme", "music", "rte", "sentence_polarity", "web"}
    assert all(isinstance(s, Settings) and s.classes for s in loaded)


def test_an_address_with_a_password_is_refused_for_embeddings_too(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(
        'name = "toy"\n[input]\nlabels = "l.csv"\ntasks = ["t.csv"]\n'
        'embeddings = "s3://user:hush@crowd/e.npy"\n'
    )
    with pytest.raises(SettingsError, match="an address must hold no user, password") as refused:
        load_settings(path)
    assert "hush" not in str(refused.value)
