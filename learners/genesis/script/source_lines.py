r"""The lines of a script: comments taken out, continued lines joined, each with its file and number.

>>> [(line.number, line.text) for line in source_lines("a // b\nc \\\n d /* e\n f */ g", "x.g")]
[(1, 'a'), (2, 'c   d   g')]
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Line", "ScriptError", "source_lines", "words_of"]

TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|/\*|//|\\\n|\n|.', re.DOTALL)
CLOSING = {"(": ")", "{": "}", "[": "]"}
MAX_SCRIPT = 10_000_000  # characters


class ScriptError(ValueError):
    """A mistake in a script: the message begins with its file and line."""


@dataclass(frozen=True, slots=True)
class Line:
    """A logical line: its text, and the file and number of its first line."""

    text: str
    file: str
    number: int

    def error(self, sentence: str) -> ScriptError:
        """Return the error of this line."""
        return ScriptError(f"{self.file}:{self.number}: {sentence}")


def source_lines(text: str, file: str) -> list[Line]:
    """Return the logical lines of a script that are not blank.

    Raises
    ------
    ScriptError
        If a comment does not end, or the script is longer than ten million characters.
    """
    if len(text) > MAX_SCRIPT:
        raise ScriptError(
            f"{file}: a script must have at most {MAX_SCRIPT} characters, got {len(text)}"
        )
    lines: list[Line] = []
    text = text.replace("\r\n", "\n")
    held, number, began, place = "", 1, 1, 0
    while place < len(text):
        matched = TOKEN.match(text, place)
        token = matched[0] if matched else text[place]
        place += len(token)
        if token == "/*":
            end = text.find("*/", place)
            if end < 0:
                raise ScriptError(f"{file}:{number}: a comment /* must end with */, got none")
            number += text.count("\n", place, end)
            place, token = end + 2, " "
            began = began if held.strip() else number
        elif token == "//":
            end = text.find("\n", place)
            place, token = (len(text) if end < 0 else end), ""
        elif token == "\\\n":
            number, token = number + 1, " "
        elif token == "\n":
            if held.strip():
                lines.append(Line(held.strip(), file, began))
            number += 1
            held, began, token = "", number, ""
        held += token
    if held.strip():
        lines.append(Line(held.strip(), file, began))
    return lines


def words_of(line: Line, text: str | None = None) -> list[str]:
    """Return the words of a line: blanks within quotes and brackets do not separate.

    Raises
    ------
    ScriptError
        If a quote or bracket does not end.

    Examples
    --------
    >>> words_of(Line('set /a{i + 1} drift (1, 2) "x y"', "x.g", 1))
    ['set', '/a{i + 1}', 'drift', '(1, 2)', '"x y"']
    """
    words: list[str] = []
    held, open_, quoted, escaped = "", [], False, False
    for character in line.text if text is None else text:
        if quoted:
            quoted = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            quoted = True
        elif character in CLOSING:
            open_.append(CLOSING[character])
        elif character in CLOSING.values():
            if not open_ or open_.pop() != character:
                raise line.error(f"brackets must match, got {character!r}")
        elif character.isspace() and not open_:
            if held:
                words.append(held)
            held = ""
            continue
        held += character
    if quoted or open_:
        missing = '"' if quoted else open_[-1]
        raise line.error(f"quotes and brackets must end, got none of {missing!r}")
    return [*words, held] if held else words
