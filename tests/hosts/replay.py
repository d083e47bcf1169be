"""Runs recorded cases in the ONNX Runtime of this Python, through the plug-in. Needs NumPy and onnxruntime alone, any release.

usage: replay.py LIBRARY FOLDER   where FOLDER/NAME.onnx and FOLDER/NAME.npz (in_NAME, out_NAME, tolerance)
"""
import concurrent.futures
import pathlib
import sys

import numpy as np
import onnxruntime


def check(session, names, inputs, wanted, tolerance):
    for name, got in zip(names, session.run(names, inputs)):
        want = wanted[name]
        if got.shape != want.shape:
            raise AssertionError(f"{name}: shape {got.shape}, expected {want.shape}")
        if want.size:
            worst = np.abs(got.astype(np.float64) - want.astype(np.float64)).max() / max(1.0, np.abs(want.astype(np.float64)).max())
            if not worst < tolerance:
                raise AssertionError(f"{name} differs by {worst:.2g}")


def main():
    library, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    failed = 0
    files = sorted(folder.glob("*.onnx"))
    for file in files:
        data = np.load(file.with_suffix(".npz"))
        inputs = {k[3:]: data[k] for k in data.files if k.startswith("in_")}
        wanted = {k[4:]: data[k] for k in data.files if k.startswith("out_")}
        try:
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            options.register_custom_ops_library(library)
            session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
            arguments = session, list(wanted), inputs, wanted, float(data["tolerance"])
            check(*arguments)
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                for done in [pool.submit(check, *arguments) for _ in range(8)]:
                    done.result()
        except Exception as error:
            failed += 1
            print("FAILED", file.stem, str(error)[:300].replace("\n", " "))
    print(f"ONNX Runtime {onnxruntime.__version__}: {len(files) - failed} of {len(files)} cases passed")
    return 1 if failed or not files else 0


sys.exit(main())
