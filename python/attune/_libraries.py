from __future__ import annotations

import pathlib

_FOLDER = pathlib.Path(__file__).parent / "lib"


def onnxruntime_library() -> str:
    """The path of the plug-in for ONNX Runtime, for SessionOptions.register_custom_ops_library()."""
    return _library("libattune_onnxruntime.so")


def openvino_library() -> str:
    """The path of the plug-in for OpenVINO, for Core.add_extension(). FileNotFoundError if attune was built without it."""
    return _library("libattune_openvino.so")


def _library(name: str) -> str:
    file = _FOLDER / name
    if not file.exists():
        raise FileNotFoundError(f"{file}: this build of attune does not have it")
    return str(file)
