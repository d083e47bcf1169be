from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

import numpy as np

from attune import _attune


def convert(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    target: Literal["attune", "portable", "onnx"] = "attune",
    verify: bool = True,
    tolerance: float | None = None,
    max_rewrites: int = -1,
    weights_type: Literal["float16", "bfloat16", "int8", "int4"] | None = None,
    rounded_activations: bool = True,
    kv_type: Literal["float16", "bfloat16"] | None = None,
    add_cache: bool = False,
    threads: int = 0,
    sizes: Mapping[str, int] | None = None,
    verify_inputs: Mapping[str, np.ndarray] | None = None,
) -> _attune.Conversion:
    """Converts a model, or every .onnx file of a folder, whose other files are copied.

    With `verify`, source and result run on made-up inputs, and nothing is written (`Conversion.written` is False) if they
    differ by more than `tolerance` (None: by the model's precision). Where the source takes none of these, `sizes` names sizes of dimensions that it does
    take ({"batch": 2}), and `verify_inputs` gives the inputs themselves. `max_rewrites` stops after so many changes.
    `weights_type` stores matrices narrower, and with `rounded_activations` the file allows attune to round what they are multiplied
    with, too; `kv_type` stores the keys and values that decoders keep narrower; `add_cache` gives decoders without a cache one.
    """
    return _attune.convert(
        source,
        output,
        target=target,
        verify=verify,
        tolerance=tolerance,
        max_rewrites=max_rewrites,
        weights_type=weights_type,
        rounded_activations=rounded_activations,
        kv_type=kv_type,
        add_cache=add_cache,
        threads=threads,
        sizes=None if sizes is None else dict(sizes),
        verify_inputs=None if verify_inputs is None else dict(verify_inputs),
    )
