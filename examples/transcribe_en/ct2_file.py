"""Reads the tensors of a CTranslate2 model.bin (version 6)."""
import struct

import numpy as np

TYPES = [np.float32, np.int8, np.int16, np.int32, np.float16]


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, code):
        value, = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def text(self):
        """Its length, with a closing zero byte, in 16 bits."""
        size = self.number("H")
        value = self.data[self.at : self.at + size - 1].decode()
        self.at += size
        return value

    def array(self):
        shape = [self.number("I") for _ in range(self.number("B"))]
        kind = np.dtype(TYPES[self.number("B")])
        size = self.number("I")
        value = np.frombuffer(self.data, kind, size // kind.itemsize, self.at).reshape(shape)
        self.at += size
        return value


def read(path):
    """Name of the kind of model, and its arrays by name."""
    with open(path, "rb") as f:
        reader = Reader(f.read())
    version = reader.number("I")
    if version != 6:
        raise ValueError(f"{path}: version {version} of the format, expected 6")
    kind = reader.text()
    reader.number("I")  # revision of the kind
    arrays = {}
    for _ in range(reader.number("I")):
        name = reader.text()
        arrays[name] = reader.array()
    for _ in range(reader.number("I")):
        alias, name = reader.text(), reader.text()
        arrays[alias] = arrays[name]
    return kind, arrays
