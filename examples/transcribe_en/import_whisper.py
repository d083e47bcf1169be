"""Turns a Whisper model in CTranslate2's format into ONNX: encoder_model.onnx, decoder_model.onnx and configuration files.

usage: python import_whisper.py MODEL_DIR OUT      (needs numpy and onnx)
"""
import json
import os
import re
import shutil
import sys

import numpy as np
from onnx import TensorProto

import ct2_file

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from onnx_builder import Builder

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


class WhisperBuilder(Builder):
    def w(self, name, transposed=False):
        """A weight of the file as float32."""
        key = name + ("_transposed" if transposed else "")
        if key not in self.initializers:
            value = np.asarray(self.weights[name], np.float32)
            self.initializers[key] = np.ascontiguousarray(value.T) if transposed else value
        return key

    def linear(self, x, name):
        y = self.MatMul(x, self.w(name + "/weight", transposed=True))
        return self.Add(y, self.w(name + "/bias")) if name + "/bias" in self.weights else y

    def normalize(self, x, name):
        return self.LayerNormalization(x, self.w(name + "/gamma"), self.w(name + "/beta"), epsilon=1e-5)

    def gelu(self, x):
        return self.Mul(self.Mul(x, 0.5), self.Add(self.Erf(self.Mul(x, float(0.5**0.5))), 1.0))

    def attend(self, q, k, v, width, bias=None):
        """Heads split; `bias` is added to the scores."""
        heads = int(self.weights["encoder/num_heads"])
        scores = self.MatMul(self.Mul(q, float((width // heads) ** -0.5)), self.Transpose(k, perm=[0, 1, 3, 2]))
        weights = self.Softmax(self.Add(scores, bias) if bias else scores, axis=-1)
        return self.merge_heads(self.MatMul(weights, v), width)

    def projections(self, x, name, count, width):
        """Linear layers that the file has side by side, their heads split."""
        heads = int(self.weights["encoder/num_heads"])
        parts = self.Split(self.linear(x, name), [width] * count, axis=-1, outputs=count) if count > 1 else [self.linear(x, name)]
        return [self.split_heads(p, heads, width) for p in parts]

    def feed_forward(self, x, name):
        hidden = self.gelu(self.linear(self.normalize(x, name + "/ffn/layer_norm"), name + "/ffn/linear_0"))
        return self.Add(x, self.linear(hidden, name + "/ffn/linear_1"))


def layers(weights, side):
    return sorted({int(m[1]) for n in weights if (m := re.match(rf"{side}/layer_(\d+)/", n))})


def encoder(weights, path):
    b = WhisperBuilder(weights)
    width, mels, _ = weights["encoder/conv1/weight"].shape
    length = weights["encoder/position_encodings/encodings"].shape[0]
    x = "input_features"
    for name, stride in (("encoder/conv1", 1), ("encoder/conv2", 2)):
        x = b.gelu(b.Conv(x, b.w(name + "/weight"), b.w(name + "/bias"), pads=[1, 1], strides=[stride]))
    x = b.Add(b.Transpose(x, perm=[0, 2, 1]), b.w("encoder/position_encodings/encodings"))
    for i in layers(weights, "encoder"):
        name = f"encoder/layer_{i}"
        q, k, v = b.projections(b.normalize(x, name + "/self_attention/layer_norm"), name + "/self_attention/linear_0", 3, width)
        x = b.Add(x, b.linear(b.attend(q, k, v, width), name + "/self_attention/linear_1"))
        x = b.feed_forward(x, name)
    x = b.normalize(x, "encoder/layer_norm")
    b.save(path, {"input_features": (FLOAT, ["batch", mels, 2 * length])},
           {"last_hidden_state": (x, FLOAT, ["batch", length, width])})


def decoder(weights, path):
    """Any number of tokens behind those whose keys and values are given."""
    b = WhisperBuilder(weights)
    vocabulary, width = weights["decoder/embeddings/weight"].shape
    heads, length = int(weights["encoder/num_heads"]), weights["encoder/position_encodings/encodings"].shape[0]
    past = b.Gather(b.Shape("past_key_0"), 2)
    new = b.Gather(b.Shape("input_ids"), 1)
    positions = b.Range(past, b.Add(past, new), 1)
    x = b.Add(b.Gather(b.w("decoder/embeddings/weight"), "input_ids"),
              b.Gather(b.w("decoder/position_encodings/encodings"), positions))
    # A token sees those at its own position and before.
    visible = b.LessOrEqual(b.Unsqueeze(b.Range(0, b.Add(past, new), 1), [0]), b.Unsqueeze(positions, [1]))
    bias = b.Where(visible, 0.0, float("-inf"))
    caches = {}
    for i in layers(weights, "decoder"):
        name = f"decoder/layer_{i}"
        q, k, v = b.projections(b.normalize(x, name + "/self_attention/layer_norm"), name + "/self_attention/linear_0", 3, width)
        k, v = b.Concat(f"past_key_{i}", k, axis=2), b.Concat(f"past_value_{i}", v, axis=2)
        caches[f"key_{i}"], caches[f"value_{i}"] = k, v
        x = b.Add(x, b.linear(b.attend(q, k, v, width, bias), name + "/self_attention/linear_1"))
        q, = b.projections(b.normalize(x, name + "/attention/layer_norm"), name + "/attention/linear_0", 1, width)
        k, v = b.projections("encoder_hidden_states", name + "/attention/linear_1", 2, width)
        x = b.Add(x, b.linear(b.attend(q, k, v, width), name + "/attention/linear_2"))
        x = b.feed_forward(x, name)
    logits = b.MatMul(b.normalize(x, "decoder/layer_norm"), b.Transpose(b.w("decoder/embeddings/weight"), perm=[1, 0]))
    inputs = {"input_ids": (INT64, ["batch", "new"]), "encoder_hidden_states": (FLOAT, ["batch", length, width])}
    inputs.update({"past_" + n: (FLOAT, ["batch", heads, "past", width // heads]) for n in caches})
    outputs = {"logits": (logits, FLOAT, ["batch", "new", vocabulary])}
    outputs.update({"present_" + n: (c, FLOAT, ["batch", heads, "total", width // heads]) for n, c in caches.items()})
    b.save(path, inputs, outputs)


def configurations(weights, model_dir, out):
    with open(f"{model_dir}/config.json") as f:
        config = json.load(f)
    with open(f"{model_dir}/tokenizer.json") as f:
        token = {t["content"]: t["id"] for t in json.load(f)["added_tokens"]}
    vocabulary, width = weights["decoder/embeddings/weight"].shape
    source, target = (weights[f"{side}/position_encodings/encodings"].shape[0] for side in ("encoder", "decoder"))
    multilingual = vocabulary >= 51865  # the English models have one token less
    generation = {
        "decoder_start_token_id": token["<|startoftranscript|>"], "eos_token_id": token["<|endoftext|>"],
        "pad_token_id": token["<|endoftext|>"], "bos_token_id": token["<|endoftext|>"], "max_length": target,
        "suppress_tokens": config["suppress_ids"], "begin_suppress_tokens": config["suppress_ids_begin"],
        "no_timestamps_token_id": token["<|notimestamps|>"], "max_initial_timestamp_index": 50,
        "prev_sot_token_id": token["<|startofprev|>"], "alignment_heads": config["alignment_heads"], "is_multilingual": multilingual}
    if multilingual:
        generation["lang_to_id"] = {n: i for n, i in token.items() if i in config["lang_ids"]}
        generation["task_to_id"] = {"translate": token["<|translate|>"], "transcribe": token["<|transcribe|>"]}
    files = {
        "generation_config.json": generation,
        "config.json": {"model_type": "whisper", "d_model": width, "vocab_size": vocabulary, "max_source_positions": source, "max_target_positions": target,
                        "median_filter_width": 7},
        "preprocessor_config.json": {"feature_extractor_type": "WhisperFeatureExtractor", "sampling_rate": 16000, "hop_length": 160,
                                     "n_fft": 400, "chunk_length": 30, "feature_size": weights["encoder/conv1/weight"].shape[1]}}
    for name, content in files.items():
        with open(f"{out}/{name}", "w") as f:
            json.dump(content, f, indent=1)
    shutil.copy(f"{model_dir}/tokenizer.json", f"{out}/tokenizer.json")


def main(model_dir, out):
    os.makedirs(out, exist_ok=True)
    kind, weights = ct2_file.read(f"{model_dir}/model.bin")
    if kind != "WhisperSpec":
        raise SystemExit(f"{model_dir}: a {kind}, expected a Whisper model")
    encoder(weights, f"{out}/encoder_model.onnx")
    decoder(weights, f"{out}/decoder_model.onnx")
    configurations(weights, model_dir, out)
    print(f"{out}: Whisper with {len(layers(weights, 'decoder'))} layers of width {weights['decoder/embeddings/weight'].shape[1]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
