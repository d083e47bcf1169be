"""Files with narrow weights, or narrow keys and values, in ONNX Runtime, against attune with float activations and against the source.

usage: weights_onnxruntime_test.py ATTUNE SOURCE_TREE
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort

ATTUNE, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
MODELS = ROOT / "tests" / "models" / "marian" / "optimum_sdpa_op17"
STORED = {"float16": onnx.TensorProto.FLOAT16, "bfloat16": onnx.TensorProto.BFLOAT16, "int8": onnx.TensorProto.INT8,
          "int4": onnx.TensorProto.INT4}
# Of the largest value of an output: what rounding the weights of these small models with random weights costs.
BOUND = {"float16": 2e-3, "bfloat16": 2e-2, "int8": 0.1, "int4": 0.8}


def run_onnxruntime(file, feed, level=ort.GraphOptimizationLevel.ORT_ENABLE_ALL):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = level
    session = ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feed)))


def run_attune(file, feed, work):
    np.savez(work / "in.npz", **feed)
    subprocess.run([ATTUNE, "run", str(file), "--inputs", str(work / "in.npz"), "--output", str(work / "out.npz")], check=True,
                   capture_output=True)
    return dict(np.load(work / "out.npz"))


def difference(a, b):
    return max(np.abs(a[n].astype(np.float64) - b[n]).max() / max(np.abs(b[n]).max(), 1e-9) for n in b if b[n].size)


def check(name, kind, target, work):
    data = np.load(MODELS / f"io_{name}_0.npz")
    feed = {k[3:]: data[k] for k in data.files if k.startswith("in_")}
    wanted = {k[4:]: data[k] for k in data.files if k.startswith("out_")}
    out = work / f"{name}.{kind}.{target}.onnx"
    subprocess.run([ATTUNE, "convert", str(MODELS / f"{name}.onnx"), "-o", str(out), "--weights-type", kind, "--activations", "float",
                    "--target", target], check=True, capture_output=True)
    stored = {i.data_type for i in onnx.load(out).graph.initializer}
    assert STORED[kind] in stored, f"{out.name}: no weights are stored as {kind}"
    onnx.checker.check_model(str(out))
    # Its further optimisations round the other operand of integer products.
    theirs, ours = run_onnxruntime(out, feed, ort.GraphOptimizationLevel.ORT_ENABLE_BASIC), run_attune(out, feed, work)
    same, cost = difference(ours, theirs), difference(run_onnxruntime(out, feed), wanted)
    assert same < 1e-4, f"{out.name}: attune and ONNX Runtime differ by {same:.2g}"
    assert cost < BOUND[kind], f"{out.name}: differs from the source by {cost:.2g}"
    print(f"{out.name}: {same:.1e} from ONNX Runtime, {cost:.1e} from the source")


def check_caches(name, target, work):
    """Keys and values in 16 bits."""
    data = np.load(MODELS / f"io_{name}_0.npz")
    feed = {k[3:]: data[k] for k in data.files if k.startswith("in_")}
    wanted = {k[4:]: data[k] for k in data.files if k.startswith("out_")}
    out = work / f"{name}.kv.{target}.onnx"
    subprocess.run([ATTUNE, "convert", str(MODELS / f"{name}.onnx"), "-o", str(out), "--kv-type", "float16", "--target", target],
                   check=True, capture_output=True)
    onnx.checker.check_model(str(out))
    narrow = {i.name for i in onnx.load(out).graph.input if i.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16}
    assert bool(narrow) == ("past" in name), f"{out.name}: {sorted(narrow)} are float16"
    feed = {k: v.astype(np.float16) if k in narrow else v for k, v in feed.items()}
    theirs, ours = run_onnxruntime(out, feed), run_attune(out, feed, work)
    assert any(v.dtype == np.float16 for v in theirs.values()), f"{out.name}: no output is float16"
    same, cost = difference(ours, theirs), difference(theirs, wanted)
    assert same < 2e-3 and cost < 2e-3, f"{out.name}: {same:.2g} from ONNX Runtime, {cost:.2g} from the source"
    print(f"{out.name}: {same:.1e} from ONNX Runtime, {cost:.1e} from the source")


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("encoder_model", "decoder_with_past_model"):
            for kind in STORED:
                for target in ("portable", "onnx"):
                    check(name, kind, target, pathlib.Path(folder))
        for name in ("decoder_model", "decoder_with_past_model"):
            for target in ("portable", "onnx"):
                check_caches(name, target, pathlib.Path(folder))


main()
