"""Writes nchwc/model.onnx, a graph in blocks of 16 channels as ONNX Runtime saves it at its highest optimisation level on
a machine with AVX-512, and nchwc/case.npz, an input and what the graph gave before that without optimisation.

    python make_nchwc.py    (onnx, onnxruntime 1.32)
"""

import pathlib
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

FOLDER = pathlib.Path(__file__).parent / "nchwc"


def main():
    rng = np.random.default_rng(1)

    def weights(name, *shape):
        return numpy_helper.from_array((rng.standard_normal(shape) * 0.3).astype(np.float32), name)

    def node(kind, inputs, output, **attributes):
        return helper.make_node(kind, inputs, [output], **attributes)

    nodes = [
        node("Conv", ["x", "w1", "b1"], "a", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["a"], "b"),
        node("MaxPool", ["b"], "c", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Conv", ["c", "w2", "b2"], "d", pads=[1, 1, 1, 1]),
        node("Add", ["d", "c"], "e"),
        node("Relu", ["e"], "f"),
        node("Conv", ["f", "w3"], "g", group=16, pads=[1, 1, 1, 1]),
        node("LeakyRelu", ["g"], "h", alpha=0.2),
        node("Concat", ["h", "f"], "i", axis=1),
        node("AveragePool", ["i"], "j", kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 1, 1]),
        node("Resize", ["j", "", "scales"], "k", mode="nearest", coordinate_transformation_mode="asymmetric",
             nearest_mode="floor"),
        node("Conv", ["k", "w4", "b4"], "l"),
        node("Sigmoid", ["l"], "y"),
    ]
    constants = [weights("w1", 16, 3, 3, 3), weights("b1", 16), weights("w2", 16, 16, 3, 3), weights("b2", 16),
                 weights("w3", 16, 1, 3, 3), weights("w4", 20, 32, 1, 1), weights("b4", 20),
                 numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")]
    graph = helper.make_graph(
        nodes, "nchwc", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "height", "width"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 20, "h", "w"])], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)

    def session(level, saved=""):
        options = ort.SessionOptions()
        options.graph_optimization_level = level
        options.optimized_model_filepath = saved
        return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    levels = ort.GraphOptimizationLevel
    x = rng.standard_normal((2, 3, 21, 18)).astype(np.float32)
    y = session(levels.ORT_DISABLE_ALL).run(None, {"x": x})[0]
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.onnx"
        session(levels.ORT_ENABLE_ALL, path)
        saved = onnx.load(path)
    kinds = {n.op_type for n in saved.graph.node if n.domain == "com.microsoft.nchwc"}
    assert kinds == {"AveragePool", "Conv", "MaxPool", "ReorderOutput", "Upsample"}, kinds
    FOLDER.mkdir(exist_ok=True)
    onnx.save(saved, FOLDER / "model.onnx")
    np.savez(FOLDER / "case.npz", x=x, y=y)


if __name__ == "__main__":
    main()
