"""The contract of `lint-imports` that finds circles of modules, imports for type checking included."""

from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output

from tests.arrows.circles import circles, faults


class CirclesContract(Contract):
    """`type = "circles"`: there is none."""

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        imports = {
            module: graph.find_modules_directly_imported_by(module)
            for module in graph.modules
            if not graph.is_module_squashed(module)
        }
        said = faults(circles(imports))
        return ContractCheck(kept=not said, metadata={"faults": said})

    def render_broken_contract(self, check: ContractCheck) -> None:
        said: list[Any] = check.metadata["faults"]
        for fault in said:
            output.print_error(fault)
