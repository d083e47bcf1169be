"""The figures of examples/fixed_vector follow from its models.

usage: fixed_vector_test.py ATTUNE SOURCE_FOLDER
"""
import pathlib
import subprocess
import sys
import tempfile

attune, root = sys.argv[1], pathlib.Path(sys.argv[2])
example = root / "examples/fixed_vector"
TOLERANCE = 2.0  # percent: where two words are nearly as probable, machines with other instructions may choose otherwise


def rows_of(text):
    return [(line.split("\t")[0], [float(x) for x in line.split("\t")[1:]]) for line in text.splitlines()[1:]]


committed = rows_of((example / "results.tsv").read_text())
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([sys.executable, "-B", example / "measure.py", attune, "--output", folder], check=True, stdout=subprocess.DEVNULL)
    measured = rows_of((pathlib.Path(folder) / "results.tsv").read_text())
    assert measured != committed or (pathlib.Path(folder) / "quality.svg").read_text() == (example / "quality.svg").read_text()
assert len(measured) == len(committed) == 10
for (length, now), (same, then) in zip(measured, committed):
    assert length == same
    assert all(abs(a - b) <= TOLERANCE for a, b in zip(now, then)), (length, now, then)

readme = (example / "README.md").read_text()
for length, figures in committed:
    assert f"| {length} | " + " | ".join(f"{f:.1f}" for f in figures) + " |" in readme, length

# What the example is there to show.
words = {length: figures[::2] for length, figures in measured}
fixed = [figures[0] for figures in words.values()]
assert fixed == sorted(fixed, reverse=True)
assert words["26-30"][0] < 60 and words["26-30"][1] > 99
