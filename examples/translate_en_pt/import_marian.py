"""Turns a Marian/Bergamot student (transformer encoder, SSRU decoder) into ONNX: encoder_model.onnx, decoder_step.onnx.

usage: python import_marian.py MODEL_DIR OUT      (needs numpy and onnx)
"""
import glob
import json
import os
import shutil
import sys

import numpy as np
from onnx import TensorProto

import marian_file

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from onnx_builder import Builder

HEADS = 8


class MarianBuilder(Builder):
    def w(self, name):
        """A weight of the file; biases and scales, stored as (1, n), become (n)."""
        value = self.weights[name]
        self.initializers[name] = value[0] if value.ndim == 2 and value.shape[0] == 1 else value
        return name

    def linear(self, x, prefix, suffix):
        return self.Add(self.MatMul(x, self.w(f"{prefix}_W{suffix}")), self.w(f"{prefix}_b{suffix}"))

    def normalize(self, x, prefix):
        return self.LayerNormalization(x, self.w(prefix + "_ln_scale"), self.w(prefix + "_ln_bias"), epsilon=1e-6)

    def attention(self, query, memory, visible, prefix):
        """Multi-head attention with output projection; `visible` is bool (batch, 1, 1, length)."""
        width = self.weights[prefix + "_Wq"].shape[1]
        q, k, v = (self.split_heads(self.linear(x, prefix, c), HEADS, width) for x, c in ((query, "q"), (memory, "k"), (memory, "v")))
        scores = self.Mul(self.MatMul(q, self.Transpose(k, perm=[0, 1, 3, 2])), float((width // HEADS) ** -0.5))
        weights = self.Softmax(self.Where(visible, scores, float("-inf")), axis=-1)
        context = self.merge_heads(self.MatMul(weights, v), width)
        return self.linear(context, prefix, "o")

    def feed_forward(self, x, prefix):
        hidden = self.Relu(self.linear(x, prefix, "1"))
        return self.normalize(self.Add(x, self.linear(hidden, prefix, "2")), prefix + "_ffn")

    def embed(self, ids):
        width = self.weights["Wemb"].shape[1]
        return self.Mul(self.Gather(self.w("Wemb"), ids), float(width**0.5))

    def positions(self, position):
        """Sinusoids of float positions (..., 1): all sines, then all cosines, wavelengths up to 10000."""
        half = self.weights["Wemb"].shape[1] // 2
        rates = np.exp(-np.log(10000.0) / (half - 1) * np.arange(half)).astype(np.float32)
        angles = self.Mul(position, rates)
        return self.Concat(self.Sin(angles), self.Cos(angles), axis=-1)

    def visible(self, attention_mask):
        return self.Unsqueeze(self.Cast(attention_mask, to=TensorProto.BOOL), [1, 2])


def layers(weights, prefix):
    return sorted({int(n.split("_l")[1].split("_")[0]) for n in weights if n.startswith(prefix + "_l")})


def encoder(weights, path):
    b = MarianBuilder(weights)
    length = b.Gather(b.Shape("input_ids"), 1)
    position = b.Unsqueeze(b.Cast(b.Range(0, length, 1), to=TensorProto.FLOAT), [1])
    x = b.Add(b.embed("input_ids"), b.positions(position))
    visible = b.visible("attention_mask")
    for i in layers(weights, "encoder"):
        p = f"encoder_l{i}_self"
        x = b.normalize(b.Add(x, b.attention(x, x, visible, p)), p + "_Wo")
        x = b.feed_forward(x, f"encoder_l{i}_ffn")
    axes = ["batch", "source"]
    b.save(path, {"input_ids": (TensorProto.INT64, axes), "attention_mask": (TensorProto.INT64, axes)},
           {"memory": (x, TensorProto.FLOAT, axes + [weights["Wemb"].shape[1]])})


def decoder_step(weights, path):
    """One step. The first (position 0) has no previous token: its embedding is zero."""
    b = MarianBuilder(weights)
    width = weights["Wemb"].shape[1]
    position = b.Cast("position", to=TensorProto.FLOAT)
    started = b.Unsqueeze(b.Cast(b.Greater("position", 0), to=TensorProto.FLOAT), [2])
    x = b.Add(b.Mul(b.embed("token"), started), b.positions(b.Unsqueeze(position, [2])))
    visible = b.visible("attention_mask")
    cells = {}
    for i in layers(weights, "decoder"):
        p = f"decoder_l{i}_rnn"  # SSRU: c = f c' + (1 - f) W x with a forget gate f; the output is relu(c)
        forget = b.Sigmoid(b.linear(x, p, "f")) if f"{p}_bf" in weights else b.Sigmoid(b.MatMul(x, b.w(p + "_Wf")))
        cell = b.Add(b.Mul(forget, f"c{i}"), b.Mul(b.Sub(1.0, forget), b.MatMul(x, b.w(p + "_W"))))
        cells[i] = cell
        x = b.normalize(b.Add(x, b.Relu(cell)), p + "_ffn")
        p = f"decoder_l{i}_context"
        x = b.normalize(b.Add(x, b.attention(x, "memory", visible, p)), p + "_Wo")
        x = b.feed_forward(x, f"decoder_l{i}_ffn")
    logits = b.Add(b.MatMul(x, b.Transpose(b.w("Wemb"), perm=[1, 0])), b.w("decoder_ff_logit_out_b"))
    state = [ "batch", 1, width]
    inputs = {"token": (TensorProto.INT64, ["batch", 1]), "position": (TensorProto.INT64, ["batch", 1]),
              "memory": (TensorProto.FLOAT, ["batch", "source", width]), "attention_mask": (TensorProto.INT64, ["batch", "source"])}
    inputs.update({f"c{i}": (TensorProto.FLOAT, state) for i in cells})
    outputs = {"logits": (logits, TensorProto.FLOAT, ["batch", 1, weights["Wemb"].shape[0]])}
    outputs.update({f"new_c{i}": (c, TensorProto.FLOAT, state) for i, c in cells.items()})
    b.save(path, inputs, outputs)


def shortlist(model_dir, out):
    """The lexical shortlist as attune reads it."""
    frequent, offsets, tokens = marian_file.read_shortlist(glob.glob(f"{model_dir}/lex*.bin")[0])
    np.savez(f"{out}/shortlist.npz", always=np.arange(frequent, dtype=np.int32), offsets=offsets, tokens=tokens)


def main(model_dir, out):
    os.makedirs(out, exist_ok=True)
    weights = marian_file.read(glob.glob(f"{model_dir}/model*.bin")[0])
    encoder(weights, f"{out}/encoder_model.onnx")
    decoder_step(weights, f"{out}/decoder_step.onnx")
    shutil.copy(glob.glob(f"{model_dir}/vocab*.spm")[0], f"{out}/source.spm")
    shortlist(model_dir, out)
    with open(f"{out}/generation_config.json", "w") as f:
        # Id 0 ends a sentence; the first step ignores the token it is given.
        json.dump({"decoder_start_token_id": 0, "eos_token_id": 0, "pad_token_id": 0, "max_new_tokens": 200,
                   "max_length_factor": 2.5, "num_beams": 1}, f, indent=1)
    print(f"{out}: {sum(w.size for w in weights.values()) / 1e6:.1f} M parameters")


if __name__ == "__main__":
    main(*sys.argv[1:])
