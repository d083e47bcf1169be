"""Every operator of ai.attune in every host, through its plug-in."""
import concurrent.futures
import os

import numpy as np
import pytest
from cases import all_cases
from hosts import OnnxRuntime, OpenVino, Reference

CASES = {case.name: case for case in all_cases()}
HOSTS = {host.name: host for host in (OnnxRuntime, OpenVino, Reference) if host.available}


@pytest.fixture(scope="module", params=HOSTS)
def host(request):
    return HOSTS[request.param]()


def outputs(run, case):
    results = run(case.feed)
    return [results[f"out{i}"] for i, e in enumerate(case.expected) if e is not None]


@pytest.mark.parametrize("name", CASES)
def test_operator(host, name):
    case = CASES[name]
    case.check(outputs(host.load(case.model()), case))


@pytest.mark.parametrize("name", ["attention_long_causal", "attention_projected_constants", "linear_constants_float32", "linear_many_rows_float32",
                                  "linear_many_columns_float32", "attention_cache_3"])
def test_eight_threads_share_a_model(host, name):
    case = CASES[name]
    run = host.load(case.model())
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for got in pool.map(lambda _: outputs(run, case), range(48)):
            case.check(got)


def test_shapes_may_change_from_call_to_call(host):
    rng = np.random.default_rng(1)
    case = CASES["attention_plain_float32"]
    run = host.load(case.model())
    for batch, queries, keys in ((1, 1, 1), (3, 2, 9), (2, 40, 80), (1, 1, 1)):
        feed = {n: rng.standard_normal((batch, 3, t, 8)).astype(np.float32) for n, t in (("q", queries), ("k", keys), ("v", keys))}
        got = run(feed)
        assert got["out0"].shape == (batch, 3, queries, 8)
        assert got["out3"].shape == (batch, 3, queries, keys)
        np.testing.assert_allclose(got["out3"].sum(-1), 1, rtol=1e-5)
        np.testing.assert_allclose(got["out0"], got["out3"] @ feed["v"], atol=1e-5)


@pytest.mark.parametrize("host", [h for h in (OnnxRuntime, OpenVino) if h.available], ids=lambda h: h.name)
@pytest.mark.parametrize("name, feed", [
    ("attention_long_causal", CASES["attention_long_causal"].feed),
    ("linear_many_rows_float32", {"x": np.ones((1, 512, 512), np.float32), "w": np.ones((512, 512), np.float32)})],
    ids=["attention", "product"])
def test_a_session_of_one_thread_starts_none(host, name, feed):
    """Kernels, and the libraries that they call, run on the threads that the session was given, not on some of their own."""
    run = host(threads=1).load(CASES[name].model())

    def threads():
        before = set(os.listdir("/proc/self/task"))
        run(feed)
        return set(os.listdir("/proc/self/task")) - before

    # On a thread of its own, which has no helpers of OpenMP's yet.
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert not pool.submit(threads).result()


def test_a_wrong_node_is_an_error_with_a_reason(host):
    case = CASES["attention_plain_float32"]
    model = case.model()
    model.graph.node[0].attribute.add(name="scale", type=1, f=-1.0)
    with pytest.raises(Exception, match="scale.*negative"):  # each host has exceptions of its own
        host.load(model)(case.feed)


def test_an_attribute_of_another_type_is_an_error_with_a_reason(host):
    case = CASES["attention_plain_float32"]
    model = case.model()
    model.graph.node[0].attribute.add(name="num_heads", type=3, s=b"three")
    with pytest.raises(Exception, match="num_heads"):
        host.load(model)(case.feed)


def test_an_integer_mask_is_an_error_with_a_reason(host):
    case = CASES["attention_bool_mask_float32"]
    model = case.model()
    model.graph.input[3].type.tensor_type.elem_type = 7
    feed = {**case.feed, "mask": case.feed["mask"].astype(np.int64)}
    with pytest.raises(Exception, match="mask|int64"):
        host.load(model)(feed)


def test_wrong_shapes_are_an_error_with_a_reason(host):
    case = CASES["attention_plain_float32"]
    run = host.load(case.model())
    feed = {**case.feed, "k": case.feed["k"][..., :5]}
    with pytest.raises(Exception, match="node|key"):
        run(feed)
    case.check(outputs(run, case))  # and the model still runs
