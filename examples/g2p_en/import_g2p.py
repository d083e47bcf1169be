"""Turns g2p_en's letters-to-phonemes model (GRU encoder, GRU decoder, one vector between them) into ONNX.

usage: python import_g2p.py checkpoint20.npz OUT      (needs numpy and onnx)

The decoder sees a word only through the encoder's last state: no attention.
"""
import json
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LETTERS = ["<pad>", "<unk>", "</s>"] + list("abcdefghijklmnopqrstuvwxyz")
VOWELS = "AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW".split()
CONSONANTS = "B CH D DH F G HH JH K L M N NG P R S SH T TH V W Y Z ZH".split()
# Vowels carry a stress 0, 1 or 2; the set has "UW" without one too.
PHONEMES = ["<pad>", "<unk>", "<s>", "</s>"] + sorted([v + s for v in VOWELS for s in "012"] + CONSONANTS + ["UW"])
START, END = PHONEMES.index("<s>"), PHONEMES.index("</s>")


def reorder(w):
    """Gates of a GRU from PyTorch's order (reset, update, new) to ONNX's (update, reset, new)."""
    reset, update, new = np.split(w, 3)
    return np.concatenate([update, reset, new])


def gru(weights, side):
    """Initializers W (1, 3 n, width), R (1, 3 n, n), B (1, 6 n) of one direction."""
    w, r, bw, br = (reorder(weights[f"{side}_{part}"]) for part in ("w_ih", "w_hh", "b_ih", "b_hh"))
    return {"W": w[None], "R": r[None], "B": np.concatenate([bw, br])[None]}


def save(path, nodes, inputs, outputs, constants):
    info = lambda items: [helper.make_tensor_value_info(n, kind, shape) for n, (kind, shape) in items.items()]
    graph = helper.make_graph(nodes, os.path.basename(path).removesuffix(".onnx"), info(inputs), info(outputs),
                              [numpy_helper.from_array(np.ascontiguousarray(v), n) for n, v in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="import_g2p")
    onnx.checker.check_model(model)
    onnx.save(model, path)


def main(checkpoint, out):
    os.makedirs(out, exist_ok=True)
    w = np.load(checkpoint)
    hidden = w["enc_w_hh"].shape[1]
    node = helper.make_node
    recurrent = dict(hidden_size=hidden, linear_before_reset=1)
    state = (TensorProto.FLOAT, ["batch", hidden])
    first = np.array([0], np.int64)
    # GRU's sequences are (length, batch, width), its states (directions, batch, hidden).
    save(f"{out}/encoder.onnx",
         [node("Transpose", ["ids"], ["steps"], perm=[1, 0]), node("Gather", ["embedding", "steps"], ["x"]),
          node("GRU", ["x", "W", "R", "B"], ["", "last"], **recurrent), node("Squeeze", ["last", "first"], ["state"])],
         {"ids": (TensorProto.INT64, ["batch", "length"])}, {"state": state},
         {"embedding": w["enc_emb"], "first": first, **gru(w, "enc")})
    save(f"{out}/decoder_step.onnx",
         [node("Transpose", ["token"], ["step"], perm=[1, 0]), node("Gather", ["embedding", "step"], ["x"]),
          node("Unsqueeze", ["state", "first"], ["before"]), node("GRU", ["x", "W", "R", "B", "", "before"], ["", "last"], **recurrent),
          node("Squeeze", ["last", "first"], ["new_state"]), node("Gemm", ["new_state", "output", "bias"], ["logits"], transB=1)],
         {"token": (TensorProto.INT64, ["batch", 1]), "state": state},
         {"logits": (TensorProto.FLOAT, ["batch", len(PHONEMES)]), "new_state": state},
         {"embedding": w["dec_emb"], "first": first, "output": w["fc_w"], "bias": w["fc_b"], **gru(w, "dec")})
    with open(f"{out}/generation_config.json", "w") as f:
        json.dump({"decoder_start_token_id": START, "eos_token_id": END, "pad_token_id": 0, "max_new_tokens": 20, "num_beams": 1}, f, indent=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
