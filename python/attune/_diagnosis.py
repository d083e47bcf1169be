from __future__ import annotations

import os
from collections.abc import Mapping

import numpy.typing as npt

from attune import _attune


def diagnose(
    folder: str | os.PathLike[str],
    inputs: Mapping[str, npt.ArrayLike],
    *,
    max_new_tokens: int | None = None,
    regime: bool = True,
    longest_source: int = 512,
    longest_target: int = 64,
    threads: int = 0,
) -> _attune.Diagnosis:
    """What the attentions of a model do on `inputs`, which are as Generator.generate() takes them: heads with known faults,
    what the outputs leave out or repeat, and with `regime` the share of time that attention takes as sources grow up to
    `longest_source` and outputs up to `longest_target` tokens."""
    return _attune.diagnose(
        folder,
        dict(inputs),
        max_new_tokens=max_new_tokens,
        regime=regime,
        longest_source=longest_source,
        longest_target=longest_target,
        threads=threads,
    )
