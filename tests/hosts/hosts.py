"""The runtimes that attune's operators run in, each with or without its plug-in."""
from __future__ import annotations

import ctypes
import os
import pathlib

import ml_dtypes
import numpy as np
import onnx

BUILD = pathlib.Path(os.environ["ATTUNE_BUILD"])
PLUGINS = pathlib.Path(os.environ.get("ATTUNE_PLUGINS", BUILD))
ROOT = pathlib.Path(__file__).resolve().parents[2]


def plugin_built(file: str) -> bool:
    return (PLUGINS / file).exists()


class OnnxRuntime:
    name = "onnxruntime"
    available = plugin_built("libattune_onnxruntime.so")

    def __init__(self, plugin: bool = True, threads: int = 0, optimise: bool = True):
        import onnxruntime

        self.module = onnxruntime
        self.options = onnxruntime.SessionOptions()
        self.options.log_severity_level = 4
        self.options.intra_op_num_threads = threads
        if not optimise:
            self.options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        if plugin:
            self.options.register_custom_ops_library(str(PLUGINS / "libattune_onnxruntime.so"))

    def load(self, model: onnx.ModelProto | pathlib.Path):
        source = str(model) if isinstance(model, pathlib.Path) else model.SerializeToString()
        session = self.module.InferenceSession(source, self.options, providers=["CPUExecutionProvider"])
        names = [o.name for o in session.get_outputs()]
        given = {i.name for i in session.get_inputs()}
        bfloat16 = any(p.type == "tensor(bfloat16)" for p in [*session.get_inputs(), *session.get_outputs()])

        def run(feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            if bfloat16:
                return self._run_bfloat16(session, names, feed)
            return dict(zip(names, session.run(None, {k: v for k, v in feed.items() if k in given})))

        return run

    def _run_bfloat16(self, session, names, feed):
        """NumPy has no bfloat16: values go in and out by their bits."""
        value = self.module.OrtValue

        def wrap(a):
            if a.dtype.name == "bfloat16":
                return value.ortvalue_from_numpy_with_onnx_type(a.view(np.uint16), onnx.TensorProto.BFLOAT16)
            return value.ortvalue_from_numpy(a)

        results = {}
        for name, out in zip(names, session.run_with_ort_values(None, {k: wrap(v) for k, v in feed.items()})):
            if out.data_type() == "tensor(bfloat16)":
                pointer = ctypes.cast(out._ortvalue.data_ptr(), ctypes.POINTER(ctypes.c_uint16))
                bits = np.ctypeslib.as_array(pointer, (int(np.prod(out.shape())),))
                results[name] = bits.copy().view(ml_dtypes.bfloat16).reshape(out.shape())
            else:
                results[name] = out.numpy()
        return results


class OpenVino:
    name = "openvino"
    available = plugin_built("libattune_openvino.so")

    def __init__(self, plugin: bool = True, threads: int = 0):
        import openvino

        self.module = openvino
        self.core = openvino.Core()
        if plugin:
            self.core.add_extension(str(PLUGINS / "libattune_openvino.so"))
        # As the file says, not as the processor likes it.
        self.core.set_property("CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": str(threads)})

    def load(self, model: onnx.ModelProto | pathlib.Path):
        source = str(model) if isinstance(model, pathlib.Path) else model.SerializeToString()
        compiled = self.core.compile_model(self.core.read_model(source), "CPU")
        inputs = [(i, i.get_names()) for i in compiled.inputs]

        def run(feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            request = compiled.create_infer_request()
            given = {}
            for port, names in inputs:
                value = next(feed[n] for n in names if n in feed)
                if value.dtype.name == "bfloat16":
                    value = self.module.Tensor(np.ascontiguousarray(value).view(np.uint16), value.shape, self.module.Type.bf16)
                given[port] = value
            results = {}
            for port, value in request.infer(given).items():
                if port.get_element_type() == self.module.Type.bf16:
                    value = value.view(ml_dtypes.bfloat16)
                for name in port.get_names():
                    results[name] = value
            return results

        return run


class Reference:
    name = "reference"
    available = (BUILD / "python/attune").exists()

    def __init__(self, plugin: bool = True):
        self.operators = []
        if plugin:
            import attune

            self.operators = attune.reference_operators()

    def load(self, model: onnx.ModelProto | pathlib.Path):
        from onnx.reference import ReferenceEvaluator

        source = onnx.load(model) if isinstance(model, pathlib.Path) else model
        evaluator = ReferenceEvaluator(source, new_ops=self.operators)

        def run(feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            given = {i.name: feed[i.name] for i in source.graph.input if i.name in feed}
            return dict(zip(evaluator.output_names, evaluator.run(None, given)))

        return run
