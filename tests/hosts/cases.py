"""One-node models of every operator of ai.attune, with expected outputs from definitions written out in NumPy (float64)."""
from __future__ import annotations

import dataclasses
import math

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
KIND = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float16): TensorProto.FLOAT16, np.dtype(np.float64): TensorProto.DOUBLE,
        BFLOAT16: TensorProto.BFLOAT16, np.dtype(bool): TensorProto.BOOL, np.dtype(np.int64): TensorProto.INT64}
# Half a unit in the last place of a number of a few bits before the point, several times over.
TOLERANCE = {np.dtype(np.float64): 1e-5, np.dtype(np.float32): 1e-5, np.dtype(np.float16): 4e-3, BFLOAT16: 3e-2}


@dataclasses.dataclass
class Case:
    name: str
    operator: str
    inputs: list[tuple[str, np.ndarray] | None]  # None: left out
    expected: list[np.ndarray | None]  # None: the output is left out
    attributes: dict[str, object] = dataclasses.field(default_factory=dict)
    constants: tuple[str, ...] = ()  # inputs that are initializers

    @property
    def feed(self) -> dict[str, np.ndarray]:
        return {i[0]: i[1] for i in self.inputs if i and i[0] not in self.constants}

    @property
    def element(self) -> np.dtype:
        return self.inputs[0][1].dtype

    def model(self) -> onnx.ModelProto:
        names = [i[0] if i else "" for i in self.inputs]
        outputs = [f"out{n}" if e is not None else "" for n, e in enumerate(self.expected)]
        while outputs and not outputs[-1]:
            outputs.pop()
        node = helper.make_node(self.operator, names, outputs, domain="ai.attune", name="node", **self.attributes)
        # Symbolic sizes: nothing about shapes is known before the run.
        inputs = [helper.make_tensor_value_info(n, KIND[a.dtype], [f"{n}_{axis}" for axis in range(a.ndim)]) for n, a in self.feed.items()]
        results = [helper.make_tensor_value_info(o, KIND[np.dtype(e.dtype)], None) for o, e in zip(outputs, self.expected) if o]
        initializers = [onnx.numpy_helper.from_array(a, n) for n, a in filter(None, self.inputs) if n in self.constants]
        graph = helper.make_graph([node], "case", inputs, results, initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("ai.attune", 1)], ir_version=9)

    def check(self, got: list[np.ndarray]) -> None:
        wanted = [e for e in self.expected if e is not None]
        assert len(got) == len(wanted)
        for index, (a, b) in enumerate(zip(got, wanted)):
            assert a.shape == b.shape, f"output {index}: shape {a.shape}, expected {b.shape}"
            if b.size == 0:
                continue
            if b.dtype.kind in "ib":
                assert np.array_equal(a, b), f"output {index}: {a}, expected {b}"
                continue
            worst = np.abs(a.astype(np.float64) - b.astype(np.float64)).max() / max(1.0, np.abs(b.astype(np.float64)).max())
            assert worst < TOLERANCE[self.element], f"output {index} differs by {worst:.2g}"


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(q, k, v, mask=None, causal=False):
    """q (B, H, Tq, E), k and v (B, H, Tk, E)."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ k.swapaxes(2, 3) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask.astype(np.float64)
    if causal:
        tq, tk = scores.shape[-2:]
        scores = np.where(np.arange(tk)[None] <= np.arange(tq)[:, None] + tk - tq, scores, -np.inf)
    weights = softmax(scores)
    return weights @ v, weights


def split(x: np.ndarray, heads: int) -> np.ndarray:
    return x.astype(np.float64).reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def join(x: np.ndarray) -> np.ndarray:
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


def gelu(x: np.ndarray) -> np.ndarray:
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def t5_bucket(relative: int, buckets: int, distance: int, bidirectional: bool) -> int:
    """Raffel et al. 2020, as transformers writes it."""
    bucket = 0
    if bidirectional:
        buckets //= 2
        bucket += buckets if relative > 0 else 0
        relative = abs(relative)
    else:
        relative = max(-relative, 0)
    exact = buckets // 2
    if relative < exact:
        return bucket + relative
    large = exact + int(math.log(relative / exact) / math.log(distance / exact) * (buckets - exact))
    return bucket + min(large, buckets - 1)


def all_cases() -> list[Case]:
    rng = np.random.default_rng(7)
    cases: list[Case] = []

    def normal(*shape, element=np.float32):
        return (rng.standard_normal(shape) * 0.5).astype(element)

    def none(count):
        return [None] * count

    for half in (np.float16, ml_dtypes.bfloat16):
        x, w, b = normal(2, 3, 8), normal(8, 5, element=half), normal(5)
        product = np.maximum(x.astype(np.float64) @ w.astype(np.float64) + b, 0).astype(np.float32)
        for name, constants in (("", ()), ("_constants", ("w", "b"))):
            cases.append(Case(f"linear_weights_of_{np.dtype(half).name}{name}", "Linear", [("x", x), ("w", w), ("b", b)], [product],
                              {"activation": "relu"}, constants))

    for element in (np.float32, np.float16, ml_dtypes.bfloat16, np.float64):
        kind = np.dtype(element).name
        q, k, v = normal(2, 3, 5, 8, element=element), normal(2, 3, 7, 8, element=element), normal(2, 3, 7, 8, element=element)
        mask = rng.random((2, 1, 5, 7)) > 0.3
        mask[..., 0] = True
        for name, m in (("plain", None), ("bool_mask", mask), ("float_mask", np.where(mask, 0, -5).astype(element))):
            context, weights = attention(q, k, v, m)
            inputs = [("q", q), ("k", k), ("v", v)] + (none(6) + [("mask", m)] if m is not None else [])
            cases.append(Case(f"attention_{name}_{kind}", "Attention", inputs, [context.astype(element), None, None, weights.astype(element)]))

        x, w, b, r = normal(2, 3, 8, element=element), normal(8, 5, element=element), normal(5, element=element), normal(2, 3, 5, element=element)
        product = x.astype(np.float64) @ w.astype(np.float64) + b.astype(np.float64)
        for name, constants in (("", ()), ("_constants", ("w", "b"))):
            cases.append(Case(f"linear{name}_{kind}", "Linear", [("x", x), ("w", w), ("b", b), ("r", r)],
                              [(gelu(product) + r.astype(np.float64)).astype(element)], {"activation": "gelu"}, constants))
        cases.append(Case(f"linear_transposed_{kind}", "Linear", [("x", x), ("w", np.ascontiguousarray(w.T)), ("b", b)],
                          [np.maximum(product, 0).astype(element)], {"activation": "relu", "transposed": 1}, ("w",)))

        # Weights that are no constants, enough for several threads: cut along rows, or along columns.
        for name, rows, columns in (("rows", 70, 96), ("columns", 10, 200)):
            x, w = normal(1, rows, 64, element=element), normal(64, columns, element=element)
            product = x.astype(np.float64) @ w.astype(np.float64)
            cases.append(Case(f"linear_many_{name}_{kind}", "Linear", [("x", x), ("w", w)], [product.astype(element)]))
            cases.append(Case(f"linear_many_{name}_transposed_{kind}", "Linear", [("x", x), ("w", np.ascontiguousarray(w.T))],
                              [product.astype(element)], {"transposed": 1}))

        x, r, s, b = normal(2, 3, 16, element=element), normal(2, 3, 16, element=element), normal(16, element=element), normal(16, element=element)
        total = x.astype(np.float64) + r.astype(np.float64)
        centred = total - total.mean(-1, keepdims=True)
        layer = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-3) * s.astype(np.float64) + b.astype(np.float64)
        rms = total / np.sqrt((total**2).mean(-1, keepdims=True) + 1e-3) * s.astype(np.float64)
        cases.append(Case(f"layer_normalization_{kind}", "ResidualNormalization", [("x", x), ("r", r), ("s", s), ("b", b)],
                          [layer.astype(element), total.astype(element)], {"epsilon": 1e-3}, ("s", "b")))
        cases.append(Case(f"rms_normalization_{kind}", "ResidualNormalization", [("x", x), ("r", r), ("s", s)],
                          [rms.astype(element)], {"kind": "rms", "epsilon": 1e-3}))

        states, table = normal(2, 3, 16, element=element), normal(9, 16, element=element)
        wide_states, wide_table = states.astype(np.float64), table.astype(np.float64)
        cases.append(Case(f"position_embedding_{kind}", "PositionEmbedding", [("x", states), ("table", table), ("start", np.array(4))],
                          [(wide_states * 0.5 + wide_table[5:8]).astype(element)], {"scale": 0.5, "offset": 1}, ("table",)))
        tokens = np.array([[1, 0, 1, 1], [1, 1, 1, 0]])
        rows = 1 + tokens * (2 + tokens.cumsum(1))
        cases.append(Case(f"position_embedding_tokens_{kind}", "PositionEmbedding",
                          [("x", states), ("table", table), ("start", np.array(2)), ("tokens", tokens)],
                          [(wide_states + wide_table[rows[:, 1:]]).astype(element)], {"offset": 1}, ("table",)))

        table = normal(32, 2, element=element)
        for bidirectional in (0, 1):
            bias = np.array([[table[t5_bucket(key - (query + 4), 32, 128, bool(bidirectional))] for key in range(150)] for query in range(3)])
            cases.append(Case(f"relative_position_bias_{bidirectional}_{kind}", "RelativePositionBias",
                              [("table", table), ("tq", np.array(3)), ("tk", np.array(150)), ("offset", np.array(4))],
                              [bias.transpose(2, 0, 1)[None].astype(element)],
                              {"max_distance": 128, "bidirectional": bidirectional}, ("table",)))

    x, memory = normal(2, 4, 12), normal(2, 6, 10)
    weights = {"wq": normal(12, 16), "wk": normal(10, 16), "wv": normal(10, 16), "bq": normal(16), "bk": normal(16), "bv": normal(16)}
    context, _ = attention(split(x @ weights["wq"] + weights["bq"], 4), split(memory @ weights["wk"] + weights["bk"], 4),
                           split(memory @ weights["wv"] + weights["bv"], 4))
    for name, constants in (("", ()), ("_constants", tuple(weights))):
        cases.append(Case(f"attention_projected{name}", "Attention", [("x", x), ("memory", memory), ("values", memory), *weights.items()],
                          [join(context).astype(np.float32)], {"num_heads": 4}, constants))

    # Long enough for kernels that work by blocks and on several threads.
    q, k, v = normal(1, 4, 70, 32), normal(1, 4, 300, 32), normal(1, 4, 300, 32)
    cases.append(Case("attention_long_causal", "Attention", [("q", q), ("k", k), ("v", v), *none(13), ("start", np.array([230]))],
                      [attention(q, k, v, causal=True)[0].astype(np.float32)], {"causal": 1}))
    for past in (0, 3):
        q, k, v = normal(2, 2, 2, 4), normal(2, 2, 2, 4), normal(2, 2, 2, 4)
        pk, pv = normal(2, 2, past, 4), normal(2, 2, past, 4)
        keys, values = np.concatenate([pk, k], 2), np.concatenate([pv, v], 2)
        cases.append(Case(f"attention_cache_{past}", "Attention", [("q", q), ("k", k), ("v", v), *none(8), ("pk", pk), ("pv", pv)],
                          [attention(q, keys, values, causal=True)[0].astype(np.float32), keys, values], {"causal": 1}))

    # Bahdanau: v' tanh(q + k), with lengths.
    q, k, w = normal(2, 1, 6), normal(2, 5, 6), normal(1, 6)
    lengths = np.array([5, 2])
    scores = (np.tanh(q[:, :, None, :].astype(np.float64) + k[:, None]) * w[0]).sum(-1)
    alignment = softmax(np.where(np.arange(5)[None, None] < lengths[:, None, None], scores, -np.inf))
    cases.append(Case("attention_additive_lengths", "Attention", [("q", q), ("k", k), None, *none(7), ("lengths", lengths), *none(2), ("w", w)],
                      [(alignment @ k).astype(np.float32), None, None, alignment[:, None].astype(np.float32)], {"score": "additive", "num_heads": 1}))

    # Monotonic: the first position from `position` on whose score is not negative.
    q, k, v = np.ones((1, 1, 2, 1), np.float32), np.array([1, -1, -1, 1, 1], np.float32).reshape(1, 1, 5, 1), normal(1, 1, 5, 3)
    cases.append(Case("attention_monotonic", "Attention", [("q", q), ("k", k), ("v", v), *none(12), ("position", np.array([[1]]))],
                      [v[:, :, [3, 3]], None, None, None, np.array([[3]])], {"alignment": "monotonic"}))

    # Nothing but NaN is excluded, and is not read.
    q, k, v = normal(1, 1, 1, 4), normal(1, 1, 3, 4), normal(1, 1, 3, 4)
    mask = np.array([True, False, True])
    poisoned_k, poisoned_v = k.copy(), v.copy()
    poisoned_k[..., 1, :] = poisoned_v[..., 1, :] = np.nan
    cases.append(Case("attention_excluded_is_not_read", "Attention", [("q", q), ("k", poisoned_k), ("v", poisoned_v), *none(6), ("mask", mask)],
                      [attention(q, k, v, mask)[0].astype(np.float32)]))
    return cases
