"""The pages and figures that mkdocs makes of code and results when it builds the site.

mkdocs calls `on_files`, `on_page_markdown` and `on_page_content`. Made of the code are the references of the
rooms, the command line and the settings, the page of guarantees with their tests, and the list of results.
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Test:
    """A test, the names it calls (dotted ones by their parts) and those its file imports."""

    path: str
    name: str
    calls: set[str]
    imports: set[str]


ROOMS = ("quality", "privacy", "learners", "flows")
GUARANTEES = re.compile(r"\*\*Guarantees\.\*\*(.*?)(?=\n\s*\n|\Z)", re.DOTALL)
BOUNDS = {
    "gt": "above", "ge": "at least", "lt": "below", "le": "at most", "pattern": "matching",
}  # fmt: skip
FIGURE = re.compile(r"\{\{([\w.]+): (.+?) → (.+?)\}\}")
PROBED = re.compile(r"^\{\{comparison\.md: ([\w-]+)\}\}$", re.MULTILINE)
ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod|obj):<code>(~?)([^<]+)</code>")
# faces of a room that a user of Python imports from, beside the room's own
FACES = {"flows": ("flows.crowdkit", "flows.importers"), "learners": ("learners.genesis",)}
GRAMMAR = """\
One command per line; `//` and `/* */` are comments, and a line that ends in `\\` goes on. Words are
separated by blanks; those within quotes or brackets belong together. `{expression}` stands for its
value, alone or inside a word (`/cell{i}`), and `(1, 2, 3)` is a list. The noise word `to` may be
left out. Options are `-name value`.

| statement | |
|---|---|
| `int x = 1`, `float y = x / 2`, `str s = "a"` | declare a variable, in a function one of its own |
| `x = x + 1` | set it |
| `if (x > 1)` ... `else` ... `end` | branches; `else` may be left out |
| `while (x < 9)` ... `end` | a loop |
| `for (i = 0; i < 3; i = i + 1)` ... `end` | a loop that counts |
| `foreach w (a b {x})` ... `end` | a loop over words |
| `function f(a, b)` ... `end`, `return a * b` | a function, called as `f 1 2`, in expressions as `f(1, 2)` |
| `include file.g` | another script of the same folder, or one of the package |
| `quit` | end the script |

Expressions have `+ - * / % **`, comparisons, `&& || !` (or `and or not`), `a if t else b` (but no
`//`, which begins a comment: write `floor(a / b)`), the functions `abs min max round len int float
str sqrt exp log sin cos tan floor ceil`, the constants
`pi` and `inf`, `get(path, field)`, `exists(path)` and `time()`. A field may be drawn for every row:
`{normal 1.6 .3}` or `{normal(1.6, .3)}`; likewise `uniform`, `beta`, `gamma`, `lognormal`,
`integers` (two numbers) and `exponential` (one). There is nothing else: no file, no other module
can be reached.

Paths are absolute or relative to the working element (`ce`). `..` is the parent, `pool[3]` and
`pool[2:5]` are rows, `#` stands for any characters of a name, `##` for any number of levels,
`[CLASS=synapse]` behind a name for a class.

A mistake ends the script with one sentence that begins with file and line. A script may execute a
million statements.

## A worker's fields

Seconds for times. Evidence for the true option grows by `base + drift x clarity` a second, for
others by `base`, for the `favourite` option by `bias` more; it loses `leak` times itself and
`inhibition` times the others', has `noise`, and decides at `bound` (after `deadline` the option
ahead wins). `relative 1` lets the difference of two options decide between -bound and bound, without leak and
inhibition. `t0`
is added to every decision; `rt`, if not 0, stands for the whole time. With probability `lapse` the
label is a guess. Each answer adds `fatigue`, which falls off with time constant `recovery` and
divides the drift by 1 plus itself. `gap` is the mean pause before a task, `activity` the weight
with which a desk draws her. She copies what she hears after `copy_time`, changes it with
probability `slip`, and with `unasked 1` also gives labels of tasks that she was not asked for.

The weight of a connection between workers, and from tasks to workers, is a probability; from a desk
to workers it multiplies their activity; to a desk, a recorder or an aggregator it is 1.
"""
SOURCE = re.compile(r"References\n-+\n(.*?)(?=\n\s*\n[A-Z][a-z]+\n-+|\Z)", re.DOTALL)


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add the pages made of the code."""
    made = {
        "mathematics/guarantees.md": guarantees(),
        "results.md": results(),
        "reference/command-line.md": command_line(),
        "reference/settings.md": settings(),
        "reference/run-folder.md": run_folder(),
        "reference/script-language.md": script_language(),
        **{f"reference/{room}.md": reference(room) for room in ROOMS},
    }
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Give the tables of results the whole width, and fill in the figures that a page names."""
    if page.file.src_uri.startswith("results"):
        page.meta["hide"] = ["toc"]
    markdown = PROBED.sub(lambda found: probed(found[1]), markdown)
    return FIGURE.sub(lambda found: figure(*found.groups()), markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Show a Sphinx role of a docstring as a name, with a link where the reference has its entry."""
    return ROLE.sub(lambda found: _named(*found.groups()), html)


def _named(short: str, name: str) -> str:
    """A name as it is shown: its last part where the role began with a tilde."""
    last = name.rpartition(".")[2]
    shown = f"<code>{last if short else name}</code>"
    path = public_names().get(last)
    return f'<autoref identifier="{path}" optional>{shown}</autoref>' if path else shown


@cache
def face(room: str) -> griffe.Module:
    """A package as mkdocstrings reads it: without running it."""
    found = griffe.load(room, search_paths=[str(ROOT)])
    assert isinstance(found, griffe.Module)
    return found


def names_of(package: str) -> list[str]:
    """The names of a package's `__all__`."""
    room, *inside = package.split(".")
    exports = face(room)[".".join(inside)].exports if inside else face(room).exports
    return [str(name) for name in exports or ()]


@cache
def public_names() -> dict[str, str]:
    """The names of the rooms' faces, each with its entry in the reference."""
    return {name: f"{room}.{name}" for room in ROOMS for name in names_of(room)}


def reference(room: str) -> str:
    """The reference of a room: the names of its face, by the sub-room or file in which each is defined."""
    groups: dict[str, list[str]] = {}
    for name in names_of(room):
        home = face(room)[name].final_target.path if face(room)[name].is_alias else room
        groups.setdefault(".".join(home.split(".")[:2]), []).append(f"{room}.{name}")
    for package in FACES.get(room, ()):
        inside = [name for name in names_of(package) if name not in names_of(room)]
        groups.setdefault(package, []).extend(f"{package}.{name}" for name in inside)
    lines = [
        f"# `{room}`",
        "",
        f"::: {room}",
        "    options: {members: false, show_root_heading: false}",
    ]
    for group, paths in sorted(groups.items()):
        lines += ["", f"::: {group}", "    options: {members: false}", ""]
        lines += ["| name | |", "|---|---|", *map(_row, paths)]
        for path in paths:
            lines += ["", f"::: {path}", "    options: {heading_level: 3}"]
    return "\n".join(lines) + "\n"


def _row(path: str) -> str:
    """A name's row of the table above its entry: a link, and the first line of its docstring."""
    room, *inside = path.split(".")
    found = face(room)[".".join(inside)]
    found = found.final_target if found.is_alias else found
    about = found.docstring.value.splitlines()[0] if found.docstring else ""
    return f"| [`{inside[-1]}`][{path}] | {about.replace('|', chr(92) + '|')} |"


def probed(peer: str) -> str:
    """Return the table rows of a library's probes: what was asked, the answers there and here, and a link."""
    _, *rows = cells_of("comparison.md")
    source = "[asked](results/comparison.md)"
    return "\n".join(
        f"| {what} | {there} | {here} | {source} |"
        for name, what, there, here, _ in rows
        if name == peer
    )


def cells_of(page: str) -> list[list[str]]:
    """Return the table of a page of results, its header first."""
    text = (ROOT / "docs" / "results" / page).read_text(encoding="utf-8")
    return [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| ")
    ]


def figure(page: str, row: str, column: str) -> str:
    """Return a cell of a page of results: of the row with that name, else of the first that begins so."""
    heads, *rows = cells_of(page)
    beginning = [cells for cells in rows if ", ".join(cells).startswith(row)]
    return min(beginning, key=lambda cells: cells[0] != row)[heads.index(column)]


def guarantees() -> str:
    """Return the page of all clauses under *Guarantees*, with their sources and the tests that guard them."""
    tests = list(_tests())
    lines = [
        "# Every guarantee, and what guards it",
        "",
        "Taken from the docstrings when this site was built. A *source* is where the proof stands; the tests"
        " listed are those that call the name.",
    ]
    for room in ROOMS:
        lines += ["", f"## `{room}`"]
        for name, home, doc in _documented(room):
            clauses = GUARANTEES.findall(doc)
            if not clauses:
                continue
            lines += ["", f"### `{name}`", "", " ".join(" ".join(clauses).split())]
            if source := SOURCE.search(doc):
                lines += ["", f"*Source:* {' '.join(source[1].split())}"]
            lines += ["", _guards(name, home, tests)]
    return "\n".join(lines) + "\n"


def _guards(name: str, home: str, tests: list[Test]) -> str:
    """Return the folded list of tests that call a name: those of its own file, or else of any file."""
    calling = [test for test in tests if name in test.calls]
    own = [test for test in calling if Path(test.path).stem.startswith(f"test_{home}")]
    if not calling:
        files = sorted({test.path for test in tests if name.split(".")[0] in test.imports})
        listed = ", ".join(f"`{path}`" for path in files)
        return f"Tested in {listed}." if files else "*Its doctest alone shows it.*"
    rows = "\n".join(f"- `{test.path}::{test.name}`" for test in own or calling)
    few = "test" if len(own or calling) == 1 else "tests"
    return f'<details markdown="1"><summary>{len(own or calling)} {few}</summary>\n\n{rows}\n\n</details>'


def _documented(room: str) -> Iterator[tuple[str, str, str]]:
    """Yield the public functions, classes and methods of a room, with their file's name and docstring."""
    for path in sorted((ROOT / room).rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, path.stem, ast.get_docstring(node) or ""
                for part in node.body if isinstance(node, ast.ClassDef) else ():
                    if isinstance(part, ast.FunctionDef) and not part.name.startswith("_"):
                        doc = ast.get_docstring(part) or ""
                        yield f"{node.name}.{part.name}", path.stem, doc


def _tests() -> Iterator[Test]:
    """Yield every test, with the names that it and its file's own functions call."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = {part.name: part for part in tree.body if isinstance(part, ast.FunctionDef)}
        imports = {
            alias.name
            for part in ast.walk(tree)
            if isinstance(part, ast.ImportFrom)
            for alias in part.names
        }
        for name, node in functions.items():
            if name.startswith("test_"):
                calls = _called(node)
                calls |= {c for f in calls & functions.keys() for c in _called(functions[f])}
                yield Test(str(path.relative_to(ROOT)), name, calls, imports)


def _called(node: ast.AST) -> set[str]:
    """Return the names and attributes in some code; `Ledger.release` stands for any `.release`."""
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    attributes = {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
    return names | attributes | {f"{name}.{part}" for name in names for part in attributes}


def results() -> str:
    """Return the list of pages that the benchmarks wrote, each with the command that printed it."""
    lines = [
        "# Results",
        "",
        "Each page was written by the command that it names; anybody can repeat it.",
        "",
        "| page | command |",
        "|---|---|",
    ]
    for path in sorted((ROOT / "docs" / "results").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        title = text.splitlines()[0].removeprefix("# ")
        command = re.search(r"Printed by `([^`]+)`", text)
        lines.append(f"| [{title}](results/{path.name}) | {f'`{command[1]}`' if command else ''} |")
    return "\n".join(lines) + "\n"


def command_line() -> str:
    """Return the help of every command, as the terminal shows it."""
    os.environ.setdefault("TERMINAL_WIDTH", "80")
    from typer.main import get_command
    from typer.testing import CliRunner

    from flows.cli import app

    lines = ["# Command line", "", "The help of each command."]
    for words in _commands(get_command(app), ()):
        shown = CliRunner().invoke(app, [*words, "--help"], env={"NO_COLOR": "1"})
        name = " ".join(("crowdassay", *words))
        lines += ["", f"## {name}", "", "```text", shown.output.strip("\n"), "```"]
    return "\n".join(lines) + "\n"


def _commands(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command, a group before its commands."""
    yield words
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from _commands(inner, (*words, name))


def settings() -> str:
    """Every key of the settings file, by section: what it is for, takes and is without being set."""
    from flows.settings import Settings, key_sentences, section_of, variables_of

    sections = [("", Settings)]
    sections += [
        (name, section)
        for name, field in Settings.model_fields.items()
        if (section := section_of(field.annotation)) is not None
    ]
    variables = {key: variable for variable, key in variables_of(Settings).items()}
    lines = [
        "# Settings",
        "",
        "One TOML file. A key that is not listed is refused, and the nearest right one named;"
        " `crowdassay init labels.csv` writes a commented file made from these tables."
        " Below the sentence of a key stand its values, its default, and the environment variable that"
        " overrides it.",
    ]
    for name, section in sections:
        doc = " ".join((section.__doc__ or "").split())
        lines += ["", f"## [{name}]" if name else "## Top of the file", "", doc]
        lines += ["", "| key | |", "|---|---|"]
        sentences = key_sentences(section)
        for key, field in section.model_fields.items():
            if section_of(field.annotation) is None:
                takes = ", ".join((_taken(field.annotation), *_ranges(field)))
                facts = (takes, _unset(field), f"`{variables[(name, key) if name else (key,)]}`")
                lines.append(f"| `{key}` | {sentences[key]}<br>{'; '.join(filter(None, facts))} |")
    return "\n".join(lines) + "\n"


def run_folder() -> str:
    """Return the page of every file that a run may leave, by the stage that writes it."""
    from flows.stages import STAGES

    lines = [
        "# The run folder",
        "",
        "Every file or folder that a run may leave in `runs/<time>-<name>/`, by the stage that writes it.",
    ]
    for stage in STAGES:
        section = f" Its settings are in `[{stage.settings}]`." if stage.settings else ""
        lines += ["", f"## {stage.name}", "", stage.about + section, ""]
        lines += ["| file | what it holds | who may see it |", "|---|---|---|"]
        for output in stage.outputs:
            seen = "anybody" if output.public else "internal"
            only = f" (only with `{output.only}`)" if output.only else ""
            lines.append(f"| `{output.name}` | {output.about}{only} | {seen} |")
    return "\n".join(lines) + "\n"


def script_language() -> str:
    """Return the reference of the simulator's scripts: grammar, commands, and the classes of elements."""
    from learners.genesis import CLASSES, COMMANDS

    lines = [
        "# The script language",
        "",
        "For `crowdassay simulate campaign.g` and `learners.genesis.Simulation`.",
    ]
    lines += ["", GRAMMAR, "## Commands", "", "| command | options | |", "|---|---|---|"]
    for name, form in COMMANDS.items():
        options = ", ".join(f"`-{one}`" for one in (*form.options, *form.flags))
        alias = "" if form.usage.startswith(name) else f" (written `{name}` too)"
        lines.append(f"| `{form.usage.replace('|', 'or')}`{alias} | {options} | {form.about} |")
    lines += [
        "",
        "## Classes",
        "",
        "| class | fields and their defaults | sends, takes |",
        "|---|---|---|",
    ]
    for name, cls in sorted(CLASSES.items()):
        known = cls.process or cls.behaviour or cls.reset
        if known is not None and not known.__module__.startswith("learners."):
            continue  # somebody else's
        usual = CLASSES[cls.base].fields if cls.base != name else {}
        differ = [
            f"{field} {_shown(default)}"
            for field, default in cls.fields.items()
            if field not in usual or usual[field] != default
        ]
        fields = "; ".join(filter(None, [usual and f"as `{cls.base}`", ", ".join(differ)]))
        ends = [
            f"links: {', '.join(cls.outputs)}" * bool(cls.outputs),
            cls.emits and f"events: {cls.emits}",
        ]
        takes = ", ".join((*cls.inputs, *cls.receives))
        sends = "; ".join(filter(None, [*ends, takes and f"takes {takes}"]))
        lines.append(f"| `{name}` | {fields} | {sends} |")
    return "\n".join(lines) + "\n"


def _shown(default: Any) -> str:
    """Return the default of a field in short; NaN is one that is not set."""
    if isinstance(default, tuple):
        return f"({', '.join(f'{one:g}' for one in default)})"
    return (
        "-"
        if default != default
        else f"{default:g}"
        if isinstance(default, float)
        else f"{default!r}"
    )


def _ranges(field: Any) -> Iterator[str]:
    """Yield the bounds of a key's values, its own and those of the items of a list."""
    metadata, annotations = list(field.metadata), [field.annotation]
    while annotations:
        parts = get_args(annotation := annotations.pop())
        metadata += parts[1:] if get_origin(annotation) is Annotated else ()
        metadata += [one for part in parts for one in getattr(part, "metadata", ())]
        annotations += parts
    for bound in metadata:
        for name, words in BOUNDS.items():
            if (least := getattr(bound, name, None)) is not None:
                yield f"{words} " + (f"`{least}`" if isinstance(least, str) else f"{least:,}")


def _taken(annotation: Any) -> str:
    """Return the kind of values of a key, in a few words."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _taken(parts[0])
    if origin is Literal:
        return ", ".join(f"`{part}`" for part in parts)
    if origin in (Union, UnionType):
        return " or ".join(_taken(part) for part in parts if part is not type(None))
    if origin is tuple:
        return f"list of {_taken(parts[0])}"
    if issubclass(annotation, Enum):
        return ", ".join(f"`{part.value}`" for part in annotation)
    words = {bool: "true or false", int: "whole number", float: "number", str: "text", Path: "path"}
    return words[annotation]


def _unset(field: Any) -> str:
    """Return the default of a key as the file would hold it; empty if the key is absent by default."""
    if field.is_required():
        return "required"
    plain = list(field.default) if isinstance(field.default, tuple) else field.default
    return "" if plain is None else f"default `{json.dumps(plain, default=str)}`"
