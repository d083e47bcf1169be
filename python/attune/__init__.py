"""An attention compiler and runtime for ONNX encoder-decoder models.

>>> attune.convert("decoder_model.onnx", "fused.onnx")
>>> attune.Model("fused.onnx").run({"input_ids": ids, ...})
>>> attune.Generator("FOLDER").generate({"input_ids": ids}, num_beams=4)
"""

from attune._attune import (
    Conversion,
    ConvertedModel,
    Diagnosis,
    Error,
    Generation,
    HeadDiagnosis,
    NearMiss,
    OutputDiagnosis,
    Port,
    Repeat,
    Rewrite,
    Tokenizer,
    Verification,
    VerifiedCase,
)
from attune._attune import version as __version__
from attune._convert import convert
from attune._diagnosis import diagnose
from attune._generator import GenerationOptions, Generator, load_tokenizer
from attune._libraries import onnxruntime_library, openvino_library
from attune._model import Model, run
from attune._reference import reference_operators

__all__ = [
    "__version__",
    "Conversion",
    "ConvertedModel",
    "Diagnosis",
    "Error",
    "Generation",
    "GenerationOptions",
    "Generator",
    "HeadDiagnosis",
    "Model",
    "NearMiss",
    "OutputDiagnosis",
    "Port",
    "Repeat",
    "Rewrite",
    "Tokenizer",
    "Verification",
    "VerifiedCase",
    "convert",
    "diagnose",
    "load_tokenizer",
    "onnxruntime_library",
    "openvino_library",
    "reference_operators",
    "run",
]
