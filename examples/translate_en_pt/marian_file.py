"""Reads Marian/Bergamot binary files.

A model: version, counts, headers, names, shapes, padding, data (all little-endian).

Weights are int8 with one multiplier each ("intgemm"): value = int8 / multiplier, the multiplier stored behind the data.
Quantised matrices are kept transposed, the embedding is not.
"""
import struct

import numpy as np

FLOAT32, INT8_QUANTISED = 0x404, 0x4101


def read(path):
    """Gives {name: float32 array}, matrices as (inputs, outputs)."""
    data = open(path, "rb").read()
    _, count = struct.unpack_from("<QQ", data, 0)
    headers = [struct.unpack_from("<QQQQ", data, 16 + 32 * i) for i in range(count)]  # name length, type, rank, bytes
    at = 16 + 32 * count
    names, shapes, tensors = [], [], {}
    for length, _, _, _ in headers:
        names.append(data[at : at + length - 1].decode())
        at += length
    for _, _, rank, _ in headers:
        shapes.append(struct.unpack_from(f"<{rank}i", data, at))
        at += 4 * rank
    at += 8 + struct.unpack_from("<Q", data, at)[0]
    for (_, kind, _, size), name, shape in zip(headers, names, shapes):
        count = int(np.prod(shape))
        if kind == FLOAT32:
            if not name.startswith("special:"):
                tensors[name] = np.frombuffer(data, np.float32, count, at).reshape(shape).copy()
        elif not name.endswith("QuantMultA") and not name.startswith("special:"):
            quantised = np.frombuffer(data, np.int8, count, at).astype(np.float32)
            multiplier = np.frombuffer(data, np.float32, 1, at + count)[0]
            value = quantised / multiplier
            tensors[name] = value.reshape(shape) if name == "Wemb" else np.ascontiguousarray(value.reshape(shape[::-1]).T)
        at += size
    return tensors


SHORTLIST = 0xF11A48D5013417F5


def read_shortlist(path):
    """Gives (frequent, offsets, tokens): the `frequent` first target ids are always allowed, and source id s allows
    tokens[offsets[s] : offsets[s + 1]].

    The file: a magic number, a checksum, the number of frequent ids, the most ids for one source id, the lengths of the
    two arrays (all 64 bits), offsets (64 bits each), tokens (32 bits each).
    """
    data = open(path, "rb").read()
    magic, _, frequent, _, offsets, tokens = struct.unpack_from("<6Q", data, 0)
    if magic != SHORTLIST:
        raise ValueError(f"{path}: not a binary shortlist")
    at = 48 + 8 * offsets
    return frequent, np.frombuffer(data, np.uint64, offsets, 48).astype(np.int64), np.frombuffer(data, np.uint32, tokens, at).astype(np.int32)
