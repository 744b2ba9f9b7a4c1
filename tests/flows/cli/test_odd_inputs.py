"""Odd inputs of every kind: no traceback, no file lost, exit code 0 or 2, and one sentence that helps."""

from __future__ import annotations

import gzip
import itertools
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from flows.cli import app

HEAD = "worker,task,label"
ROWS = [f"w{w},t{t},{'ab'[(w * t) % 2]}" for w in range(3) for t in range(3)]
GOOD = "\n".join([HEAD, *ROWS]) + "\n"
ENCODINGS = (
    "utf-8",
    "utf-8-sig",
    "utf-16",
    "utf-16-le",
    "utf-16-be",
    "utf-32",
    "cp1252",
    "latin-1",
)
# How a sound table may be written, and what may be wrong with it: each of one with each of the other.
WRITINGS = {
    "comma": lambda text: text,
    "semicolon": lambda text: text.replace(",", ";"),
    "tab": lambda text: text.replace(",", "\t"),
    "pipe": lambda text: text.replace(",", "|"),
    "crlf": lambda text: text.replace("\n", "\r\n"),
    "cr": lambda text: text.replace("\n", "\r"),
    "sep line": lambda text: "sep=;\n" + text.replace(",", ";"),
    "comment": lambda text: "# exported by hand\n" + text,
    "blank lines": lambda text: "\n\n" + text,
    "quoted": lambda text: '"' + text.rstrip().replace(",", '","').replace("\n", '"\n"') + '"\n',
}
CONTENTS = {
    "sound": GOOD,
    "no rows": HEAD + "\n",
    "one row": HEAD + "\nw,t,a\n",
    "short line": GOOD + "w9,t9\n",
    "long line": GOOD + "w9,t9,a,b,c\n",
    "blank worker": GOOD + ",t9,a\n",
    "blank task": GOOD + "w9,,a\n",
    "blank label": GOOD + "w9,t9,\n",
    "spaces": GOOD + "w9,   ,a\n",
    "repeated": GOOD + ROWS[0] + "\n",
    "open quote": GOOD + 'w9,"t9,a\n',
    "inner quote": GOOD + 'w9,t"9,a\n',
    "control": GOOD + "w9,t\x1b[2J9,a\n",
    "direction": GOOD + "w9,t9,\u202ea\n",
    "formula": GOOD + "w9,t9,=cmd|' /C calc'!A0\n",
    "nul": GOOD + "w9,t\x009,a\n",
    "accents": GOOD + "josé,t9,a\n",
    "capitals": GOOD.replace(HEAD, "Worker,Task,Label"),
    "other names": GOOD.replace(HEAD, "who,what,said"),
    "same names": GOOD.replace(HEAD, "worker,worker,label"),
    "nameless": GOOD.replace(HEAD, "worker,,label"),
    "index": "\n".join(f"{i - 1 if i else ''},{row}" for i, row in enumerate([HEAD, *ROWS])) + "\n",
    "one class": GOOD.replace(",b", ",a"),
    "one worker": HEAD + "\nw,t1,a\nw,t2,b\n",
}
BYTES = {
    "empty.csv": b"", "zeros.csv": bytes(100), "ff.csv": b"\xff" * 100, "mark.csv": b"\xef\xbb\xbf",
    "mark16.csv": b"\xff\xfe", "half16.csv": b"\xff\xfeA", "torn.parquet": b"PAR1", "no.parquet": b"x",
    "no.csv.gz": b"x", "half.csv.gz": gzip.compress(GOOD.encode())[:20], "no.xlsx": b"PK\x03\x04",
    "text.xlsx": GOOD.encode(), "half.json": b'[{"worker": "a"', "number.json": b"1",
    "list.json": b"[[1, 2]]", "null.json": b"null", "deep.json": b"[" * 2_000, "empty.jsonl": b"",
    "keys.jsonl": b'{"worker":1,"worker":2}', "odd.jsonl": b'{"":1}\n{"a\\"b":2}', "csv.json": GOOD.encode(),
    "parquet.csv": b"PAR1\x00\x01", "zip.csv": b"PK\x03\x04\x00", "html.csv": b"<html>\n<p>no</p>",
    "long.csv": b"worker,task,label\n" + b"x" * 300_000 + b",t,a\n", "wide.csv": b"," * 5_000,
    "lines.csv": b"\n" * 5_000, "quote.csv": b'"' * 101, "tabs.tsv": b"\t\n\t\n", "bell.csv": b"\x07,\x07",
    "latin.json": '{"worker":"é","task":1,"label":1}'.encode("latin-1"), "no.ods": b"x",
    "no.xls": b"\xd0\xcf", "sql.sql": b"SELECT 1",
}  # fmt: skip
HELP = (
    "mend",
    "rename",
    "--",
    "name ",
    "save",
    "export",
    "fill",
    "must",
    "delete",
    "fetch",
    "check",
)


def invoke(*words: str) -> None:
    """Run a command; what it says must help, and nothing may be raised."""
    told = CliRunner().invoke(app, list(words))
    assert told.exit_code in (0, 2), (words, told.exception, told.output)
    assert told.exception is None or isinstance(told.exception, SystemExit), words
    assert "Traceback" not in told.output + told.stderr
    assert not set("\x1b\u202e\x00") & set(told.output + told.stderr)
    if told.exit_code == 2 and words[0] != "check":
        (line,) = told.stderr.splitlines()
        assert any(word in line for word in HELP), line


def try_all(path: Path, *, whole: bool = True) -> None:
    """Look at a file, and if `whole` turn it into a consensus too; it stays what it is."""
    before = path.read_bytes()
    invoke("check", str(path))
    if whole:
        invoke("aggregate", str(path), "--aggregator", "majority_vote")
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("writing", WRITINGS)
def test_every_writing_with_every_content(
    tmp_path_factory: pytest.TempPathFactory, writing: str
) -> None:
    for name, content in CONTENTS.items():
        path = tmp_path_factory.mktemp("odd") / "labels.csv"
        path.write_text(WRITINGS[writing](content), encoding="utf-8", newline="")
        try_all(path, whole=writing == "comma" or name == "sound")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_encoding(tmp_path_factory: pytest.TempPathFactory, encoding: str) -> None:
    for content in ("sound", "accents", "short line", "other names"):
        path = tmp_path_factory.mktemp("odd") / "labels.csv"
        path.write_bytes(CONTENTS[content].encode(encoding))
        try_all(path)


@pytest.mark.parametrize("name", BYTES)
def test_bytes_that_are_no_table(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(BYTES[name])
    try_all(tmp_path / name)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    text=st.text(st.sampled_from("wtab,;\t|\n\r\"' #=\u200b\ufeffé\x00\x1b"), max_size=60),
    encoding=st.sampled_from(["utf-8", "utf-16", "utf-8-sig"]),
    suffix=st.sampled_from([".csv", ".tsv", ".jsonl", ".txt"]),
)
def test_any_text_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, text: str, encoding: str, suffix: str
) -> None:
    path = tmp_path_factory.mktemp("any") / f"labels{suffix}"
    path.write_bytes(f"{HEAD}\n{text}".encode(encoding))
    try_all(path)


def as_pairs(rows: list[str]) -> str:
    return "\n".join(["worker,left,right,winner", *rows]) + "\n"


PAIRS = [
    f"w{w},i{a},i{b},i{min(a, b)}" for w in range(3) for a in range(3) for b in range(3) if a != b
]
PAIRS += [f"w{w},i2,i0,i2" for w in range(3)]  # nobody wins all
SCORES = "".join(f"e{n},{'dev' if n % 2 else 'holdout'},{n % 3 / 2}\n" for n in range(90))
SETS = "".join(f"w{w},t{t},{'a|b' if (w + t) % 2 else 'b'}\n" for w in range(3) for t in range(4))
# Each table command with a table it reads, and a column whose blank cell it refuses.
TABLES = {
    "rank": (as_pairs(PAIRS), "worker"),
    "gate": (f"example,split,score\n{SCORES}", "example"),
    "multilabel": (f"{HEAD}\n{SETS}", "task"),
    "agreement": (GOOD, "worker"),
}
ENDS = {"gate": {0, 2, 3, 4}}  # what its exit codes say besides


def table_command(name: str, *words: str, given: str | None = None) -> str:
    """Run one of them; return its output, none of which a terminal obeys."""
    told = CliRunner().invoke(app, [name, *words], input=given)
    assert told.exit_code in ENDS.get(name, {0, 2}), (words, told.exception, told.output)
    assert told.exception is None or isinstance(told.exception, SystemExit), words
    assert not set("\x1b\u202e\x00") & set(told.output + told.stderr)
    if told.exit_code == 2:
        (line,) = told.stderr.splitlines()
        assert any(word in line for word in HELP), line
    return told.stderr if told.exit_code == 2 else told.output


@pytest.mark.parametrize("name", TABLES)
def test_every_table_command_reads_files_folders_patterns_and_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    text, _ = TABLES[name]
    header, *rows = text.splitlines()
    write = {"a.csv": text, "parts/1.csv": "\n".join([header, *rows[:5], ""])}
    write["parts/2.csv"] = "\n".join([header, *rows[5:], ""])
    for path, content in write.items():
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text(content)
    Path("wide16.csv").write_bytes(text.encode("utf-16"))
    said = table_command(name, "a.csv")
    assert "must" not in said
    state = ["--state", "other"] if name == "gate" else []
    named = ["--candidate", "a"] if name == "gate" else []  # else it has the file's name
    for path in ("parts", "parts/*.csv", "-"):
        found = table_command(name, path, *named, *state, given=text if path == "-" else None)
        assert "must" not in found
        if name != "gate":  # which has a draw of its own in each state
            assert found == said
    assert "wide16.csv was read in utf-16" in table_command(name, "wide16.csv", *named, *state)


def test_a_fault_of_standard_input_is_of_standard_input() -> None:
    """It was of `standard input.csv`, a file that nobody has."""
    told = table_command("agreement", "-", given=f"{HEAD}\n,t1,a\n")
    assert told.startswith("crowdassay: standard input, row 1, column worker: ")


@pytest.mark.parametrize("name", TABLES)
def test_every_table_command_says_what_is_wrong_with_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    text, blank = TABLES[name]
    header, first, *_ = text.splitlines()
    at = header.split(",").index(blank)
    torn = ["" if n == at else cell for n, cell in enumerate(first.split(","))]
    Path("empty").mkdir()
    Path("full").mkdir()
    Path("full/1.csv").write_text(text)
    Path("full/2.csv").write_text("\n".join([header, ",".join(torn), ""]))
    Path("query.sql").write_text("SELECT 1")
    Path("control.csv").write_text(text.replace(first.split(",")[0], "\x1b[2J\u202eone"))
    for file, content in BYTES.items():
        Path(file).write_bytes(content)
        table_command(name, file)
    table_command(name, "control.csv")
    assert "nowhere.csv does not exist; mend the path" in table_command(name, "nowhere.csv")
    assert "empty holds no table" in table_command(name, "empty")
    assert f"2.csv, row 1, column {blank}: the cell is blank" in table_command(name, "full")
    assert "query.sql is a query" in table_command(name, "query.sql")
    Path("other.csv").write_text(CONTENTS["other names"])
    assert "must have the columns" in table_command(name, "other.csv")
    for output in ("empty", "nowhere/x.csv", "x.odd"):
        if name != "gate":
            Path("a.csv").write_text(text)
            assert "; " in table_command(name, "a.csv", "--output", output)


@pytest.mark.parametrize(
    "words",
    [
        "rank a.csv --level 2", "rank a.csv --level nan", "multilabel a.csv --threshold nan",
        "multilabel a.csv --threshold 1", "multilabel a.csv --split=", "power --classes 0",
        "power --accuracy nan", "power --goal 1", "power --workers 1", "power --tasks 0",
        "gate a.csv --level nan", "gate a.csv --epsilon 0", "gate a.csv --tolerance 2",
        "gate a.csv --campaign=", "watch a.csv --once --state .", "watch . --once",
        "watch a.csv --once --consensus a.odd", "watch a.csv --once --seconds none",
        "simulate a.csv --output out", "simulate . --output out", "simulate none.g --output out",
        "simulate --tasks 5 --strategy nobody=3 --output out", "simulate --tasks 5 --output a.csv",
        "simulate --tasks 5 --strategy sybils --output out", "plan gold a.csv", "plan gold .",
        "agreement a.csv --min-common 0", "agreement a.csv --models nobody",
        "agreement a.csv --models w1 --epsilon nan", "compare . a.csv", "block . --format mturk --output b",
        "repost . --format mturk --export a.csv --output b", "report a.csv", "budget a.csv", "doctor a.csv",
        "check a.csv --sep ::", "check a.csv --sep=", "rank a.csv --sep ::", "gate a.csv --sep ::",
        "multilabel a.csv --sep ::", "import a.csv --format table --sep :: --output out",
        "multilabel a.csv --gold a.csv --classes a,,b",
        "ledger verify a.csv", "audit lattice_laplace --epsilon nan", "prune a.csv", "runs a.csv",
    ],
)  # fmt: skip
def test_an_option_or_a_path_that_cannot_be_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    name = words.split()[0]
    Path("a.csv").write_text(TABLES[name if name in TABLES else "agreement"][0])
    before = Path("a.csv").read_bytes()
    told = CliRunner().invoke(app, words.split())
    assert (told.exit_code, type(told.exception)) == (2, SystemExit), told.output
    assert "Traceback" not in told.output + told.stderr
    assert Path("a.csv").read_bytes() == before
    assert not Path("out").exists()


def test_there_are_three_hundred_of_them() -> None:
    several = 4 * len(ENCODINGS)
    n_inputs = len(list(itertools.product(WRITINGS, CONTENTS))) + several + len(BYTES)
    n_inputs += len(TABLES) * (len(BYTES) + 10)
    assert n_inputs >= 300


def test_init_and_run_name_each_other_where_one_has_the_others_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    toml, table = tmp_path / "settings.toml", tmp_path / "labels.csv"
    toml.write_text('name = "x"\n', encoding="utf-8")
    table.write_text(GOOD, encoding="utf-8")
    for command, file, other in (("init", toml, "run"), ("run", table, "init")):
        before = file.read_bytes()
        told = CliRunner().invoke(app, [command, str(file)])
        assert told.exit_code == 2
        said = "".join(line.strip() for line in told.output.splitlines())
        assert f"crowdassay {other} {file}".replace(" ", "") in said.replace(" ", "")
        assert file.read_bytes() == before
    toml.unlink()
    assert CliRunner().invoke(app, ["init", str(table)]).exit_code == 0
