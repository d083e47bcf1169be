from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from attune import _attune


class GenerationOptions(TypedDict, total=False):
    """Names and meanings of Hugging Face's generation_config.json; what is left out is as the folder says."""

    max_length: int
    max_new_tokens: int
    max_length_factor: float
    min_length: int
    min_new_tokens: int
    num_beams: int
    num_return_sequences: int
    length_penalty: float
    early_stopping: bool | Literal["never"]
    do_sample: bool
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    typical_p: float
    epsilon_cutoff: float
    eta_cutoff: float
    seed: int
    repetition_penalty: float
    no_repeat_ngram_size: int
    bad_words_ids: Sequence[Sequence[int]]
    sequence_bias: Sequence[tuple[Sequence[int], float]]
    encoder_repetition_penalty: float
    encoder_no_repeat_ngram_size: int
    exponential_decay_length_penalty: tuple[int, float]
    remove_invalid_values: bool
    renormalize_logits: bool
    suppress_tokens: Sequence[int]
    begin_suppress_tokens: Sequence[int]
    forced_bos_token_id: int
    forced_eos_token_id: int | Sequence[int]
    decoder_start_token_id: int
    bos_token_id: int
    pad_token_id: int
    eos_token_id: int | Sequence[int]
    decoder_input_ids: Sequence[int] | Sequence[Sequence[int]]
    forced_decoder_ids: Sequence[tuple[int, int]]
    return_timestamps: bool
    no_timestamps_token_id: int
    max_initial_timestamp_index: int
    output_alignments: bool
    alignment_heads: Sequence[tuple[int, int]]


def _plain(value: object) -> object:
    """NumPy's numbers and arrays as JSON takes them."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"expected numbers, text, or lists and arrays of them, found {type(value).__name__}")


def _to_json(options: Mapping[str, object]) -> str:
    for name, value in options.items():
        try:
            json.dumps(value, default=_plain)
        except TypeError as error:
            raise TypeError(f"option {name}: {error}") from None
    return json.dumps(options, default=_plain)


class Generator:
    """Generation from a folder of ONNX files. Calls from several threads take turns; replica() gives another generator over
    the same weights, which works at the same time."""

    def __init__(self, folder: str | os.PathLike[str], *, threads: int = 0, alignments: bool = False) -> None:
        """`threads`: 0 takes the physical cores. `alignments`: output_alignments may be asked for."""
        self._generator = _attune.Generator(folder, threads=threads, alignments=alignments)
        self._turn = threading.RLock()

    def replica(self) -> Generator:
        """Another generator over the same weights, for another thread."""
        other = Generator.__new__(Generator)
        other._generator = self._generator.replica()
        other._turn = threading.RLock()
        return other

    def generate(self, inputs: Mapping[str, npt.ArrayLike], **options: Unpack[GenerationOptions]) -> list[list[_attune.Generation]]:
        """For each source, num_return_sequences generations. `inputs`: those of the encoder, first axis: sources."""
        unknown = sorted(options.keys() - GenerationOptions.__annotations__.keys())
        if unknown:
            raise TypeError(f"generate() has no option {', '.join(map(repr, unknown))}")
        with self._turn:
            return self._generator.generate(dict(inputs), _to_json(options))


def load_tokenizer(folder: str | os.PathLike[str], *, target: bool = False) -> _attune.Tokenizer:
    """The tokenizer of a model's folder: of the source texts, or with `target` of what is generated."""
    return _attune.load_tokenizer(folder, target=target)
