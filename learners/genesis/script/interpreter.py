"""The interpreter: walks the statements of a script and calls the methods of a simulation.

A script can compute and call commands, and nothing else: expressions are walked and not evaluated
by Python, there is no command that touches a file, and the number of statements is limited.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from learners.genesis.script.arithmetic import evaluate
from learners.genesis.script.commands import COMMANDS
from learners.genesis.script.source_lines import Line, ScriptError, source_lines
from learners.genesis.script.statements import (
    Assign,
    Command,
    For,
    Foreach,
    Function,
    If,
    Include,
    Return,
    Statement,
    While,
    parsed,
)

__all__ = ["LIBRARY", "Interpreter"]

MAX_CALLS = 40  # of functions within functions, and scripts within scripts
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\Z")
ESCAPED = re.compile(r'\\(["n\\])')
OPTION = re.compile(r"-[A-Za-z_]\w*\Z")
KINDS: Mapping[str, Callable[[Any], Any]] = {"int": int, "float": float, "str": str}

HODGKIN_HUXLEY = """\
// A cell body with the channels of Hodgkin and Huxley (1952), at rest at -65 mV.
function make_hh(path)
  create active_compartment {path}
  create Na {path}/Na
  create K {path}/K
  link {path}/Na to {path}
  link {path}/K to {path}
end
"""

CONNOR_STEVENS = """\
// The cell of Connor and Stevens (1971) with its A current, which allows slow firing.
function make_cs(path)
  create active_compartment {path}
  set {path} Em -17 Rm {1 / 0.3}
  create Na_CS {path}/Na
  create K_CS {path}/K
  create channel_A {path}/A
  link {path}/Na to {path}
  link {path}/K to {path}
  link {path}/A to {path}
end
"""

LIBRARY: Mapping[str, str] = {  # scripts that come with the package, for `include`: published cells
    "hodgkin_huxley.g": HODGKIN_HUXLEY,
    "connor_stevens.g": CONNOR_STEVENS,
}


class _Returned(Exception):
    """A function has come to its `return`."""


class _Quit(Exception):
    """The script has come to `quit`."""


class Interpreter:
    """Variables, functions, and what is left of the budget of statements.

    Parameters
    ----------
    simulation
        The object whose methods the commands call.
    read
        Returns the text of a script by its name, for `include`.
    max_statements
        Statements and iterations that may be executed in all.
    """

    def __init__(
        self, simulation: Any, *, read: Callable[[str], str] | None, max_statements: int
    ) -> None:
        self.simulation, self.read = simulation, read
        self.variables: dict[str, Any] = {}
        self.functions: dict[str, Function] = {}
        self.left = self.max_statements = max_statements
        self._frames: list[dict[str, Any]] = []
        self._files: list[str] = []
        self._known: dict[str, Callable[..., Any]] = {
            "get": lambda path, field: simulation.get(path, field),
            "exists": lambda path: int(simulation.exists(path)),
            "time": lambda: simulation.time,
        }

    def run(self, text: str, name: str) -> None:
        """Execute a script."""
        if len(self._files) >= MAX_CALLS:
            raise ScriptError(f"{name}: scripts must be at most {MAX_CALLS} deep within each other")
        statements = parsed(source_lines(text, name))
        self._files.append(name)
        frames, self._frames = self._frames, []
        try:
            self._execute(statements)
        except _Quit:
            pass
        except _Returned:
            pass
        finally:
            self._files.pop()
            self._frames = frames

    def call(self, name: str, arguments: Iterable[object]) -> Any:
        """Call a function that a script has defined.

        Raises
        ------
        ValueError
            If no function has the name, or it takes another number of values.
        """
        given = tuple(arguments)
        if name not in self.functions:
            known = ", ".join(sorted({*self.functions, *COMMANDS})) or "none"
            raise ValueError(f"command or function {name!r} must exist; there are {known}")
        function = self.functions[name]
        if len(given) != len(function.parameters):
            takes = ", ".join(function.parameters) or "nothing"
            raise ValueError(f"{name} must be called with {takes}, got {len(given)} values")
        if len(self._frames) >= MAX_CALLS:
            raise ValueError(
                f"functions must be at most {MAX_CALLS} calls deep, got {name} once more"
            )
        self._frames.append(dict(zip(function.parameters, given, strict=True)))
        try:
            self._execute(function.body)
        except _Returned as returned:
            return returned.args[0]
        except _Quit:
            if self._files or len(self._frames) > 1:
                raise
        finally:
            self._frames.pop()
        return 0

    def definitions(self) -> list[str]:
        """Return the texts of the functions, by name."""
        return [self.functions[name].source for name in sorted(self.functions)]

    # statements

    def _execute(self, statements: tuple[Statement, ...]) -> None:
        for statement in statements:
            self._spend(statement.line)
            try:
                self._do(statement)
            except ScriptError:
                raise
            except RecursionError:
                raise statement.line.error(
                    "elements must be less nested, got too many levels"
                ) from None
            except (ValueError, TypeError, ArithmeticError) as error:
                raise statement.line.error(str(error)) from error

    def _spend(self, line: Line) -> None:
        self.left -= 1
        if self.left < 0:
            raise line.error(
                f"scripts must execute at most {self.max_statements} statements, got more; is this a loop "
                "without end?"
            )

    def _do(self, statement: Statement) -> None:
        match statement:
            case Command():
                self._command(statement)
            case Assign():
                self._assign(statement)
            case If():
                chosen = statement.body if self._truth(statement.test) else statement.otherwise
                self._execute(chosen)
            case While():
                while self._truth(statement.test):
                    self._spend(statement.line)
                    self._execute(statement.body)
            case For():
                self._assign(statement.first)
                while self._truth(statement.test):
                    self._spend(statement.line)
                    self._execute(statement.body)
                    self._assign(statement.update)
            case Foreach():
                for word in self._words(statement.line, statement.words):
                    self._spend(statement.line)
                    self._set_variable(statement.name, word)
                    self._execute(statement.body)
            case Function():
                if statement.name in COMMANDS or statement.name == "quit":
                    raise ValueError(
                        f"a function must not have the name of a command, {statement.name}"
                    )
                self.functions[statement.name] = statement
                if statement.name.isidentifier():
                    self._known[statement.name] = self._caller(statement.name)
            case Return():
                raise _Returned(self._value(statement.expression) if statement.expression else 0)
            case Include():
                self._include(statement)

    def _caller(self, name: str) -> Callable[..., Any]:
        return lambda *given: self.call(name, given)

    def _assign(self, statement: Assign) -> None:
        value = self._value(statement.expression)
        if statement.kind:
            value = KINDS[statement.kind](value)
        frame = self._frames[-1] if self._frames else self.variables
        if statement.kind:
            frame[statement.name] = value
        else:
            self._set_variable(statement.name, value)

    def _set_variable(self, name: str, value: Any) -> None:
        """Set a variable where it is known, else in the present function."""
        frame = self._frames[-1] if self._frames else self.variables
        if name not in frame and name in self.variables:
            frame = self.variables
        frame[name] = value

    def _include(self, statement: Include) -> None:
        words = self._words(statement.line, statement.words)
        if len(words) != 1:
            raise ValueError(f"include must be followed by one name, got {len(words)}")
        name = str(words[0])
        if name in self._files:
            raise ValueError(f"a script must not include itself, got {name!r}")
        if name in LIBRARY:
            text = LIBRARY[name]
        elif self.read is None:
            raise ValueError(f"include must name one of {', '.join(LIBRARY)} here, got {name!r}")
        else:
            try:
                text = self.read(name)
            except OSError as error:
                why = error.strerror or "it cannot be read"
                raise ValueError(f"included script {name!r} must be readable, got: {why}") from None
        self.run(text, name)

    # words and values

    def _truth(self, expression: str) -> bool:
        return bool(self._value(expression))

    def _value(self, expression: str) -> Any:
        expression = expression.strip()
        if expression.startswith("{") and expression.endswith("}") and expression.count("{") == 1:
            expression = expression[1:-1]
        names = {**self.variables, **self._frames[-1]} if self._frames else self.variables
        return evaluate(expression, names, self._known)

    def _words(self, line: Line, words: Iterable[str]) -> list[Any]:
        return [self._word(line, word) for word in words]

    def _word(self, line: Line, word: str) -> Any:
        """Return a word as a value: what its braces hold, a list, a number, or a text."""
        if word.startswith('"') and word.endswith('"') and len(word) > 1:
            plain = ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], word[1:-1])
            return self._substituted(line, plain)
        if word.startswith("(") and word.endswith(")"):
            value = self._value(word)
            return value if isinstance(value, tuple) else (value,)
        if word.startswith("{") and _end_of(word, 0) == len(word) - 1:
            return self._value(word[1:-1])
        if NUMBER.match(word):
            return float(word) if re.search(r"[.eE]", word) else int(word)
        return self._substituted(line, word)

    def _substituted(self, line: Line, text: str) -> str:
        """Return a text with the values of its braces in their places."""
        parts, place = [], 0
        while (start := text.find("{", place)) >= 0:
            end = _end_of(text, start)
            if end < 0:
                raise line.error("braces must end, got { without }")
            value = self._value(text[start + 1 : end])
            parts += [text[place:start], _as_text(value)]
            place = end + 1
        return "".join([*parts, text[place:]])

    def _command(self, statement: Command) -> None:
        name = statement.words[0]
        given = list(statement.words[1:])
        if name == "quit":
            raise _Quit
        if name not in COMMANDS:
            self.call(str(self._word(statement.line, name)), self._words(statement.line, given))
            return
        form = COMMANDS[name]
        words: list[str] = []
        options: dict[str, Any] = {}
        while given:
            word = given.pop(0)
            option = word[1:]
            if not OPTION.match(word) or name == "echo":
                words.append(word)
            elif option in form.flags:
                options[option] = True
            elif option in form.options and given:
                options[option] = self._word(statement.line, given.pop(0))
            else:
                known = ", ".join(f"-{one}" for one in (*form.options, *form.flags)) or "none"
                raise ValueError(
                    f"option of {name} must be one of {known} with its value, got {word}"
                )
        if name != "echo":
            words = [word for word in words if word != "to"]
        if not form.least <= len(words) <= form.most:
            raise ValueError(f"the command must be `{form.usage}`, got {len(words)} words")
        form.act(self.simulation, self._words(statement.line, words), options)


def _end_of(text: str, start: int) -> int:
    """Return where the brace that opens at `start` is closed; -1 if it is not."""
    depth = 0
    for place in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if not depth:
            return place
    return -1


def _as_text(value: Any) -> str:
    if isinstance(value, float) and abs(value) < 2**53 and value == int(value):
        return str(int(value))
    return str(value)
