"""Writes the cases of cases.py, and converted models with the source's outputs, for replay.py.

usage: write_cases.py FOLDER
"""
import pathlib
import subprocess
import sys

import ml_dtypes
import numpy as np
import onnx
from cases import TOLERANCE, all_cases
from hosts import BUILD, ROOT
from onnx import TensorProto, helper
from recorded import recorded_cases, tolerance

# Small, of several kinds of attention, and of opsets that the oldest release knows.
MODELS = ["tests/models/gru_bahdanau/torchscript_op14/decoder_step.onnx", "tests/models/marian/*optimum*/*.onnx"]


def with_casts(model: onnx.ModelProto) -> onnx.ModelProto:
    """bfloat16 inputs and outputs as float32, since NumPy has no bfloat16."""
    graph = model.graph
    node = graph.node[0]
    before, after = [], []
    for ports, names in ((graph.input, node.input), (graph.output, node.output)):
        for port in ports:
            if port.type.tensor_type.elem_type != TensorProto.BFLOAT16:
                continue
            port.type.tensor_type.elem_type = TensorProto.FLOAT
            inner = port.name + "_bfloat16"
            names[list(names).index(port.name)] = inner
            if ports is graph.input:
                before.append(helper.make_node("Cast", [port.name], [inner], to=TensorProto.BFLOAT16))
            else:
                after.append(helper.make_node("Cast", [inner], [port.name], to=TensorProto.FLOAT))
                # As in converted files: ONNX Runtime 1.17 does not infer the type itself.
                graph.value_info.append(helper.make_tensor_value_info(inner, TensorProto.BFLOAT16, None))
    nodes = [*before, onnx.NodeProto.FromString(node.SerializeToString()), *after]
    del graph.node[:]
    graph.node.extend(nodes)
    return model


def plain(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    for case in all_cases():
        onnx.save(with_casts(case.model()), folder / f"{case.name}.onnx")
        outputs = {f"out_out{i}": plain(e) for i, e in enumerate(case.expected) if e is not None}
        np.savez(folder / f"{case.name}.npz", tolerance=TOLERANCE[case.element], **outputs,
                 **{f"in_{n}": plain(a) for n, a in case.feed.items()})
    for pattern in MODELS:
        for source in sorted(ROOT.glob(pattern)):
            name = "_".join(source.parts[-3:])[:-5]
            subprocess.run([BUILD / "attune", "convert", source, "-o", folder / f"{name}.onnx", "--no-verify"], check=True, capture_output=True)
            feed, wanted = next(iter(recorded_cases(source)))
            np.savez(folder / f"{name}.npz", tolerance=tolerance(source), **{f"in_{k}": v for k, v in feed.items()},
                     **{f"out_{k}": v for k, v in wanted.items()})


main()
