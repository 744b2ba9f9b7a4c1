"""The script language: lines, expressions, statements, the commands, the interpreter, and saving."""

from learners.genesis.script.arithmetic import Distribution, evaluate
from learners.genesis.script.commands import COMMANDS, CommandForm
from learners.genesis.script.interpreter import LIBRARY, Interpreter
from learners.genesis.script.saving import quoted, saved_script, written
from learners.genesis.script.source_lines import ScriptError

__all__ = [
    "COMMANDS", "LIBRARY", "CommandForm", "Distribution", "Interpreter", "ScriptError", "evaluate",
    "quoted", "saved_script", "written",
]  # fmt: skip
