"""Workbooks for tests, without a library that writes them; also as a command:

    python -m tests.flows.tables.workbook labels.xlsx

writes a label table, by which the extra `excel` is tried in a clean environment (`make wheel`).
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

__all__ = ["write_workbook"]

STATE = ' state="hidden"'


def write_workbook(path: Path, sheets: dict[str, list[list[object]]], hidden: str = "") -> None:
    """A workbook in as few parts as Excel accepts, with texts in the cells; one sheet may be hidden."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    rel = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    pack = "http://schemas.openxmlformats.org/package/2006"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    numbers = range(1, len(sheets) + 1)
    named = zip(sheets, numbers, strict=True)
    with zipfile.ZipFile(path, "w") as book:
        book.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{pack}/content-types"><Default Extension="rels" ContentType='
            '"application/vnd.openxmlformats-package.relationships+xml"/><Override PartName='
            f'"/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/>'
            + "".join(
                f'<Override PartName="/xl/s{n}.xml" ContentType="{kind}.worksheet+xml"/>'
                for n in numbers
            )
            + "</Types>",
        )
        book.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{pack}/relationships"><Relationship Id="r1" '
            f'Type="{rel}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        )
        book.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{main}" xmlns:r="{rel}"><sheets>'
            + "".join(
                f'<sheet name="{name}" sheetId="{n}"{STATE * (name == hidden)} r:id="r{n}"/>'
                for name, n in named
            )
            + "</sheets></workbook>",
        )
        book.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships xmlns="{pack}/relationships">'
            + "".join(
                f'<Relationship Id="r{n}" Type="{rel}/worksheet" Target="s{n}.xml"/>'
                for n in numbers
            )
            + "</Relationships>",
        )
        for rows, n in zip(sheets.values(), numbers, strict=True):
            cells = "".join(f"<row>{''.join(map(_cell, row))}</row>" for row in rows)
            book.writestr(
                f"xl/s{n}.xml",
                f'<worksheet xmlns="{main}"><sheetData>{cells}</sheetData></worksheet>',
            )


def _cell(value: object) -> str:
    if isinstance(value, int | float):
        return f"<c><v>{value}</v></c>"
    return f'<c t="inlineStr"><is><t>{value}</t></is></c>' if value else "<c/>"


if __name__ == "__main__":
    label_rows: list[list[object]] = [["worker", "task", "label"]]
    label_rows += [[f"w{w}", f"t{t}", "ab"[w * t % 2]] for w in range(4) for t in range(4)]
    write_workbook(Path(sys.argv[1]), {"labels": label_rows})
