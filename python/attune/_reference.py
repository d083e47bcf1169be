from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attune import _attune

if TYPE_CHECKING:
    from onnx.reference.op_run import OpRun


def reference_operators() -> list[type[OpRun]]:
    """The operators of ai.attune for onnx.reference: ReferenceEvaluator(model, new_ops=attune.reference_operators())."""
    from onnx.reference.op_run import OpRun

    def operator(name: str, attributes: list[str]) -> type[OpRun]:
        def run(self: OpRun, *inputs: Any, **given: Any) -> tuple[Any, ...]:
            present = {a.name for a in self.onnx_node.attribute}
            values = {a: given.get(a, getattr(self, a, None)) for a in attributes if a in present}
            wanted = [bool(output) for output in self.onnx_node.output]
            return tuple(_attune.evaluate(name, list(inputs), wanted, values))

        # Outputs that are left out stay None: an array in their place would become the value of inputs that are left out.
        members = {"op_domain": "ai.attune", "_run": run, "_check_and_fix_outputs": lambda self, outputs: outputs}
        return type(name, (OpRun,), members)

    return [operator(name, attributes) for name, attributes in _attune.operators().items()]
