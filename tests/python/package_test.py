"""The Python package attune: convert, run, generate, errors, memory, threads."""
import concurrent.futures
import gc
import inspect
import json
import pathlib
import re
import threading
import time

import attune
import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRANSFORMER = ROOT / "examples/translate/models/transformer"
GRU = ROOT / "tests/models/gru_bahdanau/torchscript_op14"


def save(path, nodes, inputs, outputs, opset=18):
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9), path)
    return path


@pytest.fixture
def identity(tmp_path):
    """y = x, of any type and shape."""

    def make(kind, rank):
        info = [helper.make_tensor_value_info(n, kind, [f"d{i}" for i in range(rank)]) for n in "xy"]
        return attune.Model(save(tmp_path / "identity.onnx", [helper.make_node("Identity", ["x"], ["y"])], info[:1], info[1:]))

    return make


def test_convert_a_file(tmp_path):
    done = attune.convert(TRANSFORMER / "encoder_model.onnx", tmp_path / "fused.onnx")
    assert done.written
    (model,) = done.models
    assert model.attentions > 0
    assert model.result == tmp_path / "fused.onnx"
    assert model.verification.passed and model.verification.largest_relative < model.verification.tolerance
    assert any(r.rule.startswith("fuse_") for r in model.rewrites)
    operators = {n.op_type for n in onnx.load(tmp_path / "fused.onnx").graph.node if n.domain == "ai.attune"}
    assert "Attention" in operators


def test_convert_to_the_standard_domain(tmp_path):
    attune.convert(str(TRANSFORMER / "encoder_model.onnx"), str(tmp_path / "plain.onnx"), target="onnx", verify=False)
    model = onnx.load(tmp_path / "plain.onnx")
    assert {n.domain for n in model.graph.node} <= {"", "ai.onnx"}


def test_a_difference_beyond_the_tolerance_writes_nothing(tmp_path):
    done = attune.convert(TRANSFORMER / "encoder_model.onnx", tmp_path / "fused.onnx", tolerance=0.0)
    assert not done.written
    assert not (tmp_path / "fused.onnx").exists()


@pytest.fixture
def fixed_sizes(tmp_path):
    """A model that takes sizes with a product of 12291 only."""
    info = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", "K"]), helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 4097])]
    constant = helper.make_node("Constant", [], ["shape"], value_ints=[3, 4097])
    return save(tmp_path / "fixed.onnx", [constant, helper.make_node("Reshape", ["x", "shape"], ["y"])], info[:1], info[1:])


def test_the_verification_takes_sizes(fixed_sizes, tmp_path):
    assert not attune.convert(fixed_sizes, tmp_path / "out.onnx").written
    done = attune.convert(fixed_sizes, tmp_path / "out.onnx", sizes={"N": 17, "K": 723})
    assert done.written and done.models[0].verification.cases[0].sizes.startswith("N 17, K 723")
    with pytest.raises(attune.Error, match="expected one of N, K"):
        attune.convert(fixed_sizes, tmp_path / "out.onnx", sizes={"M": 1})


def test_the_verification_takes_inputs(fixed_sizes, tmp_path):
    inputs = {"x": np.ones((4097, 3), np.float32)}
    done = attune.convert(fixed_sizes, tmp_path / "out.onnx", verify_inputs=inputs)
    assert done.written and done.models[0].verification.compared == 1
    for source, options in (
        (fixed_sizes, {"verify_inputs": inputs, "sizes": {"N": 1}}),
        (fixed_sizes, {"verify_inputs": inputs, "verify": False}),
        (tmp_path, {"verify_inputs": inputs}),
    ):
        with pytest.raises(attune.Error, match="expected"):
            attune.convert(source, tmp_path / "other", **options)


def test_run_gives_the_recorded_outputs(tmp_path):
    for case in GRU.glob("io_encoder_*.npz"):
        data = np.load(case)
        outputs = attune.run(GRU / "encoder.onnx", {k[3:]: data[k] for k in data.files if k.startswith("in_")})
        for name in (k[4:] for k in data.files if k.startswith("out_")):
            np.testing.assert_allclose(outputs[name], data["out_" + name], atol=1e-5)


def test_ports_are_described():
    model = attune.Model(GRU / "encoder.onnx")
    declared = onnx.load(GRU / "encoder.onnx").graph.input
    assert [p.name for p in model.inputs] == [i.name for i in declared]
    shape = [d.dim_param or d.dim_value for d in declared[0].type.tensor_type.shape.dim]
    assert list(model.inputs[0].shape) == shape
    assert model.inputs[0].type == "int64"


def test_outputs_can_be_chosen():
    model = attune.Model(GRU / "encoder.onnx")
    data = np.load(next(GRU.glob("io_encoder_0.npz")))
    feed = {k[3:]: data[k] for k in data.files if k.startswith("in_")}
    name = model.outputs[-1].name
    assert set(model.run(feed, [name])) == {name}


@pytest.mark.parametrize("dtype, kind", [
    (np.float32, TensorProto.FLOAT), (np.float64, TensorProto.DOUBLE), (np.float16, TensorProto.FLOAT16), (bool, TensorProto.BOOL),
    (np.int8, TensorProto.INT8), (np.uint8, TensorProto.UINT8), (np.int16, TensorProto.INT16), (np.int32, TensorProto.INT32),
    (np.int64, TensorProto.INT64), (np.uint64, TensorProto.UINT64), (ml_dtypes.bfloat16, TensorProto.BFLOAT16)])
def test_types_go_through(identity, dtype, kind):
    values = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    model = identity(kind, 2)
    for given in (values, np.asfortranarray(values), values[:, ::-1], values[:0], values[1:, 1:]):
        got = model.run({"x": given})["y"]
        assert got.dtype == values.dtype
        np.testing.assert_array_equal(got, given)


def test_scalars_byte_order_and_text(identity):
    assert identity(TensorProto.FLOAT, 0).run({"x": np.float32(2.5)})["y"] == 2.5
    np.testing.assert_array_equal(identity(TensorProto.INT32, 1).run({"x": np.array([1, 2], ">i4")})["y"], [1, 2])
    np.testing.assert_array_equal(identity(TensorProto.STRING, 1).run({"x": np.array(["a", "öß"])})["y"], ["a", "öß"])


def test_arrays_share_memory_with_attune(identity):
    model = identity(TensorProto.FLOAT, 1)
    given = np.arange(1000, dtype=np.float32)
    got = model.run({"x": given})["y"]
    assert np.shares_memory(given, got)  # Identity passes its input on: no copy on the way in, none on the way out


def test_a_result_outlives_its_model(identity):
    model = identity(TensorProto.FLOAT, 1)
    got = model.run({"x": np.arange(5, dtype=np.float32)})["y"]
    del model
    gc.collect()
    np.testing.assert_array_equal(got, np.arange(5))


def test_inputs_are_never_written_to(tmp_path):
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n"]) for n in "xy"]
    model = attune.Model(save(tmp_path / "relu.onnx", [helper.make_node("Relu", ["x"], ["y"])], info[:1], info[1:]))
    given = np.array([-1, 2], np.float32)
    given.flags.writeable = False
    np.testing.assert_array_equal(model.run({"x": given})["y"], [0, 2])
    np.testing.assert_array_equal(given, [-1, 2])


def test_memory_of_others_is_read_only(tmp_path, identity):
    given = np.arange(4, dtype=np.float32)
    assert not identity(TensorProto.FLOAT, 1).run({"x": given})["y"].flags.writeable
    weight = helper.make_tensor("w", TensorProto.FLOAT, [4], [1, 2, 3, 4])
    shape = helper.make_tensor("s", TensorProto.INT64, [2], [2, 2])
    info = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"]), helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 2]),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n"])]
    nodes = [helper.make_node("Reshape", ["w", "s"], ["y"]), helper.make_node("Neg", ["x"], ["z"])]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:], [weight, shape])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "weight.onnx")
    got = attune.Model(tmp_path / "weight.onnx").run({"x": given})
    assert not got["y"].flags.writeable  # a weight of the model
    got["z"][:] = 7  # its own


def test_many_threads_share_a_model():
    model = attune.Model(GRU / "encoder.onnx", threads=1)
    data = np.load(next(GRU.glob("io_encoder_1.npz")))
    feed = {k[3:]: data[k] for k in data.files if k.startswith("in_")}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for outputs in pool.map(lambda _: model.run(feed), range(64)):
            for name in (k[4:] for k in data.files if k.startswith("out_")):
                np.testing.assert_allclose(outputs[name], data["out_" + name], atol=1e-5)


def ticks_during(work):
    """How often this thread comes to run while another does `work`, and how long that takes."""
    during = []
    running = threading.Event()

    def run():
        running.set()
        start = time.perf_counter()
        work()
        during.append((start, time.perf_counter()))

    thread = threading.Thread(target=run)
    ticks = []
    thread.start()
    running.wait()
    while thread.is_alive():
        ticks.append(time.perf_counter())
        time.sleep(0.001)
    thread.join()
    (start, end), = during
    return sum(start < t < end for t in ticks), end - start


def test_the_interpreter_runs_meanwhile(tmp_path):
    """A product that takes a while must not keep another thread from counting."""
    info = [helper.make_tensor_value_info(n, TensorProto.DOUBLE, ["n", "n"]) for n in "xy"]
    model = attune.Model(save(tmp_path / "square.onnx", [helper.make_node("MatMul", ["x", "x"], ["y"])], info[:1], info[1:]), threads=1)
    x = np.ones((900, 900))
    ticks, seconds = ticks_during(lambda: model.run({"x": x}))
    assert ticks >= 3, f"{ticks} ticks in {seconds:.3f} s"


@pytest.mark.parametrize("name", ["convert", "generate", "diagnose"])
def test_the_interpreter_runs_during_longer_work(name, tmp_path):
    """Each is one call; holding the lock, it would let nobody in."""
    ids = np.full((64, 12), 5)
    generator = attune.Generator(TRANSFORMER, threads=1)
    work = {
        "convert": lambda: attune.convert(TRANSFORMER, tmp_path / "fused", threads=1),
        "generate": lambda: generator.generate({"input_ids": ids}, num_beams=4, min_new_tokens=20, max_new_tokens=20),
        "diagnose": lambda: attune.diagnose(TRANSFORMER, {"input_ids": ids}, regime=False),
    }[name]
    # Where others keep the machine busy, this thread may miss a call; one that holds the lock lets it in never.
    for _ in range(20):
        ticks, seconds = ticks_during(work)
        if ticks >= 3:
            return
    pytest.fail(f"{ticks} ticks in {seconds:.3f} s")


def test_conversions_at_the_same_time_give_the_same(tmp_path):
    def convert(i):
        attune.convert(TRANSFORMER / "encoder_model.onnx", tmp_path / f"{i}.onnx", threads=1)
        return (tmp_path / f"{i}.onnx").read_bytes()

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(convert, range(8)))
    assert all(r == results[0] for r in results)


def test_errors_say_where_and_of_which_kind(tmp_path):
    model = attune.Model(GRU / "encoder.onnx")
    with pytest.raises(attune.Error, match=f"'{model.inputs[0].name}'.*missing") as caught:
        model.run({})
    assert caught.value.kind == "invalid_argument"
    with pytest.raises(attune.Error) as caught:
        attune.Model(tmp_path / "missing.onnx")
    assert caught.value.kind == "io"
    with pytest.raises(attune.Error, match="onnx") as caught:
        attune.convert(GRU / "encoder.onnx", tmp_path / "x.onnx", target="tflite")
    assert caught.value.kind == "invalid_argument"
    (tmp_path / "broken.onnx").write_bytes(b"not a model")
    with pytest.raises(attune.Error) as caught:
        attune.Model(tmp_path / "broken.onnx")
    assert caught.value.kind == "invalid_model"
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    save(tmp_path / "odd.onnx", [helper.make_node("NoSuchOperator", ["x"], ["y"])], ports[:1], ports[1:])
    with pytest.raises(attune.Error, match="odd.onnx.*can't be run") as caught:
        attune.Model(tmp_path / "odd.onnx")
    assert caught.value.kind == "unsupported"
    with pytest.raises(attune.Error, match="object"):
        model.run({model.inputs[0].name: np.array([object()])})


def held_out():
    """Sentences and their translations, none of which the demo model was trained on."""
    lines = [line.split("\t") for line in (ROOT / "examples/translate/heldout.tsv").read_text().splitlines()]
    return [(line[0], line[1]) for line in lines if len(line) > 1]


@pytest.fixture(scope="module")
def fused(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fused") / "transformer"
    attune.convert(TRANSFORMER, folder, verify=False)
    return folder


def test_generate_translates(fused):
    tokenizer = attune.load_tokenizer(TRANSFORMER)
    target = attune.load_tokenizer(TRANSFORMER, target=True)
    generator = attune.Generator(fused, alignments=True)
    right = 0
    pairs = held_out()[:20]
    for source, translation in pairs:
        ids = np.array([tokenizer.encode(source)])
        ((best,),) = generator.generate({"input_ids": ids}, max_new_tokens=30, output_alignments=True)
        right += target.decode(best.tokens[best.prompt_length:]) == translation
        assert len(best.alignment) == len(best.tokens) - best.prompt_length
        np.testing.assert_allclose(np.sum(best.alignment, axis=1), 1, atol=1e-3)
    assert right >= 0.9 * len(pairs)


def test_diagnose_sees_heads_and_outputs(fused):
    ids = np.array([attune.load_tokenizer(fused).encode(held_out()[0][0])])
    diagnosis = attune.diagnose(fused, {"input_ids": ids}, regime=False)
    kinds = {head.layer_name.split()[0] for head in diagnosis.heads}
    assert kinds == {"encoder", "decoder", "cross"}
    assert all(0 <= head.entropy <= 1 for head in diagnosis.heads)
    (output,) = diagnosis.outputs
    ((best,),) = attune.Generator(fused).generate({"input_ids": ids})
    assert output.tokens == best.tokens[best.prompt_length:]
    assert len(output.coverage) == ids.size
    assert len(json.loads(diagnosis.json())["heads"]) == len(diagnosis.heads)
    assert "cross layer 0" in diagnosis.text(all_heads=True)


def test_narrow_weights_make_a_smaller_file(tmp_path):
    done = attune.convert(TRANSFORMER / "encoder_model.onnx", tmp_path / "narrow.onnx", weights_type="int8")
    assert done.written and done.models[0].rounded.passed
    assert (tmp_path / "narrow.onnx").stat().st_size < 0.5 * (TRANSFORMER / "encoder_model.onnx").stat().st_size


@pytest.mark.parametrize("rounded", [True, False])
def test_a_file_says_whether_activations_may_be_rounded(tmp_path, rounded):
    attune.convert(TRANSFORMER / "encoder_model.onnx", tmp_path / "narrow.onnx", weights_type="float16", rounded_activations=rounded)
    assert (b"attune.activations" in (tmp_path / "narrow.onnx").read_bytes()) == rounded


def test_generate_takes_the_names_of_hugging_face():
    generator = attune.Generator(TRANSFORMER)
    ids = np.array([attune.load_tokenizer(TRANSFORMER).encode(s) for s, _ in held_out()[:1]])
    (beams,) = generator.generate({"input_ids": ids}, num_beams=4, num_return_sequences=3)
    assert len(beams) == 3
    assert beams[0].score >= beams[1].score >= beams[2].score
    with pytest.raises(TypeError, match="number_of_beams"):
        generator.generate({"input_ids": ids}, number_of_beams=4)
    with pytest.raises(attune.Error, match="num_beams"):
        generator.generate({"input_ids": ids}, num_beams=0)


@pytest.mark.parametrize("option", attune.GenerationOptions.__annotations__)
def test_every_option_is_one_of_the_library(option):
    """A value that no option takes is refused by the option's name."""
    generator = attune.Generator(TRANSFORMER)
    with pytest.raises(attune.Error, match=option):
        generator.generate({"input_ids": np.array([[5]])}, **{option: {"no": "value"}})


def test_options_are_numpys_too():
    generator = attune.Generator(TRANSFORMER)
    ids = np.array([attune.load_tokenizer(TRANSFORMER).encode(s) for s, _ in held_out()[:1]])
    plain = {"num_beams": 3, "length_penalty": 0.5, "do_sample": False, "decoder_input_ids": [[7, 8]], "bad_words_ids": [[11], [12, 13]]}
    arrays = {
        "num_beams": np.int64(3),
        "length_penalty": np.float32(0.5),
        "do_sample": np.bool_(False),
        "decoder_input_ids": np.array([[7, 8]]),
        "bad_words_ids": [np.array([11]), (np.int32(12), np.int32(13))],
    }
    wanted = generator.generate({"input_ids": ids}, **plain)[0][0].tokens
    assert generator.generate({"input_ids": ids}, **arrays)[0][0].tokens == wanted
    assert wanted[1:3] == [7, 8]
    with pytest.raises(TypeError, match="option bad_words_ids: .*found set"):
        generator.generate({"input_ids": ids}, bad_words_ids={1})


def test_replicas_generate_at_the_same_time():
    generator = attune.Generator(TRANSFORMER, threads=1)
    ids = np.array([attune.load_tokenizer(TRANSFORMER).encode(held_out()[0][0])])
    wanted = generator.generate({"input_ids": ids})[0][0].tokens
    replicas = [generator.replica() for _ in range(4)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for got in pool.map(lambda r: r.generate({"input_ids": ids})[0][0].tokens, replicas):
            assert got == wanted


def test_threads_that_share_a_generator_take_turns():
    generator = attune.Generator(TRANSFORMER, threads=1)
    tokenizer = attune.load_tokenizer(TRANSFORMER)
    ids = [np.array([tokenizer.encode(source)]) for source, _ in held_out()[:8]]
    wanted = [attune.Generator(TRANSFORMER, threads=1).generate({"input_ids": i})[0][0].tokens for i in ids]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for got, expected in zip(pool.map(lambda i: generator.generate({"input_ids": i})[0][0].tokens, ids * 4), wanted * 4):
            assert got == expected


def test_numbers_that_are_not_finite():
    generator = attune.Generator(TRANSFORMER, threads=1)
    ids = {"input_ids": np.array([attune.load_tokenizer(TRANSFORMER).encode(held_out()[0][0])])}
    prompt = 1
    first = generator.generate(ids)[0][0].tokens[prompt]
    assert generator.generate(ids, sequence_bias=[([first], float("-inf"))])[0][0].tokens[prompt] != first
    for name, value in (("sequence_bias", [([first], float("inf"))]), ("temperature", float("inf")), ("top_p", float("nan"))):
        with pytest.raises(attune.Error, match=name):
            generator.generate(ids, **{name: value})


def test_the_plug_ins_are_files():
    assert pathlib.Path(attune.onnxruntime_library()).is_file()
    try:
        assert pathlib.Path(attune.openvino_library()).is_file()
    except FileNotFoundError as error:
        assert "libattune_openvino.so" in str(error)


def test_the_package_says_its_version():
    (version,) = re.findall(r"project\(attune VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert attune.__version__ == version


def test_the_package_is_typed():
    package = pathlib.Path(attune.__file__).parent
    assert (package / "py.typed").exists()
    stub = (package / "_attune.pyi").read_text()
    for name in ("Conversion", "Generation", "Generator", "Model", "Port", "Tokenizer", "Verification"):
        assert f"class {name}" in stub
    for name in attune.__all__:
        member = getattr(attune, name)
        if inspect.isfunction(member):
            assert "return" in inspect.get_annotations(member), name

