"""Every recorded model of a zoo, converted, in each host: with the plug-in, and portable and standard files without it.

usage: zoo.py ZOO KNOWN [--plug-in-only] [PART_OF_PATH...]

With the plug-in, 8 threads at once run a session. --plug-in-only: in ONNX Runtime with it, nothing else.
KNOWN lists, with a reason, what can't pass: a file and a run ("onnx in openvino"), where the host refuses the *source* file or gives
other values for it too. A line that isn't needed any more is an error, as is a failure that has no line. A reason that starts with
"either way" is of a value at a rounding tie, which falls as the processor's and its libraries' sums do: such a run may pass or not.
"""
from __future__ import annotations

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

from hosts import BUILD, OnnxRuntime, OpenVino, Reference
from recorded import recorded_cases, relative_difference, tolerance

RUNS = [("attune", OnnxRuntime), ("attune", OpenVino), ("portable", OnnxRuntime), ("portable", Reference),
        ("onnx", OnnxRuntime), ("onnx", OpenVino), ("onnx", Reference)]


def runtime(host, plugin: bool):
    # As the recordings were made: what is compared is the operator, not ONNX Runtime's own optimiser.
    return OnnxRuntime(plugin=plugin, optimise=False) if host is OnnxRuntime else host(plugin=plugin)


def wrong_output(run, recordings, limit: float) -> str:
    for feed, wanted in recordings:
        got = run(feed)
        for name, want in wanted.items():
            if got[name].shape != want.shape:
                return f"{name}: shape {got[name].shape}, recorded {want.shape}"
            worst = relative_difference(got[name], want)
            if not worst < limit:
                return f"{name} differs by {worst:.2g}"
    return ""


def trouble(host, plugin: bool, file: pathlib.Path, recordings, limit: float) -> str:
    """Why `file` doesn't give the recorded outputs in `host`; empty if it does."""
    try:
        run = runtime(host, plugin).load(file)
        if why := wrong_output(run, recordings, limit):
            return why
        if plugin:
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                for why in pool.map(lambda _: wrong_output(run, recordings, limit), range(8)):
                    if why:
                        return f"in one of 8 threads, {why}"
    except Exception as error:  # each host has exceptions of its own
        return f"{type(error).__name__}: {error}".replace("\n", " ").replace("\t", " ")[:300]
    return ""


class Checker:
    def __init__(self, zoo: pathlib.Path, known: pathlib.Path, runs=RUNS):
        self.zoo = zoo
        self.runs = runs
        # The program needs no instrumented run-time library.
        self.environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        lines = [line.split("\t") for line in known.read_text().splitlines() if line]
        self.known = {(name, run): why for name, run, why in lines}
        self.passed = self.listed = 0
        self.failures: list[str] = []

    def check(self, source: pathlib.Path) -> None:
        recordings = list(recorded_cases(source))
        if not recordings:
            return
        name = str(source.relative_to(self.zoo))
        failures = len(self.failures)
        limit = tolerance(source)
        with tempfile.TemporaryDirectory() as folder:
            for target in dict.fromkeys(target for target, _ in self.runs):
                out = pathlib.Path(folder) / f"{target}.onnx"
                done = subprocess.run([BUILD / "attune", "convert", source, "-o", out, "--no-verify", "--target", target], capture_output=True,
                                      env=self.environment)
                if done.returncode:
                    self.fail(name, target, f"not converted: {done.stderr.decode().strip()[:300]}")
                    continue
                for run_target, host in self.runs:
                    if run_target == target:
                        self.judge(name, f"{target} in {host.name}", host, trouble(host, target == "attune", out, recordings, limit),
                                   source, recordings, limit)

        if len(self.failures) == failures:
            print("ok", name, flush=True)

    def judge(self, name, run, host, why, source, recordings, limit) -> None:
        if not why:
            if not self.known.get((name, run), "either way").startswith("either way"):
                self.fail(name, run, "is in the list, but passes")
            else:
                self.passed += 1
        elif (name, run) in self.known:
            self.listed += 1
        else:
            of_source = trouble(host, False, source, recordings, limit)
            self.fail(name, run, why + (f" [source: {of_source}]" if of_source else " [the source passes]"))

    def fail(self, name: str, run: str, why: str) -> None:
        self.failures.append(f"{name}\t{run}\t{why}")
        print("FAILED", self.failures[-1], flush=True)


def main() -> int:
    zoo, known, parts = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
    only = "--plug-in-only" in parts
    parts = [p for p in parts if p != "--plug-in-only"]
    checker = Checker(zoo, known, RUNS[:1] if only else RUNS)
    files = [f for f in sorted(zoo.rglob("*.onnx")) if not parts or any(p in str(f) for p in parts)]
    for file in files:
        checker.check(file)
    print(f"{checker.passed} passed, {checker.listed} listed, {len(checker.failures)} failed")
    return 1 if checker.failures or not checker.passed else 0


if __name__ == "__main__":
    sys.exit(main())
