"""Every line in its room: folders, names, docstrings, imports, commands, and what an import costs.

Import contracts stand in pyproject.toml; here each of them is seen to fail where it is violated.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.mutants.written import WRITTEN, check_written

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("flows", "quality", "learners", "privacy")
PURE_ROOMS = ("quality", "privacy", "learners")
MODULES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
PURE = [path for path in MODULES if path.relative_to(ROOT).parts[0] in PURE_ROOMS]
SUB_ROOMS = sorted(path.parent for room in ROOMS for path in (ROOT / room).glob("*/__init__.py"))
FOLDERS = sorted(
    path
    for top in (*ROOMS, "tests")
    for path in (ROOT / top, *(ROOT / top).rglob("*"))
    if path.is_dir() and any(path.glob("*.py"))
)
BANNED = {"utils", "util", "common", "helpers", "base", "constants", "misc"}
TOP = {  # every folder and file at the top
    "benchmarks", ".ci", "docs", "flows", "learners", "privacy", "quality", "sample_data", "tests",
    "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "DECISIONS.md", "LICENSE", "Makefile", "README.md",
    "SECURITY.md", "constraints.txt", ".gitignore", "mkdocs.yml", "pyproject.toml",
}  # fmt: skip
DATABASES = re.compile(rb"SQLite format 3\0|.{8}DUCK", re.DOTALL)  # how their files begin
MAX_ENTRIES = 13
MAX_ROOM = 24  # sub-rooms and files of a room itself, whose sub-rooms ARCHITECTURE names one by one
MAX_FILES = 400  # 190 when the rooms were divided; families that came since bring their own


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def declared(path: Path) -> list[str] | None:
    """The names of a module's `__all__`; None where it has none."""
    for node in parsed(path).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return [str(element.value) for element in getattr(node.value, "elts", [])]
    return None


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_has_a_docstring_and_a_true_all(path: Path) -> None:
    assert ast.get_docstring(parsed(path))
    names = declared(path)  # ruff sorts them
    assert names is not None
    module = importlib.import_module(name_of(path))
    assert [name for name in names if not hasattr(module, name)] == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_the_heading_of_a_docstrings_section_has_a_line_of_its_own(path: Path) -> None:
    """Else the section is part of the paragraph before it, and its tests and pages do not see it."""
    text = path.read_text(encoding="utf-8")
    assert (
        re.findall(r"\b(?:Examples|Notes|Parameters|Raises|References|Returns) +-{4,}", text) == []
    )


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_file_of_more_than_500_lines_says_why(path: Path) -> None:
    reason = "Longer than 500 lines:" in (ast.get_docstring(parsed(path)) or "")
    assert reason or len(path.read_text(encoding="utf-8").splitlines()) <= 500


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_function_fits_on_a_screen_or_two(path: Path) -> None:
    """Of at most 60 lines beside its docstring."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            assert not body or (body[-1].end_lineno or 0) - body[0].lineno < 60, node.name


def tracked(folder: Path) -> list[str]:
    """The files of a checkout; a test is skipped where there is no git."""
    if shutil.which("git") is None or not (folder / ".git").exists():
        pytest.skip("no git checkout")
    listed = ["git", "-c", f"safe.directory={folder}", "ls-files", "-z"]
    shown = subprocess.run(listed, cwd=folder, capture_output=True, text=True, check=True)
    return [name for name in shown.stdout.split("\0") if (folder / name).is_file()]


def strays(folder: Path) -> list[str]:
    """What a checkout holds beside the named folders and files, and databases anywhere."""
    files = tracked(folder)
    found = [name for name in files if name.partition("/")[0] not in TOP]
    for name in files:
        with (folder / name).open("rb") as file:
            if DATABASES.match(file.read(16)):
                found.append(name)
    return found


def test_the_top_holds_the_named_folders_and_files_and_no_database_is_tracked() -> None:
    assert strays(ROOT) == []
    assert {name.partition("/")[0] for name in tracked(ROOT)} == TOP


def test_a_stray_file_and_a_database_are_seen(tmp_path: Path) -> None:
    tracked(ROOT)  # where there is git
    planted = {
        "README.md": b"",
        "nowhere": b"",
        "tests/one.py": b"SQLite format 3\0",
        "docs/two": b"8 bytes.DUCK",
    }
    for name, content in planted.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    for command in (("init", "--quiet"), ("add", ".")):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    assert strays(tmp_path) == ["nowhere", "docs/two", "tests/one.py"]


def test_no_file_or_folder_has_a_name_for_everything() -> None:
    files = [path for top in ("tests", "benchmarks") for path in (ROOT / top).rglob("*.py")]
    assert [path for path in (*FOLDERS, *MODULES, *files) if path.stem in BANNED] == []


def test_a_folder_has_at_most_13_entries_beside_its_face() -> None:
    for folder in FOLDERS:
        entries = {path.name for path in folder.iterdir()} - {
            "__init__.py",
            "__pycache__",
            "py.typed",
        }
        tops = [ROOT / room for room in ROOMS] + [ROOT / "tests" / room for room in ROOMS]
        most = MAX_ROOM if folder in tops else MAX_ENTRIES
        assert len(entries) <= most, f"{folder.relative_to(ROOT)}: {len(entries)}"


def test_the_rooms_have_at_most_400_files_beside_faces() -> None:
    assert len([path for path in MODULES if path.name != "__init__.py"]) <= MAX_FILES


def test_basenames_are_unique_within_a_room() -> None:
    for room in ROOMS:
        names = Counter(path.stem for path in MODULES if path.is_relative_to(ROOT / room))
        assert [name for name, n in names.items() if n > 1 and name != "__init__"] == [], room


@pytest.mark.parametrize("room", SUB_ROOMS, ids=name_of)
def test_a_sub_room_has_a_face(room: Path) -> None:
    """It says what the sub-room is about, and what it exports."""
    face = room / "__init__.py"
    about = ast.get_docstring(parsed(face)) or ""
    assert about
    assert "TODO" not in about
    assert declared(face)


@pytest.mark.parametrize("face", [p for p in MODULES if p.name == "__init__.py"], ids=name_of)
def test_no_name_of_a_face_is_shadowed_by_a_module(face: Path) -> None:
    modules = {path.stem for path in face.parent.iterdir() if path.name != "__init__.py"}
    assert set(declared(face) or ()) & modules == set()


def test_tests_stand_in_the_same_sub_rooms() -> None:
    for folder in FOLDERS:
        place = folder.relative_to(ROOT)
        if place.parts[0] == "tests":
            assert (ROOT / Path(*place.parts[1:])).is_dir(), place


@pytest.mark.parametrize("path", PURE, ids=name_of)
def test_pure_rooms_neither_assert_nor_print_nor_warn(path: Path) -> None:
    calls = {
        getattr(node.func, "id", getattr(node.func, "attr", ""))
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
    }
    assert not [node for node in ast.walk(parsed(path)) if isinstance(node, ast.Assert)]
    assert not calls & {"print", "warn"}


def is_kernel(node: ast.FunctionDef) -> bool:
    """Whether numba compiles it: `@kernel`, or a Python side of a compiled overload."""
    names = {getattr(getattr(d, "func", d), "id", "") for d in node.decorator_list}
    return bool(names & {"kernel", "overload", "no_type_check"})


@pytest.mark.parametrize(
    "path", [p for p in MODULES if p.is_relative_to(ROOT / "quality")], ids=name_of
)
def test_what_is_not_compiled_is_annotated(path: Path) -> None:
    """mypy lets `quality` leave annotations out, for kernels; nothing else does."""
    functions = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.FunctionDef)]
    compiled = {part for node in functions if is_kernel(node) for part in ast.walk(node)}
    for node in functions:
        given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        typed = node.returns and all(a.annotation or a.arg in ("self", "cls") for a in given)
        assert typed or node in compiled, node.name


def late_imports(node: ast.AST, *, inside: bool = False) -> Iterator[list[ast.stmt]]:
    """Blocks of imports that stand inside a function, each a run of import statements."""
    inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for field in ("body", "orelse", "finalbody", "handlers"):
        block: list[ast.stmt] = []
        for child in getattr(node, field, []) if not isinstance(node, ast.Lambda) else []:
            if inside and isinstance(child, ast.Import | ast.ImportFrom):
                block.append(child)
                continue
            if block:
                yield block
                block = []
            yield from late_imports(child, inside=inside)
        if block:
            yield block


def without_reason(text: str) -> list[int]:
    """Lines of the import blocks inside functions that give no reason in a comment.

    The comment stands on a line of the block or on the line above it; `# noqa` is no reason.
    """
    lines = text.splitlines()
    unexplained = []
    for block in late_imports(ast.parse(text)):
        first, last = block[0].lineno, block[-1].end_lineno or block[-1].lineno
        above = lines[first - 2].strip()
        near = [*lines[first - 1 : last], *([above] if above.startswith("#") else [])]
        comments = [line.partition("#")[2].strip() for line in near]
        if not any(comment and not comment.startswith("noqa") for comment in comments):
            unexplained.append(first)
    return unexplained


def test_an_import_inside_a_function_gives_its_reason() -> None:
    found = {
        name_of(path): lines
        for path in MODULES
        if (lines := without_reason(path.read_text(encoding="utf-8")))
    }
    assert found == {}


def test_an_import_inside_a_function_without_a_reason_is_seen() -> None:
    text = "def f():\n    import a  # heavy\n    import b\n    g()\n    import c\n    import d\n"
    assert without_reason(text) == [5]
    assert without_reason("def f():\n    # heavy\n    import a\n") == []
    assert without_reason("def f():\n    if g():\n        from a import b\n") == [3]


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """What `lint-imports` finds in the tree that stands in a folder."""
    code = "from importlinter.cli import lint_imports_command as lint; lint()"
    command = [sys.executable, "-c", code, "--no-cache"]
    environment = dict(os.environ, COLUMNS="1000")  # so that no line is wrapped
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_the_import_contracts_are_kept() -> None:
    linted = lint_imports(ROOT)
    assert linted.returncode == 0, linted.stdout


def copied(folder: Path) -> Path:
    """A folder that now holds the rooms, the contracts and nothing else."""
    for room in ROOMS:
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "import_contracts.py", folder / "tests")
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def plant(folder: Path, importer: str, imported: str, under: str = "def planted() -> None") -> str:
    """Add an import under a line to a copied module, and return how lint-imports shows it."""
    place = folder.joinpath(*importer.split("."))
    module = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    text = module.read_text(encoding="utf-8")
    module.write_text(f"{text}\n\n{under}:\n    import {imported}\n", encoding="utf-8")
    return f"{importer} -> {imported}"


def outside(*allowed: str) -> list[str]:
    """The modules of the four rooms that stand in none of these modules or packages."""
    inside = tuple(f"{name}." for name in allowed)
    return [name for name in map(name_of, MODULES) if not f"{name}.".startswith(inside)]


PROTECTED = {  # and the package that may import it
    "opendp": "privacy.noise",
    "dp_accounting": "privacy.accounting.composition",
    "prefect": "flows.prefect",
    "distributed": "flows.sharding",
    "privacy.noise": "privacy.ledger",
    "pandas": "flows",
}


def test_a_protected_import_is_seen_wherever_it_is_planted(tmp_path: Path) -> None:
    """In every module at once that is not allowed to."""
    copy = copied(tmp_path)
    links = {
        plant(copy, stranger, imported)
        for imported, allowed in PROTECTED.items()
        for stranger in outside(allowed, imported)
    }
    seen = set(re.findall(r"(?m)^- +(\S+ -> \S+) \(", lint_imports(copy).stdout))
    assert links - seen == set()
    assert len(links) > 1000


def against_the_order() -> Iterator[tuple[str, str]]:
    """Of each room the lowest sub-room, which may not import the highest."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for contract in settings["tool"]["importlinter"]["contracts"]:
        for room in contract.get("containers", ()):
            names = re.findall(r"\w+", " ".join(contract["layers"]))
            high, *_, low = [name for name in names if (ROOT / room / name).is_dir()]
            yield f"{room}.{low}", f"{room}.{high}"


def test_an_import_past_a_face_or_against_the_order_is_seen(tmp_path: Path) -> None:
    """Past every face: from another sub-room of the room or the next, and from another room."""
    copy = copied(tmp_path)
    wanted = []
    for n, room in enumerate(SUB_ROOMS):
        inside = min(path for path in room.glob("*.py") if path.name != "__init__.py")
        for other in (SUB_ROOMS[n - 1], SUB_ROOMS[n - len(SUB_ROOMS) // 2]):
            wanted.append(f"- {plant(copy, name_of(other), name_of(inside))}")
    for low, high in against_the_order():
        plant(copy, low, high)
        wanted.append(f"{low} is not allowed to import {high}")
    for importer in map(name_of, MODULES):
        if importer.startswith("quality"):
            wanted.append(f"- {plant(copy, importer, 'privacy')} (")
    printed = re.sub(r"- +", "- ", lint_imports(copy).stdout)
    assert [link for link in wanted if link not in printed] == []
    assert "quality is not allowed to import privacy" in printed
    assert len(list(against_the_order())) == len(ROOMS)


def test_an_import_circle_is_seen_though_a_function_and_type_checking_hide_it(
    tmp_path: Path,
) -> None:
    copy = copied(tmp_path)
    first, second, *_ = sorted((ROOT / "learners" / "bounds").glob("[a-z]*.py"))
    plant(copy, name_of(first), name_of(second))
    plant(copy, name_of(second), name_of(first), under="if TYPE_CHECKING")
    circles = re.findall(r"(?m)^- (.* <- .*)$", lint_imports(copy).stdout)
    assert {name_of(first), name_of(second)} in [set(circle.split(" <- ")) for circle in circles]


def public_functions() -> list[tuple[str, str]]:
    """Every public function and class of the pure rooms' packages."""
    return [
        (room, name)
        for room in ("quality", "privacy", "learners")
        for name in importlib.import_module(room).__all__
    ]


@pytest.mark.parametrize(("room", "name"), public_functions())
def test_a_public_name_has_a_docstring(room: str, name: str) -> None:
    named = getattr(importlib.import_module(room), name)
    if inspect.isclass(named) or inspect.isroutine(named):  # not an alias of a type
        assert (named.__doc__ or "").strip()


def test_the_commands_of_the_readme_and_of_contributing_exist() -> None:
    pages = [(ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "CONTRIBUTING.md")]
    text = "\n".join(pages)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"`make\s+([a-z-]+)`", text))
    assert len(targets) >= 10
    for target in targets:
        assert re.search(rf"(?m)^{target}:", makefile), target
    help_text = subprocess.run(
        [sys.executable, "-m", "flows.cli", "--help"], capture_output=True, text=True, check=True
    ).stdout
    for command in set(re.findall(r"`crowdassay ([a-z]+)", text)):
        assert re.search(rf"(?m)^\W*{command}\b", help_text), command
    for path in re.findall(r"`(\.ci/\w+)`", text):
        assert (ROOT / path).is_file(), path


def test_help_imports_nothing_heavy() -> None:
    heavy = ("prefect", "duckdb", "numba", "scipy", "sklearn", "matplotlib", "pyarrow", "opendp")
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom flows.cli import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_a_plain_run_does_not_import_prefect() -> None:
    code = "import sys, flows.pipeline, flows.terminal; print('prefect' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"


@pytest.mark.parametrize("room", ["flows", "learners"])
def test_names_that_load_when_first_used_are_found_before(room: str) -> None:
    """A notebook completes them."""
    code = f"import {room}; print(set({room}.__all__) - set(dir({room})))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "set()"


def test_scikit_learn_is_imported_for_what_stands_on_it_alone() -> None:
    """It brings pandas and scipy.stats with it; what that takes: `python -m benchmarks.flows.startup`."""
    stages = [name for name in map(name_of, MODULES) if name.startswith("flows.stages")]
    code = (
        f"import sys, flows.pipeline, flows.terminal, privacy.noise, learners\n"
        f"import {', '.join(stages)}\n"
        "heavy = {'sklearn', 'pandas', 'scipy.stats'}\n"
        "print(sorted(heavy & sys.modules.keys()))\n"
        "print([name for name in learners.__all__ if not hasattr(learners, name)])\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines() == ["[]", "[]", "['pandas', 'scipy.stats', 'sklearn']"]


def test_nothing_but_the_ledger_reaches_a_sampler() -> None:
    """Beside the import contract: no other file names the noise source, in any way of importing it."""
    reaching = {
        name_of(path)
        for path in MODULES
        if re.search(
            r"privacy\.noise|from privacy import noise|NoiseSource|(import|from) opendp",
            path.read_text(),
        )
        and path.name != "noise.py"
    }
    assert reaching <= {"privacy.ledger.ledger", "privacy.mechanism"}
    assert "privacy.ledger.ledger" in reaching


def test_constraints_hold_names_and_versions_only() -> None:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert "://" not in text
    assert all(re.match(r"[A-Za-z0-9_.-]+(\[.*\])?==", line) for line in text.splitlines() if line)


def test_every_mutant_written_by_hand_still_has_its_text_and_its_tests() -> None:
    """Else `make mutants` refuses to begin, which nobody sees who does not run it."""
    check_written(ROOT)
    for one in WRITTEN:
        assert (ROOT / one.tests[0]).is_file(), one.name
