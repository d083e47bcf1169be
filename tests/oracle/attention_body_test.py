"""Runs the function bodies and lowered forms of generated attentions by onnx.reference and ONNX Runtime, and compares
with the kernel.

usage: attention_body_test.py CASES_PROGRAM FOLDER COUNT
"""

import pathlib
import shutil
import subprocess
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

# Relative to the largest value.
TOLERANCE = {np.dtype("float32"): 2e-5, np.dtype("float64"): 1e-12, np.dtype("float16"): 4e-3, np.dtype("int64"): 0}


def difference(got, expected):
    """The largest difference, relative to the largest finite number; infinite where NaN or infinities differ."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return f"{got.dtype}{got.shape} instead of {expected.dtype}{expected.shape}"
    got, expected = got.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(expected)
    same = np.array_equal(got[~finite], expected[~finite], equal_nan=True) and np.isfinite(got[finite]).all()
    if not same:
        return "other infinities or NaN"
    if not finite.any():
        return 0.0
    return float(np.abs(got[finite] - expected[finite]).max() / max(1.0, np.abs(expected[finite]).max()))


def hosts(path):
    yield "onnx.reference", lambda feeds: ReferenceEvaluator(onnx.load(path)).run(None, feeds)

    def run_onnxruntime(feeds):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return session.run(None, feeds)

    yield "ONNX Runtime", run_onnxruntime


def check(path):
    data = np.load(path.parent / "data.npz")
    graph = onnx.load(path).graph
    feeds = {i.name: data[i.name] for i in graph.input}
    names = [o.name for o in graph.output]
    failures = []
    for host, run in hosts(path):
        try:
            outputs = run(feeds)
        except Exception as error:  # a host's own exceptions have no common type
            failures.append(f"{path.name}: {host}: {str(error)[-300:]}")
            continue
        for name, got in zip(names, outputs):
            expected = data[name]
            d = difference(np.asarray(got), expected)
            if isinstance(d, str) or not d <= TOLERANCE[expected.dtype]:
                failures.append(f"{path.name}: {host}: {name} differs: {d}")
    return failures


def main():
    program, folder, count = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    onnxruntime.set_default_logger_severity(4)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([program, folder, str(count)], check=True)
    bad = lowered = 0
    for case in sorted(folder.iterdir()):
        failures = check(case / "model.onnx")
        if (case / "lowered.onnx").exists():
            lowered += 1
            failures += check(case / "lowered.onnx")
        if failures:
            bad += 1
            if bad <= 10:
                print(case.name, (case / "description.txt").read_text().strip(), *failures, sep="\n  ")
    print(f"{count} configurations, {lowered} of them by the standard Attention too, {bad} differ")
    sys.exit(1 if bad else 0)


main()
