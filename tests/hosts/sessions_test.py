"""The plug-in under the options that ONNX Runtime has for sessions and runs."""
import concurrent.futures

import numpy as np
import pytest
from cases import all_cases
from hosts import PLUGINS, OnnxRuntime

pytestmark = pytest.mark.skipif(not OnnxRuntime.available, reason="the plug-in is not built")
ort = pytest.importorskip("onnxruntime")

CASES = {case.name: case for case in all_cases()}
NAMES = ["attention_cache_3", "attention_projected_constants", "linear_constants_float32", "rms_normalization_float32"]


def make_session(case, change=lambda options: None, model=None):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.register_custom_ops_library(str(PLUGINS / "libattune_onnxruntime.so"))
    change(options)
    return ort.InferenceSession(model or case.model().SerializeToString(), options, providers=["CPUExecutionProvider"])


def outputs(case, session, feed=None):
    names = [f"out{i}" for i, e in enumerate(case.expected) if e is not None]
    return session.run(names, feed or case.feed)


def entry(key, value):
    return lambda options: options.add_session_config_entry(key, value)


def set_to(**values):
    def change(options):
        for name, value in values.items():
            setattr(options, name, value)

    return change


OPTIONS = {
    "no_arena": set_to(enable_cpu_mem_arena=False),
    "no_memory_pattern": set_to(enable_mem_pattern=False),
    "no_reuse": set_to(enable_mem_reuse=False),
    "branches_in_parallel": set_to(execution_mode=ort.ExecutionMode.ORT_PARALLEL, inter_op_num_threads=2),
    "one_thread": set_to(intra_op_num_threads=1),
    "more_threads_than_cores": set_to(intra_op_num_threads=7),
    "threads_that_sleep": entry("session.intra_op.allow_spinning", "0"),
    "no_prepacking": entry("session.disable_prepacking", "1"),
    "arena_of_the_environment": entry("session.use_env_allocators", "0"),
    "deterministic": set_to(use_deterministic_compute=True),
    "all_optimisations": set_to(graph_optimization_level=ort.GraphOptimizationLevel.ORT_ENABLE_ALL),
    "profiled": set_to(enable_profiling=True),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("options", OPTIONS)
def test_options(options, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # profiles are written to the working folder
    case = CASES[name]
    session = make_session(case, OPTIONS[options])
    for _ in range(3):
        case.check(outputs(case, session))


@pytest.mark.parametrize("kind", ["onnx", "ort"])
def test_an_optimised_model_is_saved_and_read(kind, tmp_path):
    case = CASES["attention_projected_constants"]
    file = tmp_path / f"optimised.{kind}"
    make_session(case, set_to(optimized_model_filepath=str(file)))
    case.check(outputs(case, make_session(case, model=str(file))))


def test_values_may_be_bound_to_memory_of_the_caller():
    case = CASES["attention_plain_float32"]
    session = make_session(case)
    binding = session.io_binding()
    inputs = {name: ort.OrtValue.ortvalue_from_numpy(np.array(value)) for name, value in case.feed.items()}
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, value)
    into = np.full(case.expected[0].shape, np.nan, np.float32)
    binding.bind_output("out0", "cpu", 0, np.float32, into.shape, into.ctypes.data)
    for name in [o.name for o in session.get_outputs() if o.name != "out0"]:
        binding.bind_output(name, "cpu")
    for _ in range(2):
        into[:] = np.nan
        session.run_with_iobinding(binding)
        results = dict(zip([o.name for o in session.get_outputs()], binding.get_outputs()))
        case.check([into if i == 0 else results[f"out{i}"].numpy() for i, e in enumerate(case.expected) if e is not None])


def test_an_output_bound_with_another_shape_is_an_error():
    case = CASES["linear_constants_float32"]
    session = make_session(case)
    binding = session.io_binding()
    for name, value in case.feed.items():
        binding.bind_cpu_input(name, np.array(value))
    into = np.zeros((1, 1), np.float32)
    binding.bind_output("out0", "cpu", 0, np.float32, into.shape, into.ctypes.data)
    with pytest.raises(Exception, match="(?i)shape"):
        session.run_with_iobinding(binding)
    case.check(outputs(case, session))


def test_sessions_come_and_go_while_others_run():
    def work(i):
        case = CASES[NAMES[i % len(NAMES)]]
        for _ in range(4):
            session = make_session(case, set_to(intra_op_num_threads=1 + i % 3))
            case.check(outputs(case, session))
            del session

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(16)))


def test_a_run_that_fails_doesn_t_disturb_those_beside_it():
    case = CASES["attention_plain_float32"]
    session = make_session(case)
    wrong = {**case.feed, "k": case.feed["k"][..., :5]}

    def work(i):
        if i % 2:
            case.check(outputs(case, session))
        else:
            with pytest.raises(Exception, match="node|key"):
                outputs(case, session, wrong)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(64)))
