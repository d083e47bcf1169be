"""Writes ONNX's node tests as folders: make_node_tests.py FOLDER

FOLDER/NAME/model.onnx, test_data_set_0/input_I.pb and output_I.pb, tolerance.json. The tests come from the onnx package.
"""
import json
import pathlib
import sys

import numpy as np
import onnx
import onnx.backend.test.loader
from onnx.backend.test.case.node import collect_testcases


def proto(value, info):
    """`value` as the proto that ONNX's runner would read."""
    kind = info.type.WhichOneof("value")
    if kind == "optional_type":
        return onnx.numpy_helper.from_optional(value, info.name)
    if kind == "sequence_type":
        return onnx.numpy_helper.from_list(value, info.name)
    if isinstance(value, onnx.TensorProto):
        return value
    if isinstance(value, str):
        value = np.array(value, dtype=object)
    return onnx.numpy_helper.from_array(np.asarray(value), info.name)


def main():
    root = pathlib.Path(sys.argv[1])
    count = 0
    for case in collect_testcases(None):
        if case.model is None:
            continue
        folder = root / case.name
        folder.mkdir(parents=True, exist_ok=True)
        onnx.save(case.model, folder / "model.onnx")
        (folder / "tolerance.json").write_text(json.dumps({"rtol": case.rtol, "atol": case.atol}))
        for number, (inputs, outputs) in enumerate(case.data_sets):
            data = folder / f"test_data_set_{number}"
            data.mkdir(exist_ok=True)
            for what, values, infos in (("input", inputs, case.model.graph.input), ("output", outputs, case.model.graph.output)):
                for i, (value, info) in enumerate(zip(values, infos, strict=True)):
                    (data / f"{what}_{i}.pb").write_bytes(proto(value, info).SerializeToString())
        count += 1
    print(f"{count} node tests")


main()
