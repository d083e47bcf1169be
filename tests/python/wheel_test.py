"""The wheel: made of what the build tree has, installed into a folder of its own, and used from there."""
import email
import os
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ["ATTUNE_BUILD"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation",
                    "--no-index", "--wheel-dir", folder, f"--config-settings=cmake.define.ATTUNE_PREBUILT={BUILD}",
                    f"--config-settings=build-dir={folder}/build", ROOT], check=True)
    (file,) = folder.glob("*.whl")
    return file


def test_metadata(wheel):
    version = re.search(r"project\(attune VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
    assert wheel.name.startswith(f"attune-{version}-cp3")
    with zipfile.ZipFile(wheel) as archive:
        metadata = email.message_from_bytes(archive.read(f"attune-{version}.dist-info/METADATA"))
        names = set(archive.namelist())
    assert metadata["Name"] == "attune"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert any(r.startswith("numpy") for r in metadata.get_all("Requires-Dist"))
    assert "attention" in metadata.get_payload()  # the README
    for file in ("__init__.py", "py.typed", "_attune.pyi", "lib/libattune_onnxruntime.so"):
        assert f"attune/{file}" in names
    assert f"attune-{version}.dist-info/licenses/LICENSE" in names


def test_it_works_where_it_is_installed(wheel, tmp_path):
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--target",
                    tmp_path / "site", wheel], check=True)
    program = f"""
import attune, numpy, onnxruntime, pathlib
assert pathlib.Path(attune.__file__).is_relative_to({str(tmp_path)!r})
source = {str(ROOT / "examples/translate/models/transformer/encoder_model.onnx")!r}
attune.convert(source, "fused.onnx", verify=False)
feed = {{"input_ids": numpy.array([[5, 6, 7]]), "attention_mask": numpy.ones((1, 3), numpy.int64)}}
wanted = onnxruntime.InferenceSession(source).run(None, feed)[0]
(ours,) = attune.run("fused.onnx", feed).values()
numpy.testing.assert_allclose(ours, wanted, atol=1e-4)
options = onnxruntime.SessionOptions()
options.register_custom_ops_library(attune.onnxruntime_library())
hosted = onnxruntime.InferenceSession("fused.onnx", options).run(None, feed)[0]
numpy.testing.assert_allclose(hosted, wanted, atol=1e-4)
"""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, env={**environment, "PYTHONPATH": str(tmp_path / "site")})
