"""Converted models of the repository in each host: with the plug-in, and portable and standard files without it."""
import subprocess

import numpy as np
import pytest
from hosts import BUILD, ROOT, OnnxRuntime, OpenVino, Reference
from recorded import recorded_cases, relative_difference, tolerance

# Demo models have no recordings: ONNX Runtime's results for the source are the measure.
MODELS = [*sorted(ROOT.glob("examples/translate/models/*/*.onnx")), *sorted(ROOT.glob("tests/models/gru_bahdanau/*/*.onnx")),
          *sorted(ROOT.glob("tests/models/marian/*/*.onnx"))]
RUNS = [("attune", OnnxRuntime, True), ("attune", OpenVino, True), ("attune", Reference, True),
        ("portable", OnnxRuntime, False), ("portable", Reference, False),
        ("onnx", OnnxRuntime, False), ("onnx", OpenVino, False), ("onnx", Reference, False)]
RUNS = [run for run in RUNS if run[1].available]


def wrong_output(run, cases, source):
    """The first output that isn't as it should be; none if all are."""
    for feed, wanted in cases:
        got = run(feed)
        for name, want in wanted.items():
            if got[name].shape != want.shape or not relative_difference(got[name], want) < tolerance(source):
                return name
    return None


def refuses(runtime, cases, source):
    try:
        return wrong_output(runtime.load(source), cases, source) is not None
    except Exception:  # each host has exceptions of its own
        return True


@pytest.fixture(scope="module", params=MODELS, ids=lambda file: "/".join(file.parts[-3:])[:-5])
def model(request, tmp_path_factory):
    """The source, and its three forms by target."""
    folder = tmp_path_factory.mktemp("converted")
    forms = {}
    for target in ("attune", "portable", "onnx"):
        forms[target] = folder / f"{target}.onnx"
        subprocess.run([BUILD / "attune", "convert", request.param, "-o", forms[target], "--no-verify", "--target", target], check=True,
                       capture_output=True)
    return request.param, forms


def sample(file):
    """3 sources of 7, right padding, and states of the shapes that the source declares."""
    source = OnnxRuntime(plugin=False, optimise=False)
    session = source.module.InferenceSession(str(file), source.options)
    rng = np.random.default_rng(0)
    feed = {}
    for i in session.get_inputs():
        sizes = [d if isinstance(d, int) else 3 if "batch" in d else 7 if "encoder" in d or "source" in d else 4 for d in i.shape]
        if "mask" in i.name:
            mask = np.arange(sizes[1])[None] < np.array([7, 4, 1])[: sizes[0], None]
            feed[i.name] = mask if i.type == "tensor(bool)" else mask.astype(np.int64)
        elif i.type == "tensor(int64)":
            feed[i.name] = rng.integers(4, 500, sizes)
        else:
            feed[i.name] = rng.standard_normal(sizes).astype(np.float32)
    return feed, source.load(file)(feed)


@pytest.mark.parametrize("target, host, plugin", RUNS, ids=lambda v: v if isinstance(v, str) else getattr(v, "name", ""))
def test_model(model, target, host, plugin):
    source, forms = model
    # As the recordings were made: what is compared is the operator, not the host's own optimiser.
    runtime = host(plugin=plugin, optimise=False) if host is OnnxRuntime else host(plugin=plugin)
    cases = list(recorded_cases(source)) or [sample(source)]
    if host is not OnnxRuntime and refuses(host(plugin=False), cases, source):
        pytest.skip(f"{host.name} doesn't give the recorded values for the source itself")
    assert wrong_output(runtime.load(forms[target]), cases, source) is None
