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


def test_there_are_three_hundred_of_them() -> None:
    several = 4 * len(ENCODINGS)
    n_inputs = len(list(itertools.product(WRITINGS, CONTENTS))) + several + len(BYTES)
    assert n_inputs >= 300
