from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from attune import _attune


class Model:
    """An ONNX model, ready to run. Any number of threads may call run(); the interpreter's lock is free meanwhile."""

    def __init__(self, file: str | os.PathLike[str], *, threads: int = 0) -> None:
        """`threads`: 0 takes the physical cores."""
        self._model = _attune.Model(file, threads=threads)

    @property
    def inputs(self) -> list[_attune.Port]:
        return self._model.inputs

    @property
    def outputs(self) -> list[_attune.Port]:
        return self._model.outputs

    def run(self, inputs: Mapping[str, npt.ArrayLike], outputs: Sequence[str] = ()) -> dict[str, Any]:
        """Computes `outputs` (all, if none are named). Contiguous arrays are read where they are; results are NumPy arrays
        over attune's memory, sequences of them lists."""
        return self._model.run(dict(inputs), list(outputs))


def run(file: str | os.PathLike[str], inputs: Mapping[str, npt.ArrayLike], outputs: Sequence[str] = ()) -> dict[str, Any]:
    """Loads and runs a model once."""
    return Model(file).run(inputs, outputs)
