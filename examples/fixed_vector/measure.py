"""Quality of both models by the length of the source, read by attune: results.tsv and quality.svg.

usage: python measure.py ATTUNE [--output FOLDER] [--sources N]      (the Python standard library alone)
"""
import argparse
import pathlib
import subprocess
import tempfile

from numbers_aloud import BUCKETS, TRAINED, test

ROOT = pathlib.Path(__file__).resolve().parent
MODELS = ("fixed", "attending")


def read_aloud(attune, folder, sources):
    """Words of each source, by the converted model in `folder`."""
    text = "".join(f"{s}\n" for s in sources)
    out = subprocess.run([attune, "generate", folder, "--input", "-", "--batch", "50", "--threads", "1"], input=text, check=True, capture_output=True, text=True)
    lines = out.stdout.split("\n")[:-1]
    assert len(lines) == len(sources)
    return [line.split() for line in lines]


def word_errors(output, reference):
    """Fewest words to change, leave out and put in (Levenshtein)."""
    row = list(range(len(reference) + 1))
    for i, word in enumerate(output, 1):
        before, row[0] = row[0], i
        for j, wanted in enumerate(reference, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (word != wanted))
    return row[-1]


def quality(outputs, references):
    """Words that are right (100 less the word error rate), and sources that are right as a whole, in percent."""
    errors = sum(map(word_errors, outputs, references))
    whole = sum(o == r for o, r in zip(outputs, references))
    return 100 * max(0, 1 - errors / sum(map(len, references))), 100 * whole / len(references)


def plot(results, file):
    """Words right over the middles of the buckets; a dashed line where training ended."""
    width, height, left, top, longest = 640, 360, 56, 24, BUCKETS[-1][1]
    x = lambda length: left + length / longest * (width - left - 16)
    y = lambda percent: top + (100 - percent) / 100 * (height - top - 48)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for q in range(0, 101, 20):
        lines.append(f'<line x1="{left}" x2="{width - 16}" y1="{y(q)}" y2="{y(q)}" stroke="#ddd"/><text x="{left - 8}" y="{y(q) + 4}" text-anchor="end">{q}</text>')
    for length in range(0, longest + 1, 10):
        lines.append(f'<text x="{x(length)}" y="{y(0) + 18}" text-anchor="middle">{length}</text>')
    lines.append(f'<line x1="{x(TRAINED)}" x2="{x(TRAINED)}" y1="{top}" y2="{y(0)}" stroke="#999" stroke-dasharray="4 4"/>'
                 f'<text x="{x(TRAINED) + 6}" y="{y(4)}" fill="#666">longest in training</text>')
    for column, (name, colour, label) in enumerate((("one vector", "#b3411f", 6), ("attention", "#08306b", 3))):
        points = [(x((lo + hi) / 2), y(row[2 * column])) for (lo, hi), row in results]
        lines.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2.5" points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in points)}"/>')
        lines.append(f'<text x="{points[label][0] + 8:.1f}" y="{points[label][1] + (-12 if column == 0 else 20):.1f}" fill="{colour}" font-weight="bold">{name}</text>')
    lines.append(f'<text x="{(left + width) / 2}" y="{height - 8}" text-anchor="middle">characters of the source</text>'
                 f'<text x="8" y="16">words right, %</text></svg>')
    file.write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attune")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT, help="folder of results.tsv and quality.svg")
    parser.add_argument("--sources", type=int, default=100, help="in each bucket of lengths")
    arguments = parser.parse_args()
    buckets, results = test(arguments.sources), []
    with tempfile.TemporaryDirectory() as scratch:
        for model in MODELS:
            subprocess.run([arguments.attune, "convert", ROOT / "models" / model, "-o", f"{scratch}/{model}"], check=True, capture_output=True)
        for bucket in BUCKETS:
            sources, references = zip(*buckets[bucket])
            row = [q for model in MODELS for q in quality(read_aloud(arguments.attune, f"{scratch}/{model}", sources), references)]
            results.append((bucket, row))
    lines = ["characters\tone vector: words right\tsources right\tattention: words right\tsources right"]
    lines += ["\t".join([f"{lo}-{hi}"] + [f"{q:.1f}" for q in row]) for (lo, hi), row in results]
    (arguments.output / "results.tsv").write_text("\n".join(lines) + "\n")
    plot(results, arguments.output / "quality.svg")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
