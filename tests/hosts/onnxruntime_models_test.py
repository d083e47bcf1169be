"""Converted models in ONNX Runtime: with the plug-in, and portable and standard files without it, against the sources.

usage: onnxruntime_models_test.py LIBRARY ATTUNE SOURCE_TREE
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime as ort

LIBRARY, ATTUNE, ROOT = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
RNG = np.random.default_rng(0)


def session(file, plugin=False):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    # As the recordings were made: what is compared is the operator, not ONNX Runtime's own optimiser.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if plugin:
        options.register_custom_ops_library(LIBRARY)
    return ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def sample(file):
    """Inputs for the demo models: 3 sources of 7, right padding, and states of the shapes that the source declares."""
    sizes = {}
    feed = {}
    for i in session(file).get_inputs():
        shape = []
        for d in i.shape:
            if isinstance(d, int):
                shape.append(d)
            else:
                shape.append(sizes.setdefault(d, 3 if "batch" in d else 7 if "encoder" in d or "source" in d else 4))
        if "mask" in i.name:
            value = np.arange(shape[1])[None] < np.array([7, 4, 1])[: shape[0], None]
            feed[i.name] = value if i.type == "tensor(bool)" else value.astype(np.int64)
        elif i.type == "tensor(int64)":
            feed[i.name] = RNG.integers(4, 500, shape)
        else:
            feed[i.name] = RNG.standard_normal(shape).astype(np.float32)
    return feed


def recorded(file):
    for npz in sorted(file.parent.glob(f"io_{file.stem}_*.npz")):
        data = np.load(npz)
        # io_decoder_model_merged_0 belongs to decoder_model_merged, not to decoder_model.
        if not npz.stem[len(f"io_{file.stem}_"):].split("_")[0].strip("p").isdigit():
            continue
        yield {k[3:]: data[k] for k in data.files if k.startswith("in_")}, {k[4:]: data[k] for k in data.files if k.startswith("out_")}


def cases(file):
    found = list(recorded(file))
    if found:
        return found
    feed = sample(file)
    source = session(file)
    return [(feed, dict(zip([o.name for o in source.get_outputs()], source.run(None, feed))))]


def check(file, work):
    tolerance = 5e-3 if "int8" in str(file) else 1e-2 if "fp16" in str(file) else 1e-4
    for target, plugin in (("attune", True), ("portable", False), ("onnx", False)):
        out = work / f"{target}.onnx"
        subprocess.run([ATTUNE, "convert", str(file), "-o", str(out), "--no-verify", "--target", target], check=True, capture_output=True)
        converted = session(out, plugin)
        names = [o.name for o in converted.get_outputs()]
        for feed, wanted in cases(file):
            got = dict(zip(names, converted.run(None, feed)))
            for name, want in wanted.items():
                worst = np.abs(got[name].astype(np.float64) - want).max() / max(np.abs(want.astype(np.float64)).max(), 1e-9) if want.size else 0
                assert got[name].shape == want.shape and worst < tolerance, f"{target}: output {name} differs by {worst:.2g}"


def main():
    # The reference that source models of int8 were recorded with does not saturate; a host may.
    files = sorted(ROOT.glob("examples/translate/models/*/*.onnx")) + sorted(ROOT.glob("tests/models/gru_bahdanau/*/*.onnx"))
    files += [f for f in sorted(ROOT.glob("tests/models/marian/*/*.onnx")) if "int8" not in str(f)]
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        for file in files:
            name = file.relative_to(ROOT)
            try:
                check(file, pathlib.Path(work))
                print("ok", name)
            except subprocess.CalledProcessError as error:
                failed += 1
                print("FAILED", name, error.stderr.decode()[:300])
            except Exception as error:
                failed += 1
                print("FAILED", name, str(error)[:300].replace("\n", " "))
    print(f"{len(files) - failed} passed, {failed} failed (ONNX Runtime {ort.__version__})")
    return failed > 0


sys.exit(main())
