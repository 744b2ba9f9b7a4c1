"""Tables at addresses, read for real: a server of this machine, a Delta folder, DuckDB's own extensions.

    python -m benchmarks.flows.addresses

The extensions come from the package index, with the newest DuckDB that it has them for; `crowdassay` runs on
that DuckDB. Nothing outside this machine is asked for a table.
"""

from __future__ import annotations

import functools
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet

from benchmarks.peers.peers import DUCKDB
from benchmarks.publish import parser_of, publish

SAMPLE = Path(__file__).resolve().parents[2] / "sample_data" / "labels.csv"
VERSION = DUCKDB.name.rpartition("-")[2]
HEADER = ("address", "read by", "outcome")


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of files that says nothing."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def main() -> None:
    parser_of(__doc__).parse_args()
    if not DUCKDB.built():
        raise SystemExit("DuckDB's environment could not be built: is there a package index?")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_tables(folder / "web")
        handler = functools.partial(Quiet, directory=str(folder / "web"))
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            port = str(server.server_address[1])
            rows = outcomes(folder, port)
            server.shutdown()
    note = (
        f"`crowdassay aggregate ADDRESS --aggregator majority_vote` on the sample's 20,000 labels, DuckDB "
        f"{VERSION} with the extensions of the package index; *same* is the file of consensus labels that "
        "`labels.csv` gives, byte for byte. HOST is a server on this machine, FOLDER a folder of it. In the "
        "last two rows no extension is installed."
    )
    publish("addresses", "Tables at addresses", HEADER, rows, note=note)


def write_tables(folder: Path) -> None:
    """Write the sample's labels as a CSV, a Parquet file and a Delta table."""
    table = csv.read_csv(SAMPLE)
    table = table.select(["worker", "task", "label"])
    table = table.set_column(1, "task", table["task"].cast(pa.string()))
    (folder / "lake" / "_delta_log").mkdir(parents=True)
    csv.write_csv(table, folder / "labels.csv")
    parquet.write_table(table, folder / "labels.parquet")
    parquet.write_table(table, folder / "lake" / "part-0.parquet")
    field = {"type": "string", "nullable": True, "metadata": {}}
    schema = {"type": "struct", "fields": [{"name": name} | field for name in table.column_names]}
    actions = (
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "00000000-0000-0000-0000-000000000001",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(schema),
                "partitionColumns": [],
                "configuration": {},
                "createdTime": 0,
            }
        },
        {
            "add": {
                "path": "part-0.parquet",
                "partitionValues": {},
                "size": (folder / "lake" / "part-0.parquet").stat().st_size,
                "modificationTime": 0,
                "dataChange": True,
            }
        },
    )
    log = folder / "lake" / "_delta_log" / "00000000000000000000.json"
    log.write_text("".join(json.dumps(one) + "\n" for one in actions), encoding="utf-8")


def outcomes(folder: Path, port: str) -> list[list[str]]:
    """Return a row for each address; the reader is DuckDB's extension, or none."""
    home, bare = folder / "home", folder / "bare"
    for one in (home, bare):
        one.mkdir()
    files = sorted(DUCKDB.folder.rglob("*.duckdb_extension"))
    code = "import duckdb, sys\nfor file in sys.argv[1:]: duckdb.sql(f\"INSTALL '{file}'\")"
    run(home, "-c", code, *map(str, files))
    expected = aggregate(home, str(folder / "web" / "labels.csv"), folder / "expected.csv")
    assert expected == "written", expected
    web, lake = f"http://127.0.0.1:{port}", f"delta+file://{folder}/web"
    asked = [
        (home, f"{web}/labels.csv", "httpfs"),
        (home, f"{web}/labels.parquet", "httpfs"),
        (home, f"{web}/nobody.parquet", "httpfs"),
        (home, f"{lake}/lake", "delta"),
        (home, f"{lake}/nobody", "delta"),
        (bare, f"{web}/labels.parquet", "none"),
        (bare, f"{lake}/lake", "none"),
    ]
    rows = []
    for number, (where, address, reader) in enumerate(asked):
        output = folder / f"{number}.csv"
        said = aggregate(where, address, output)
        if said == "written":
            same = output.read_bytes() == (folder / "expected.csv").read_bytes()
            said = "same" if same else "another"
        plain = [
            text.replace(f"127.0.0.1:{port}", "HOST").replace(str(folder), "/FOLDER")
            for text in (address, said)
        ]
        rows.append([f"`{plain[0]}`", reader, plain[1].replace("|", "\\|")])
    return rows


def aggregate(home: Path, address: str, output: Path) -> str:
    """Return "written", or the command's standard error."""
    words = ("aggregate", address, "--aggregator", "majority_vote", "--output", str(output))
    told = run(home, "-m", "flows.cli", *words)
    return "written" if told.returncode == 0 else told.stderr.strip()


def run(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run this interpreter on the peer's DuckDB; extensions are looked for below `home`."""
    (packages,) = DUCKDB.folder.glob("lib/python*/site-packages")
    given = os.environ | {"HOME": str(home), "PYTHONPATH": str(packages), "COLUMNS": "500"}
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, env=given)


if __name__ == "__main__":
    main()
