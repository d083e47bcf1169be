"""Quality of both models by source length, translated by attune: results.tsv and quality.svg.

usage: python measure.py ATTUNE [--sentences N]      (the Python standard library alone)
"""
import argparse
import collections
import json
import math
import pathlib
import subprocess
import tempfile

from corpus import BUCKETS, EOS, ID, TRAINED, WORDS, test

ROOT = pathlib.Path(__file__).resolve().parent


def translate(attune, model, sources):
    with tempfile.TemporaryDirectory() as folder:
        ids = pathlib.Path(folder) / "ids.txt"
        ids.write_text("".join(" ".join(str(ID[w]) for w in s) + f" {EOS}\n" for s in sources))
        out = subprocess.run([attune, "generate", ROOT / "models" / model, "--ids", ids, "--json"], check=True, capture_output=True).stdout
    rows = [s[1:] + [EOS] for s in json.loads(out)["sequences"]]
    return [[WORDS[i] for i in r[: r.index(EOS)]] for r in rows]


def bleu(outputs, references):
    """Corpus BLEU-4 with brevity penalty (Papineni et al. 2002), one reference each."""
    matches, totals = [0] * 4, [0] * 4
    for out, ref in zip(outputs, references):
        for n in range(1, 5):
            grams = lambda words: collections.Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
            got = grams(out)
            matches[n - 1] += sum((got & grams(ref)).values())
            totals[n - 1] += sum(got.values())
    if min(matches) == 0:
        return 0.0
    produced, wanted = sum(map(len, outputs)), sum(map(len, references))
    penalty = min(0.0, 1 - wanted / produced)
    return 100 * math.exp(penalty + sum(math.log(m / t) for m, t in zip(matches, totals)) / 4)


def plot(rows, file):
    """Two lines over the middles of the buckets; a dashed line where training ended."""
    width, height, left, top = 640, 360, 56, 24
    x = lambda length: left + (length - 0) / 55 * (width - left - 16)
    y = lambda quality: top + (100 - quality) / 100 * (height - top - 48)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for q in range(0, 101, 20):
        lines.append(f'<line x1="{left}" x2="{width - 16}" y1="{y(q)}" y2="{y(q)}" stroke="#ddd"/><text x="{left - 8}" y="{y(q) + 4}" text-anchor="end">{q}</text>')
    for length in range(0, 56, 10):
        lines.append(f'<text x="{x(length)}" y="{y(0) + 18}" text-anchor="middle">{length}</text>')
    lines.append(f'<line x1="{x(TRAINED)}" x2="{x(TRAINED)}" y1="{top}" y2="{y(0)}" stroke="#999" stroke-dasharray="4 4"/>'
                 f'<text x="{x(TRAINED) + 6}" y="{y(4)}" fill="#666">longest in training</text>')
    for column, (name, colour) in enumerate((("fixed vector", "#b3411f"), ("attending", "#08306b"))):
        points = [(x((lo + hi) / 2), y(row[column])) for (lo, hi), row in rows]
        lines.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2.5" points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in points)}"/>')
        lines.append(f'<text x="{points[3][0]:.1f}" y="{points[3][1] - 10:.1f}" fill="{colour}" font-weight="bold">{name}</text>')
    lines.append(f'<text x="{(left + width) / 2}" y="{height - 8}" text-anchor="middle">source words</text><text x="14" y="16">BLEU</text></svg>')
    file.write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attune")
    parser.add_argument("--sentences", type=int, default=100, help="in each bucket of source lengths")
    arguments = parser.parse_args()
    buckets, rows = test(arguments.sentences), []
    with (ROOT / "results.tsv").open("w") as out:
        print("source words", "fixed: BLEU", "attending: BLEU", "fixed: sentences right", "attending: sentences right", sep="\t", file=out)
        for bucket in BUCKETS:
            sources, references = zip(*buckets[bucket])
            outputs = [translate(arguments.attune, model, sources) for model in ("fixed", "attending")]
            quality = [bleu(o, references) for o in outputs]
            right = [sum(a == b for a, b in zip(o, references)) / len(references) for o in outputs]
            rows.append((bucket, quality))
            print(f"{bucket[0]}-{bucket[1]}", *(f"{q:.1f}" for q in quality), *(f"{100 * r:.0f} %" for r in right), sep="\t", file=out, flush=True)
    plot(rows, ROOT / "quality.svg")
    print((ROOT / "results.tsv").read_text(), end="")


if __name__ == "__main__":
    main()
