"""Attention operators of ONNX Runtime's own domain: each configuration is run by ONNX Runtime as it is, by attune as it
is and converted, and by ONNX Runtime after conversion to standard operators and to model-local functions. All must
agree.

usage: raised_attention_test.py ATTUNE FOLDER COUNT
"""

import pathlib
import shutil
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
from raised_attention_cases import Generator

TOLERANCE = 2e-5  # relative to the largest value


def all_nodes(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from all_nodes(attribute.g)


def run_onnxruntime(path, feeds):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))


def attune(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, arguments))}: {done.stderr.strip()}")


def difference(case, expected, got):
    for name, e in expected.items():
        index = int(name.removeprefix("output"))
        if got[name].dtype != e.dtype:
            return f"{name}: {got[name].dtype}, expected {e.dtype}"
        e, g = (case.valid(index, a).astype(np.float64) for a in (e, got[name]))
        if e.shape != g.shape:
            return f"{name}: {g.shape}, expected {e.shape}"
        if e.size and not np.abs(e - g).max() <= TOLERANCE * max(1.0, np.abs(e).max()):
            return f"{name}: differs by {np.abs(e - g).max()}"
    return None


def check(program, folder, case, embeds):
    """What differs; nothing if all agree. `embeds`: with the operator as a model-local function, too."""
    original, data = folder / "model.onnx", folder / "inputs.npz"
    oracle = case.unpacked or case
    onnx.save(oracle.model(), original)
    expected = run_onnxruntime(original, oracle.feeds())
    onnx.save(case.model(), original)
    np.savez(data, **case.feeds())

    def run(model):
        attune(program, "run", model, "--inputs", data, "--output", folder / "got.npz")
        return dict(np.load(folder / "got.npz"))

    problems = [("as it is", difference(case, expected, run(original)))]
    for target in ("attune", "portable", "onnx") if embeds else ("attune", "onnx"):
        converted = folder / f"{target}.onnx"
        attune(program, "convert", original, "-o", converted, "--no-verify", "--target", target)
        nodes = list(all_nodes(onnx.load(converted).graph))
        if any(n.domain == "com.microsoft" for n in nodes):
            problems.append((target, "has nodes of com.microsoft left"))
        attends = sum(n.domain == "ai.attune" and n.op_type == "Attention" for n in nodes)
        if target == "attune" and attends != case.attentions():
            problems.append((target, f"has {attends} attentions"))
        if target == "portable":  # is read as what it was made from
            back = folder / "back.onnx"
            attune(program, "convert", converted, "-o", back, "--no-verify")
            nodes = list(all_nodes(onnx.load(back).graph))
            if sum(n.domain == "ai.attune" and n.op_type == "Attention" for n in nodes) != case.attentions():
                problems.append((target, "isn't read back as attentions"))
            problems.append(("portable, read back", difference(case, expected, run(back))))
        got = run(converted) if target == "attune" else run_onnxruntime(converted, case.feeds())
        problems.append((target, difference(case, expected, got)))
    return [f"{where}: {what}" for where, what in problems if what]


def main():
    program, folder, count = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
    onnxruntime.set_default_logger_severity(4)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    bad, counts = 0, {}
    for seed in range(count):
        case = Generator(seed).case()
        counts[case.op] = counts.get(case.op, 0) + 1
        try:
            problems = check(program, folder, case, embeds=seed % 4 == 0)
        except Exception as error:  # a host's own exceptions have no common type
            problems = [str(error)[-400:]]
        if problems:
            bad += 1
            if bad <= 10:
                print(f"case {seed}: {case.describe()}", *problems, sep="\n  ", flush=True)
    print(f"{count} configurations ({counts}), {bad} differ")
    sys.exit(1 if bad else 0)


main()
