"""Generated configurations of ONNX Runtime's attention operators, and of what belongs to them."""

import numpy as np
from onnx import TensorProto, helper

FILLERS = [None, -10000.0, -1e9, -3.4028234663852886e38, -5.0]


class Case:
    """One node with its inputs; None: left out. `valid` cuts what is meaningless off an output before comparing.
    `unpacked`: the inputs in a form that ONNX Runtime has a kernel for, where it has none for `inputs`."""

    def __init__(self, op, inputs, outputs, attributes, valid=None, unpacked=None):
        self.op, self.inputs, self.outputs, self.attributes = op, inputs, outputs, attributes
        self.valid = valid or (lambda index, array: array)
        self.unpacked = unpacked and Case(op, unpacked, outputs, attributes)

    def describe(self):
        shapes = [None if a is None else f"{a.dtype}{list(a.shape)}" for a in self.inputs]
        return f"{self.op} {self.attributes} {shapes}"

    def model(self):
        names = ["" if a is None else f"input{i}" for i, a in enumerate(self.inputs)]
        values = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), dims(n, a))
            for n, a in zip(names, self.inputs)
            if n
        ]
        outputs = [
            helper.make_tensor_value_info(f"output{i}", t, None) for i, t in enumerate(self.outputs) if t is not None
        ]
        node = helper.make_node(
            self.op,
            names,
            ["" if t is None else f"output{i}" for i, t in enumerate(self.outputs)],
            domain="com.microsoft",
            **self.attributes,
        )
        graph = helper.make_graph([node], "g", values, outputs)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def attentions(self):
        """How many Attention nodes it must become."""
        if self.op == "RotaryEmbedding":
            return 0
        return 2 if self.attributes.get("direction") == "bidirectional" else 1

    def feeds(self):
        return {f"input{i}": a for i, a in enumerate(self.inputs) if a is not None}


def dims(name, array):
    """Symbolic batches and lengths, but for what an operator tells forms of a mask by."""
    return [f"{name}_{i}" if array.ndim > 2 and i in (0, 1) else d for i, d in enumerate(array.shape)]


class Generator:
    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def chance(self, percent):
        return self.random.integers(100) < percent

    def below(self, n):
        return int(self.random.integers(n))

    def pick(self, choices):
        return choices[self.below(len(choices))]

    def normal(self, *shape):
        return self.random.standard_normal(shape).astype(np.float32)

    def mask(self, batch, queries, keys, forms):
        """An integer mask of one of the forms that the operators know."""
        form = self.pick(forms)
        lengths = self.random.integers(1, keys + 1, batch)
        if form == "none":
            return None
        if form == "lengths":
            return lengths.astype(np.int32)
        if form == "ends and starts":
            return np.concatenate([lengths, [self.below(int(n)) for n in lengths]]).astype(np.int32)
        if form == "lengths and offsets":
            offsets = np.arange(batch + 1) * keys
            return np.concatenate([lengths, offsets, offsets]).astype(np.int32)
        shape = (batch, keys) if form == "keys" else (batch, queries, keys)
        mask = (self.random.random(shape) < 0.7).astype(np.int32)
        if self.chance(20):
            mask[0] = 0  # rows that see nothing
        return mask

    def common(self, heads):
        attributes = {"num_heads": heads}
        if self.chance(30):
            attributes["scale"] = float(self.random.random() + 0.05)
        filler = self.pick(FILLERS)
        if filler is not None:
            attributes["mask_filter_value"] = filler
        return attributes

    def attention(self):
        batch, queries, past, heads, width = 1 + self.below(3), 1 + self.below(5), 0, 1 + self.below(4), 4
        inner, hidden = 1 + self.below(9), heads * width
        attributes = self.common(heads)
        value = hidden
        if self.chance(30):
            value = heads * (1 + self.below(6))
            attributes["qkv_hidden_sizes"] = [hidden, hidden, value]
        elif self.chance(40):
            past = 1 + self.below(5)
        if self.chance(40):
            attributes["unidirectional"] = 1
        keys = past + queries
        forms = ["none", "lengths", "ends and starts", "lengths and offsets", "keys", "pairs"]
        inputs = [
            self.normal(batch, queries, inner),
            self.normal(inner, 2 * hidden + value),
            self.normal(2 * hidden + value),
            self.mask(batch, queries, keys, forms if past == 0 else ["none", "keys", "pairs"]),
            self.normal(2, batch, heads, past, width) if past else None,
            self.normal(self.pick([1, batch]), self.pick([1, heads]), queries, keys) if self.chance(30) and past == 0 else None,
        ]
        unpacked = None
        if self.chance(15):  # a mask of all positions there may be, of which ONNX Runtime takes the part in use
            room = keys + self.below(3)
            square = (self.random.random((batch, 1, room, room)) < 0.7).astype(np.int32)
            unpacked = inputs[:3] + [square[:, 0, past:keys, :keys]] + inputs[4:]
            inputs[3] = square
        outputs = [TensorProto.FLOAT] * (2 if value == hidden else 1)
        return Case("Attention", inputs, outputs, attributes, unpacked=unpacked)

    def quantized_attention(self):
        batch, queries, past, heads, width = 1 + self.below(3), 1 + self.below(5), 0, 1 + self.below(4), 4
        inner, hidden = 1 + self.below(9), heads * width
        attributes = self.common(heads)
        if self.chance(40):
            attributes["unidirectional"] = 1
        if self.chance(40):
            past = 1 + self.below(5)
        by_column, signed = self.chance(50), self.chance(50)
        kind, low = (np.int8, -127) if signed else (np.uint8, 0)
        weights = self.random.integers(low, 128, (inner, 3 * hidden)).astype(kind)
        zero = self.random.integers(low, 128, 3 * hidden if by_column else ()).astype(kind)
        scale = self.random.random(3 * hidden if by_column else ()).astype(np.float32) * 0.01
        forms = ["none", "lengths", "ends and starts", "lengths and offsets", "keys", "pairs"]
        inputs = [
            self.random.integers(0, 256, (batch, queries, inner)).astype(np.uint8),
            weights,
            self.normal(3 * hidden),
            np.array(0.02, np.float32),
            np.asarray(scale, np.float32),
            self.mask(batch, queries, past + queries, forms if past == 0 else ["none", "keys", "pairs"]),
            np.array(self.below(256), np.uint8) if self.chance(80) else None,
            zero if self.chance(80) or not signed else None,
            self.normal(2, batch, heads, past, width) if past else None,
        ]
        return Case("QAttention", inputs, [TensorProto.FLOAT] * 2, attributes)

    def multi_head_attention(self):
        batch, queries, heads, width = 1 + self.below(3), 1 + self.below(5), 1 + self.below(4), 4
        hidden, memory = heads * width, 1 + self.below(6)
        attributes = self.common(heads)
        form = self.pick(["states", "packed keys", "packed", "cached", "past"])
        query, key, value, past = self.normal(batch, queries, hidden), None, None, None
        value_width = width
        if form == "states":
            value_width = self.pick([width, 3])
            key, value = self.normal(batch, memory, hidden), self.normal(batch, memory, heads * value_width)
        elif form == "packed keys":
            key = self.normal(batch, memory, heads, 2, width)
        elif form == "packed":
            query, memory = self.normal(batch, queries, heads, 3, width), queries
        elif form == "cached":
            key, value = self.normal(batch, heads, memory, width), self.normal(batch, heads, memory, width)
        else:
            memory, past = queries, 1 + self.below(5)
            key, value = self.normal(batch, queries, hidden), self.normal(batch, queries, hidden)
        keys = memory + (past or 0)
        if self.chance(30) and form in ("packed", "past"):
            attributes["unidirectional"] = 1
        bias = self.normal(2 * hidden + heads * value_width) if form in ("states", "past") and self.chance(50) else None
        forms = ["none", "keys", "pairs"] + (["lengths"] if form in ("states", "packed keys") else [])
        shows_scores = self.chance(25)
        inputs = [
            query,
            key,
            value,
            bias,
            self.mask(batch, queries, keys, forms),
            self.normal(self.pick([1, batch]), self.pick([1, heads]), queries, keys) if self.chance(30) else None,
            self.normal(batch, heads, past, width) if past else None,
            self.normal(batch, heads, past, width) if past else None,
        ]
        presents = [TensorProto.FLOAT if past else None] * 2
        outputs = [TensorProto.FLOAT, *presents, TensorProto.FLOAT if shows_scores else None]
        unpacked = None
        if form.startswith("packed"):
            packed = query if form == "packed" else key
            parts = [packed[:, :, :, i].reshape(batch, memory, hidden) for i in range(packed.shape[3])]
            unpacked = ([query] if form == "packed keys" else []) + parts + inputs[3:]
        return Case("MultiHeadAttention", inputs, outputs, attributes, unpacked=unpacked)

    def decoder_masked_attention(self):
        sources, beams, heads, width = 1 + self.below(2), 1 + self.below(3), 1 + self.below(4), 8
        batch, hidden, room = sources * beams, heads * width, 6 + self.below(4)
        attributes = self.common(heads)
        shows_scores = self.chance(25)
        if shows_scores:
            attributes["output_qk"] = 1
        scores = TensorProto.FLOAT if shows_scores else None
        if self.chance(30):  # over the encoder's keys
            keys = 1 + self.below(6)
            key, value = self.normal(batch, heads, keys, width), self.normal(batch, heads, keys, width)
            inputs = [self.normal(batch, 1, hidden), key, value, self.mask(batch, 1, keys, ["none", "keys"])]
            return Case("DecoderMaskedMultiHeadAttention", inputs, [TensorProto.FLOAT, None, None, scores], attributes)
        past = 1 + self.below(room - 2)
        attributes["past_present_share_buffer"] = 1
        inputs = [
            self.normal(batch, 1, hidden),
            self.normal(batch, 1, hidden),
            self.normal(batch, 1, hidden),
            self.mask(batch, 1, past + 1, ["none", "keys"]),
            self.normal(1, self.pick([1, heads]), 1, past + 1) if self.chance(30) else None,
            self.normal(batch, heads, room, width),
            self.normal(batch, heads, room, width),
            np.array([past], np.int32),
            None,
            None,
            self.normal(3 * hidden) if self.chance(30) else None,
        ]
        if self.chance(60):
            inputs[8] = np.array([beams], np.int32)
            inputs[9] = self.random.integers(0, beams, (sources, beams, room)).astype(np.int32)
        # What lies behind the present in the buffer is nobody's.
        valid = lambda i, a: a[:, :, : past + 1] if i in (1, 2) else a
        outputs = [TensorProto.FLOAT] * 3 + [scores]
        return Case("DecoderMaskedMultiHeadAttention", inputs, outputs, attributes, valid)

    def group_query_attention(self):
        groups = 1 + self.below(2)
        heads, width = groups * (1 + self.below(3)), 16
        batch, prompt, bits = 1 + self.below(3), self.chance(40), self.pick([0, 0, 8, 4])
        past = 0 if prompt and bits == 0 else 2 + self.below(6)
        if prompt:
            queries = total = 2 + self.below(4)
            lengths = self.random.integers(1, total + 1, batch)
            past = 0 if bits == 0 else total + self.below(3)
        else:
            queries = 1 if batch > 1 else 1 + self.below(3)
            total = past + queries
            lengths = np.array([total] + [queries + self.below(past + 1) for _ in range(batch - 1)])
        rows = np.minimum(lengths, queries) if prompt else np.full(batch, queries)  # that hold something
        padded = not prompt and bits == 0 and self.chance(30)
        if padded:  # new rows of different numbers, padded on the right
            queries, past = 2 + self.below(3), 8
            rows = self.random.integers(1, queries + 1, batch)
            lengths = rows + self.random.integers(0, past - queries + 1, batch)
            total = past
        attributes = {"num_heads": heads, "kv_num_heads": groups}
        if self.chance(30):
            attributes["scale"] = float(self.random.random() + 0.05)
        if self.chance(30):
            attributes["softcap"] = 1.5
        causal = padded or self.chance(80)
        if not causal:
            attributes["causal"] = 0
        elif self.chance(40):
            attributes["local_window_size"] = 1 + self.below(4)
        inputs = [None] * 17
        if padded:
            inputs[16] = rows.astype(np.int32)
        inputs[0] = self.normal(batch, queries, (heads + 2 * groups) * width)
        if self.chance(60):
            inputs[:3] = np.split(inputs[0], [heads * width, (heads + groups) * width], axis=2)
        inputs[5], inputs[6] = (lengths - 1).astype(np.int32), np.array(total, np.int32)
        if self.chance(50):
            attributes["do_rotary"] = 1
            attributes["rotary_interleaved"] = self.below(2)
            angles = self.random.random((16, 1)) * self.random.random((1, width // 2)) * 6
            inputs[7], inputs[8] = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
            if self.chance(40):
                inputs[9] = self.random.integers(0, 10, (batch, queries)).astype(np.int64)
        if self.chance(30):
            inputs[10] = self.normal(self.pick([1, batch]), self.pick([1, heads]), queries, total)
        if self.chance(25):
            inputs[11] = self.normal(heads)
        elif self.chance(20):
            attributes["smooth_softmax"] = 1
        present = TensorProto.FLOAT
        if bits:
            present = TensorProto.INT8 if bits == 8 else TensorProto.UINT8
            kind = self.pick(["PER_TENSOR", "PER_CHANNEL"])
            attributes |= {"kv_cache_bit_width": bits, "k_quant_type": kind, "v_quant_type": kind}
            scales = groups * width if kind == "PER_CHANNEL" else 1
            for i in (12, 13):
                inputs[i] = (self.random.random(scales) * 0.05 + 0.02).astype(np.float32)
            shape = (batch, groups, past, width // (8 // bits))
            for i in (3, 4):
                codes = self.random.integers(0, 256, shape).astype(np.uint8)
                inputs[i] = codes.view(np.int8) if bits == 8 else codes
        elif past:
            inputs[3], inputs[4] = self.normal(batch, groups, past, width), self.normal(batch, groups, past, width)
        shows = self.pick([0, 0, 1, 2])
        if shows:
            attributes["qk_output"] = shows
        while inputs[-1] is None:
            inputs.pop()

        def valid(i, a):  # rows of shorter prompts, and the buffer behind a length, hold nothing
            if i == 0:
                return np.concatenate([a[b, :n].ravel() for b, n in enumerate(rows)])
            if i == 3:
                return np.concatenate([a[b, :, :n].ravel() for b, n in enumerate(rows)])
            return np.concatenate([a[b, :, :n].ravel() for b, n in enumerate(lengths)])

        outputs = [TensorProto.FLOAT, present, present] + ([TensorProto.FLOAT] if shows else [])
        return Case("GroupQueryAttention", inputs, outputs, attributes, valid)

    def rotary_embedding(self):
        batch, queries, heads, half = 1 + self.below(3), 1 + self.below(4), 1 + self.below(3), 1 + self.below(4)
        width, attributes = 2 * half, {"interleaved": self.below(2)}
        if self.chance(30):
            width += 2
            attributes |= {"num_heads": heads, "rotary_embedding_dim": 2 * half}
        angles = self.random.random((12, half)) * 6
        split = self.chance(40)
        x = self.normal(batch, heads, queries, width) if split else self.normal(batch, queries, heads * width)
        positions = self.random.integers(0, 12, (batch, queries)) if self.chance(60) else np.array([self.below(8)])
        inputs = [x, positions.astype(np.int64), np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
        return Case("RotaryEmbedding", inputs, [TensorProto.FLOAT], attributes)

    def attention_lstm(self):
        steps, batch, inner, hidden = 1 + self.below(5), 1 + self.below(3), 1 + self.below(4), 1 + self.below(4)
        memory, depth, width = 1 + self.below(6), 1 + self.below(5), 1 + self.below(4)
        direction = self.pick(["forward", "reverse", "bidirectional"])
        directions = 2 if direction == "bidirectional" else 1
        layer = 1 + self.below(6) if self.chance(60) else None
        small = lambda *shape: self.normal(directions, *shape) * np.float32(0.5)
        inputs = [
            self.normal(steps, batch, inner),
            small(4 * hidden, inner + (layer or depth)),
            small(4 * hidden, hidden),
            small(8 * hidden) if self.chance(70) else None,
            self.random.integers(1, steps + 1, batch).astype(np.int32) if self.chance(50) else None,
            small(batch, hidden) if self.chance(50) else None,
            small(batch, hidden) if self.chance(50) else None,
            small(3 * hidden) if self.chance(30) else None,
            small(hidden, width),
            small(depth, width),
            small(width),
            self.normal(batch, memory, depth),
            self.random.integers(1, memory + 1, batch).astype(np.int32) if self.chance(60) else None,
            small(hidden + depth, layer) if layer else None,
        ]
        while inputs[-1] is None:
            inputs.pop()
        attributes = {"hidden_size": hidden, "direction": direction}
        if self.chance(20):
            attributes["activations"] = ["Sigmoid", "Tanh", "Relu"] * directions
        return Case("AttnLSTM", inputs, [TensorProto.FLOAT] * 3, attributes)

    def case(self):
        kinds = [self.attention, self.quantized_attention, self.multi_head_attention, self.decoder_masked_attention]
        return self.pick(kinds + [self.group_query_attention] * 3 + [self.rotary_embedding, self.attention_lstm])()
