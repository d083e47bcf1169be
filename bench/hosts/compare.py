"""A folder of models in ONNX Runtime, as exported and as converted, side by side: encoder and decoding step.

usage: compare.py SOURCE_FOLDER CONVERTED_FOLDER PLUGIN [--threads 2] [--seconds 1] [--lengths 32,128,512] [--past 16] [--turn 1]

Both sessions have ONNX Runtime's own optimiser at its highest level, and take turns. Prints medians; the median, over pairs of turns,
of the source's time to the converted model's (above 1: the converted one is faster); and the largest difference of their outputs.
Threads of a session wait for work actively for some 60 ms, beside the other session's turn. With --turn N a turn is 0.1 s that
doesn't count and then N runs, of which the median counts.
"""
import argparse
import pathlib
import statistics
import time

import numpy as np
import onnxruntime


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("converted", type=pathlib.Path)
    parser.add_argument("plugin")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--lengths", default="32,128,512")
    parser.add_argument("--past", type=int, default=16)
    parser.add_argument("--turn", type=int, default=1, help="runs of a session before the other's turn")
    parser.add_argument("--files", default="encoder_model,decoder_with_past_model")
    return parser.parse_args()


def session(file, threads, plugin=None):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    if plugin:
        options.register_custom_ops_library(plugin)
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def feed(model, length, past, rng):
    """Batch 1; the dimension names of Hugging Face's exports say what is what."""
    values = {}
    for i in model.get_inputs():
        shape = []
        for d in i.shape:
            if isinstance(d, int):
                shape.append(d)
            elif "batch" in d:
                shape.append(1)
            elif "past" in d and "encoder" not in d:
                shape.append(past)
            elif "decoder" in d:
                shape.append(1)
            else:
                shape.append(length)
        if "mask" in i.name:
            values[i.name] = np.ones(shape, np.int64)
        elif i.type == "tensor(int64)":
            values[i.name] = rng.integers(5, 1000, shape)
        else:
            values[i.name] = (rng.standard_normal(shape) * 0.3).astype(np.float16 if "float16" in i.type else np.float32)
    return values


def turn(session, inputs, runs):
    """Seconds of a run, the median of so many."""
    settled = time.perf_counter() + (0.1 if runs > 1 else 0)
    while time.perf_counter() < settled:
        session.run(None, inputs)
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        session.run(None, inputs)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main():
    a = arguments()
    for name in a.files.split(","):
        sessions = [session(a.source / f"{name}.onnx", a.threads), session(a.converted / f"{name}.onnx", a.threads, a.plugin)]
        for length in map(int, a.lengths.split(",")):
            inputs = [feed(s, length, a.past, np.random.default_rng(length)) for s in sessions]
            outputs = [dict(zip([o.name for o in s.get_outputs()], s.run(None, f))) for s, f in zip(sessions, inputs)]
            worst = max(np.abs(outputs[0][k] - outputs[1][k]).max() / np.abs(outputs[0][k]).max() for k in outputs[0])
            times = [[], []]
            end = time.perf_counter() + a.seconds
            while time.perf_counter() < end:
                for s, f, t in zip(sessions, inputs, times):
                    t.append(turn(s, f, a.turn))
            source, converted = (statistics.median(t) * 1e3 for t in times)
            ratio = statistics.median(s / c for s, c in zip(*times))
            print(f"{name} {length}: ONNX Runtime {source:.2f} ms, with the plug-in {converted:.2f} ms, ratio {ratio:.2f}, "
                  f"difference {worst:.1e}", flush=True)


main()
