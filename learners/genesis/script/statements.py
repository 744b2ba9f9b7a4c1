r"""The grammar: lines become a tree of commands, assignments, branches, loops and functions.

>>> from learners.genesis.script.source_lines import source_lines
>>> tree = parsed(source_lines("if (x > 1)\n  step 2\nelse\n  step 3\nend", "x.g"))
>>> type(tree[0]).__name__, tree[0].test, tree[0].body[0].words, tree[0].otherwise[0].words
('If', 'x > 1', ('step', '2'), ('step', '3'))
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from keyword import iskeyword

from learners.genesis.script.arithmetic import CONSTANTS
from learners.genesis.script.source_lines import Line, words_of

__all__ = [
    "Assign", "Command", "For", "Foreach", "Function", "If", "Include", "Return", "Statement", "While",
    "parsed",
]  # fmt: skip

MAX_DEPTH = 100  # of blocks within blocks
DECLARED = re.compile(r"(int|float|str)\s+([A-Za-z_]\w*)\s*(?:=(?!=)\s*(.+))?\Z", re.DOTALL)
ASSIGNED = re.compile(r"([A-Za-z_]\w*)\s*=(?!=)\s*(.+)\Z", re.DOTALL)
BRACKETED = re.compile(r"(\w+)\s*\((.*)\)\s*\Z", re.DOTALL)
FOREACH = re.compile(r"foreach\s+([A-Za-z_]\w*)\s*\((.*)\)\s*\Z", re.DOTALL)
FUNCTION = re.compile(r"function\s+([A-Za-z_][\w-]*)\s*(?:\(([\w\s,]*)\))?\s*\Z")
FIRST = re.compile(r"[\w-]+")
WORDS = ("if", "while", "for", "foreach", "function", "return", "include")  # that begin a statement


@dataclass(frozen=True, slots=True)
class Statement:
    """Any statement, with its line."""

    line: Line


@dataclass(frozen=True, slots=True)
class Command(Statement):
    """A command and its words, substitutions not yet made."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Assign(Statement):
    """``x = expression``, of a declared type if `kind` is int, float or str."""

    name: str
    expression: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class If(Statement):
    """Two branches."""

    test: str
    body: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class While(Statement):
    """A loop."""

    test: str
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class For(Statement):
    """A loop with a beginning and an update."""

    first: Assign
    test: str
    update: Assign
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Foreach(Statement):
    """A loop over words."""

    name: str
    words: tuple[str, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Function(Statement):
    """A definition; `source` is its text."""

    name: str
    parameters: tuple[str, ...]
    body: tuple[Statement, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Return(Statement):
    """The end of a function; `expression` may be empty."""

    expression: str


@dataclass(frozen=True, slots=True)
class Include(Statement):
    """Another script, in the place of this line."""

    words: tuple[str, ...]


def parsed(lines: list[Line]) -> tuple[Statement, ...]:
    """Return the statements of the lines.

    Raises
    ------
    ScriptError
        If a block does not end, or a line is malformed.
    """
    reader = _Reader(lines)
    found = reader.block(None, 0)
    if reader.place < len(lines):
        line = lines[reader.place]
        raise line.error(
            f"{line.text.split()[0]!r} must follow a block that it belongs to, got none"
        )
    return found


class _Reader:
    """Reads lines from the first to the last."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines, self.place = lines, 0

    def block(self, opener: Line | None, depth: int) -> tuple[Statement, ...]:
        """Read up to the `end` or `else` that closes a block; without opener, to the end."""
        if depth > MAX_DEPTH and opener is not None:
            raise opener.error(f"blocks must be at most {MAX_DEPTH} deep")
        found: list[Statement] = []
        while self.place < len(self.lines):
            line = self.lines[self.place]
            if line.text in ("end", "else"):
                return tuple(found)
            self.place += 1
            found.append(self.statement(line, depth))
        if opener is not None:
            raise opener.error(f"{opener.text.split()[0]!r} must be closed by an `end`, got none")
        return tuple(found)

    def body(self, opener: Line, depth: int) -> tuple[Statement, ...]:
        """Read a block and its `end`."""
        found = self.block(opener, depth + 1)
        self._close(opener)
        return found

    def _close(self, opener: Line) -> None:
        line = self.lines[self.place]
        if line.text != "end":
            raise line.error(
                f"the block of line {opener.number} must be closed by `end`, got {line.text!r}"
            )
        self.place += 1

    def statement(self, line: Line, depth: int) -> Statement:
        """Read one statement, with its block if it has one."""
        first = FIRST.match(line.text)
        word = first[0] if first else ""
        if word in ("if", "while", "for"):
            return self._bracketed(line, word, depth)
        if word == "foreach":
            each = _wanted(line, FOREACH, "foreach x (a b c)")
            words = tuple(words_of(line, each[2]))
            return Foreach(line, _variable(line, each[1]), words, self.body(line, depth))
        if word == "function":
            return self._function(line, depth)
        if word == "return":
            return Return(line, line.text[len("return") :].strip())
        if word == "include":
            return Include(line, tuple(words_of(line)[1:]))
        return _assignment(line, line.text) or Command(line, tuple(words_of(line)))

    def _bracketed(self, line: Line, word: str, depth: int) -> Statement:
        inside = _wanted(line, BRACKETED, f"{word} (...)")[2]
        if word == "while":
            return While(line, inside, self.body(line, depth))
        if word == "for":
            parts = inside.split(";")
            ends = [_assignment(line, part.strip()) for part in (parts[0], parts[-1])]
            if len(parts) != 3 or ends[0] is None or ends[1] is None:
                raise line.error("a for must be `for (i = 0; i < n; i = i + 1)`, got another form")
            return For(line, ends[0], parts[1], ends[1], self.body(line, depth))
        body = self.block(line, depth + 1)
        otherwise: tuple[Statement, ...] = ()
        if self.lines[self.place].text == "else":
            self.place += 1
            otherwise = self.block(line, depth + 1)
        self._close(line)
        return If(line, inside, body, otherwise)

    def _function(self, line: Line, depth: int) -> Function:
        if depth:
            raise line.error("a function must be defined outside of blocks")
        head = _wanted(line, FUNCTION, "function name(a, b)")
        words = (head[2] or "").replace(",", " ").split()
        parameters = tuple(_variable(line, one) for one in words)
        start = self.place - 1
        body = self.body(line, depth)
        source = "\n".join(one.text for one in self.lines[start : self.place])
        return Function(line, head[1], parameters, body, source)


def _wanted(line: Line, form: re.Pattern[str], example: str) -> re.Match[str]:
    found = form.match(line.text)
    if found is None:
        raise line.error(f"the line must be of the form `{example}`, got {line.text!r}")
    return found


def _assignment(line: Line, text: str) -> Assign | None:
    """Return the assignment or declaration that a text is; None if it is neither."""
    declared = DECLARED.match(text)
    if declared:
        kind, name, expression = declared.groups()
        value = expression or ('""' if kind == "str" else "0")
        return Assign(line, _variable(line, name), value, kind)
    assigned = ASSIGNED.match(text)
    return Assign(line, _variable(line, assigned[1]), assigned[2]) if assigned else None


def _variable(line: Line, name: str) -> str:
    """Return the name of a variable that an expression can read, and a script that `save` writes can set."""
    if name in WORDS:
        raise line.error(f"a variable must not have the name of a statement, {name}")
    if name in CONSTANTS or iskeyword(name):
        raise line.error(f"a variable must not have the name of a constant or operator, {name}")
    return name
