"""Graphs of ONNX written as Python expressions, for the importers of these examples."""
import os

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSET = 17


class Builder:
    """An ONNX graph that grows by calls: b.MatMul(x, w) adds a node and gives the name of its output."""

    def __init__(self, weights):
        self.weights, self.nodes, self.initializers, self.names = weights, [], {}, 0

    def __getattr__(self, op):
        def add(*inputs, outputs=1, **attributes):
            names = [self.fresh(op) for _ in range(outputs)]
            inputs = [i if isinstance(i, str) else self.constant(i) for i in inputs]
            self.nodes.append(helper.make_node(op, inputs, names, **attributes))
            return names[0] if outputs == 1 else names

        return add

    def fresh(self, stem):
        self.names += 1
        return f"{stem}_{self.names}"

    def constant(self, value):
        if isinstance(value, (int, list)):
            value = np.asarray(value, np.int64)
        elif isinstance(value, float):
            value = np.asarray(value, np.float32)
        name = self.fresh("constant")
        self.initializers[name] = value
        return name

    def split_heads(self, x, heads, width):
        """(batch, length, width) to (batch, heads, length, width of a head)."""
        return self.Transpose(self.Reshape(x, [0, -1, heads, width // heads]), perm=[0, 2, 1, 3])

    def merge_heads(self, x, width):
        return self.Reshape(self.Transpose(x, perm=[0, 2, 1, 3]), [0, -1, width])

    def save(self, path, inputs, outputs):
        """inputs: name to (type, shape); outputs: name to (value, type, shape). Sizes with a name are dynamic."""
        for name, (source, _, _) in outputs.items():
            self.nodes.append(helper.make_node("Identity", [source], [name]))
        info = lambda name, kind, shape: helper.make_tensor_value_info(name, kind, shape)
        graph = helper.make_graph(
            self.nodes, os.path.basename(path).removesuffix(".onnx"), [info(n, k, s) for n, (k, s) in inputs.items()],
            [info(n, k, s) for n, (_, k, s) in outputs.items()], [numpy_helper.from_array(v, n) for n, v in self.initializers.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8, producer_name="attune_examples")
        onnx.checker.check_model(model)
        onnx.save(model, path)
