"""Two import contracts of import-linter that derive what they check from the tree.

A sub-room is a package inside a root package: `quality.labels` is one, `quality.labels.columns` its inside.
`FaceContract` forbids imports that pass a sub-room's face by, `CircleContract` import circles between
modules; imports inside functions and for type checkers count. pyproject.toml names both.
"""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output

__all__ = ["CircleContract", "FaceContract"]


class FaceContract(Contract):
    """Forbid imports of a sub-room's inside by any module outside that sub-room."""

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Collect the imports that pass a face by."""
        insides = sorted(module for module in graph.modules if module.count(".") >= 2)
        passing = [
            f"{importer} -> {inside}"
            for inside in insides
            for importer in sorted(graph.find_modules_that_directly_import(inside))
            if importer.split(".")[:2] != inside.split(".")[:2]
        ]
        return ContractCheck(kept=not passing, metadata={"passing": passing})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each of those imports."""
        for link in check.metadata["passing"]:
            output.print_error(f"- {link}", bold=False)
        output.new_line()


class CircleContract(Contract):
    """Forbid import circles between modules."""

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Collect circles, each one cut before the next is looked for."""
        imports = {
            m: set(graph.find_modules_directly_imported_by(m)) for m in sorted(graph.modules)
        }
        circles = []
        while circle := _circle_of(imports):
            circles.append(" <- ".join(circle))
            imports[circle[1]].discard(circle[0])
        return ContractCheck(kept=not circles, metadata={"circles": circles})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print them: each module is imported by the next one."""
        for circle in check.metadata["circles"]:
            output.print_error(f"- {circle}", bold=False)
        output.new_line()


def _circle_of(imports: dict[str, set[str]]) -> list[str]:
    """Modules of which each is imported by the next, the last one the first again; empty if none are."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []
