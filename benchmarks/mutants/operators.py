r"""Mutants made by rule: every comparison, guard, call and truth value inside the functions of a file.

Sums and products are left out: a wrong number is what the tests of values look for, and faults at the
edge of a condition are what they miss.

>>> text = "def f(a, b):\n    return a < b or not b\n"
>>> [one.name for one in mutants_of(text)]
['f: a < b or not b: or becomes and', 'f: a < b: < becomes <=', 'f: not b: not is dropped']
"""

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = ["Mutant", "functions_of", "mutants_of"]

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
SIGNS = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
EXTREMES = {"min": "max", "max": "min", "ceil": "floor", "floor": "ceil"}
SHOWN = 70  # letters of the code in a mutant's name


@dataclass(frozen=True, slots=True, eq=False)
class Mutant:
    """One fault: a name that hangs on no line number, its line, its statement's, and its place in a text."""

    name: str
    line: int
    statement: int
    text: str
    place: int

    @property
    def tree(self) -> ast.Module:
        """The text's tree with the fault."""
        tree = ast.parse(self.text)
        *_, apply = list(_places(tree))[self.place]
        apply()
        return ast.fix_missing_locations(tree)


def mutants_of(text: str) -> list[Mutant]:
    """Return every mutant of a file's functions, in the order of their lines; names are unique."""
    seen: Counter[str] = Counter()
    found = []
    for place, (function, statement, node, what, _) in enumerate(_places(ast.parse(text))):
        shown = " ".join(ast.unparse(node).split())
        name = f"{function}: {shown[:SHOWN]}: {what}"
        seen[name] += 1
        again = f" ({seen[name]})" if seen[name] > 1 else ""
        found.append(Mutant(name + again, node.lineno, statement, text, place))
    return sorted(found, key=lambda mutant: mutant.line)


Place = tuple[str, int, ast.stmt | ast.expr, str, Callable[[], None]]
"""The function that a node stands in, its statement's line, the node, what is done to it, what does it."""


def _places(tree: ast.Module) -> Iterator[Place]:
    """Nodes of functions' bodies that can be changed; annotations and defaults do not count."""
    done: set[ast.AST] = {
        one.value
        for one in ast.walk(tree)
        if isinstance(one, ast.keyword) and one.arg == "strict"  # of zip: lengths are always equal
    }
    for name, function in functions_of(tree, ""):
        statements = _statements(function)
        for statement in function.body:
            for node in ast.walk(statement):
                change = _change(node)
                if (
                    change is not None
                    and node not in done
                    and isinstance(node, ast.stmt | ast.expr)
                ):
                    done.add(node)
                    yield name, statements[node], node, *change


def _statements(function: ast.FunctionDef) -> dict[ast.AST, int]:
    """The line of the innermost statement that each node stands in."""
    found: dict[ast.AST, int] = {}
    for outer in ast.walk(function):  # inner statements come after those around them
        if isinstance(outer, ast.stmt):
            found.update(dict.fromkeys(ast.walk(outer), outer.lineno))
    return found


def functions_of(tree: ast.AST, under: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions with their qualified names, methods included; inner ones belong to the outer."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield under + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from functions_of(node, f"{under}{node.name}.")


def _change(node: ast.AST) -> tuple[str, Callable[[], None]] | None:
    """What to do to a node, in words and as a function; None where there is nothing to do."""
    match node:
        case ast.Compare(ops=[op, *_]):
            other = COMPARISONS[type(op)]
            what = f"{SIGNS[type(op)]} becomes {SIGNS[other]}"
            return what, lambda: node.ops.__setitem__(0, other())
        case ast.BoolOp(op=ast.Or()):
            return "or becomes and", lambda: setattr(node, "op", ast.And())
        case ast.BoolOp():
            return "and becomes or", lambda: setattr(node, "op", ast.Or())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return "not is dropped", lambda: _become(node, operand)
        case ast.Call(func=ast.Name(id=name) as called) if name in EXTREMES:
            return f"{name} becomes {EXTREMES[name]}", lambda: setattr(called, "id", EXTREMES[name])
        case ast.Call(func=ast.Attribute(attr=name) as called) if name in ("ceil", "floor"):
            what = f"{name} becomes {EXTREMES[name]}"
            return what, lambda: setattr(called, "attr", EXTREMES[name])
        case ast.Raise():
            return "raise is dropped", lambda: _become(node, ast.Pass())
        case ast.Expr(value=ast.Call(func=called)):  # named still: `super()` needs its cell
            return "call is dropped", lambda: setattr(node, "value", called)
        case ast.Constant(value=bool() as truth):
            return f"{truth} becomes {not truth}", lambda: setattr(node, "value", not truth)
    return None


def _become(node: ast.AST, other: ast.AST) -> None:
    """Make a node another one, in the place where it stands."""
    place = {name: getattr(node, name) for name in ast.stmt._attributes}
    node.__class__ = other.__class__  # type: ignore[assignment]
    node.__dict__.clear()
    node.__dict__.update({**other.__dict__, **place})
