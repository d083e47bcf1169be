"""The operators inside ONNX Runtime, through libattune_onnxruntime.so.

usage: onnxruntime_test.py LIBRARY
"""
import concurrent.futures
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

LIBRARY = sys.argv[1]
RNG = np.random.default_rng(0)
KIND = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float16): TensorProto.FLOAT16, np.dtype(bool): TensorProto.BOOL,
        np.dtype(np.int64): TensorProto.INT64}


def run(op, inputs, outputs, constants=(), element=np.float32, **attributes):
    """Runs one node; `inputs` is a list of (name, array or None); those named in `constants` are initializers."""
    node = helper.make_node(op, [n if a is not None else "" for n, a in inputs], outputs, domain="ai.attune", **attributes)
    given = [(n, a) for n, a in inputs if a is not None]
    info = [helper.make_tensor_value_info(n, KIND[a.dtype], [None] * a.ndim) for n, a in given if n not in constants]
    out = [helper.make_tensor_value_info(o, KIND[np.dtype(element)], None) for o in outputs if o]
    init = [onnx.numpy_helper.from_array(a, n) for n, a in given if n in constants]
    graph = helper.make_graph([node], "g", info, out, init)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("ai.attune", 1)], ir_version=9)
    options = ort.SessionOptions()
    options.register_custom_ops_library(LIBRARY)
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feed = {n: a for n, a in given if n not in constants}
    return session, feed, session.run(None, feed)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(q, k, v, mask=None):
    """q, k, v (B, H, T, E) in float64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    weights = softmax(scores)
    return weights @ v, weights


def close(got, want, tolerance=1e-5):
    worst = np.abs(got.astype(np.float64) - want).max() / max(1.0, np.abs(want).max())
    assert got.shape == want.shape and worst < tolerance, (got.shape, want.shape, worst)


def normal(*shape, element=np.float32):
    return RNG.standard_normal(shape).astype(element)


def test_attention_split_into_heads():
    for element, tolerance in ((np.float32, 1e-5), (np.float16, 5e-3)):
        q, k, v = normal(2, 3, 5, 8, element=element), normal(2, 3, 7, 8, element=element), normal(2, 3, 7, 8, element=element)
        mask = RNG.random((2, 1, 5, 7)) > 0.3
        mask[..., 0] = True
        for m in (None, mask, np.where(mask, 0, -5).astype(element)):
            inputs = [("q", q), ("k", k), ("v", v)] + [(f"none{i}", None) for i in range(6)] + [("mask", m)]
            _, _, (got, weights) = run("Attention", inputs, ["y", "", "", "w"], element=element)
            want = attention(q, k, v, m)
            close(got, want[0], tolerance)
            close(weights, want[1], tolerance)


def test_attention_with_projections():
    x, memory = normal(2, 4, 12), normal(2, 6, 10)
    w = {"wq": normal(12, 16), "wk": normal(10, 16), "wv": normal(10, 16), "bq": normal(16), "bk": normal(16), "bv": normal(16)}
    inputs = [("q", x), ("k", memory), ("v", memory)] + list(w.items())
    for constants in ((), tuple(w)):
        _, _, (got,) = run("Attention", inputs, ["y"], constants=constants, num_heads=4)
        split = lambda t: t.astype(np.float64).reshape(2, -1, 4, 4).transpose(0, 2, 1, 3)
        want, _ = attention(split(x @ w["wq"] + w["bq"]), split(memory @ w["wk"] + w["bk"]), split(memory @ w["wv"] + w["bv"]))
        close(got, want.transpose(0, 2, 1, 3).reshape(2, 4, 16))


def test_attention_with_a_cache():
    q, k, v, pk, pv = normal(1, 2, 1, 4), normal(1, 2, 1, 4), normal(1, 2, 1, 4), normal(1, 2, 3, 4), normal(1, 2, 3, 4)
    inputs = [("q", q), ("k", k), ("v", v)] + [(f"none{i}", None) for i in range(8)] + [("pk", pk), ("pv", pv)]
    _, _, (got, present_key, present_value) = run("Attention", inputs, ["y", "key", "value"], causal=1)
    keys, values = np.concatenate([pk, k], 2), np.concatenate([pv, v], 2)
    close(got, attention(q, keys, values)[0])
    assert (present_key == keys).all() and (present_value == values).all()


def test_linear():
    x, w, b, r = normal(2, 3, 8), normal(8, 5), normal(5), normal(2, 3, 5)
    for constants in ((), ("w", "b")):
        _, _, (got,) = run("Linear", [("x", x), ("w", w), ("b", b), ("r", r)], ["y"], constants=constants, activation="relu")
        close(got, np.maximum(x.astype(np.float64) @ w + b, 0) + r)


def test_many_threads_share_a_session():
    q, k, v = normal(1, 2, 33, 16), normal(1, 2, 65, 16), normal(1, 2, 65, 16)
    session, feed, (want,) = run("Attention", [("q", q), ("k", k), ("v", v)], ["y"])
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for got in pool.map(lambda _: session.run(None, feed)[0], range(64)):
            assert np.array_equal(got, want)


def test_a_wrong_node_is_an_error_with_a_reason():
    try:
        run("Attention", [("q", normal(2, 3, 5, 8))], ["y"], scale=-1.0)
    except Exception as error:  # ONNX Runtime's own exception types vary by release
        assert "attune" in str(error) and "scale" in str(error), error
    else:
        raise AssertionError("a negative scale was accepted")


failed = 0
tests = [(n, f) for n, f in list(globals().items()) if n.startswith("test_")]
for name, test in tests:
    try:
        test()
        print("ok", name)
    except Exception as error:
        failed += 1
        print("FAILED", name, repr(error)[:500])
print(f"{len(tests) - failed} passed, {failed} failed (ONNX Runtime {ort.__version__})")
sys.exit(failed > 0)
