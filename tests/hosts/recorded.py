"""Recorded inputs and outputs beside a model: io_FILE_CASE.npz with in_NAME and out_NAME."""
from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator

import numpy as np


def recorded_cases(file: pathlib.Path) -> Iterator[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
    # decoder_model must not take those of decoder_model_merged.
    is_case = re.compile(rf"io_{re.escape(file.stem)}_p?\d+(_[a-z0-9]+)?").fullmatch
    for recording in sorted(f for f in file.parent.glob("io_*.npz") if is_case(f.stem)):
        data = np.load(recording)
        yield ({k[3:]: data[k] for k in data.files if k.startswith("in_")},
               {k[4:]: data[k] for k in data.files if k.startswith("out_")})


def tolerance(file: pathlib.Path) -> float:
    variant = file.parent.name
    return 5e-3 if "int8" in variant else 1e-2 if "fp16" in variant else 1e-4


def relative_difference(got: np.ndarray, want: np.ndarray) -> float:
    """The largest difference, relative to the largest value."""
    if want.size == 0:
        return 0.0
    difference = np.abs(got.astype(np.float64) - want.astype(np.float64)).max()
    return float("inf") if np.isnan(difference) else difference / max(np.abs(want.astype(np.float64)).max(), 1e-9)
