"""Phonemes of words, by attune. usage: python pronounce.py ATTUNE FOLDER WORD..."""
import json
import os
import subprocess
import sys
import tempfile

from import_g2p import END, LETTERS, PHONEMES


def pronounce(attune, folder, words):
    """The encoder takes no mask, so attune runs words of one length together."""
    rows = [[LETTERS.index(c) for c in word] + [LETTERS.index("</s>")] for word in words]
    with tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False) as f:
        f.writelines(" ".join(map(str, row)) + "\n" for row in rows)
    try:
        out = subprocess.run([attune, "generate", folder, "--ids", f.name, "--json"], check=True, capture_output=True, text=True).stdout
    finally:
        os.unlink(f.name)
    sequences = [s[1:] + [END] for s in json.loads(out)["sequences"]]
    return [[PHONEMES[i] for i in s[: s.index(END)]] for s in sequences]


if __name__ == "__main__":
    for word, phonemes in zip(sys.argv[3:], pronounce(sys.argv[1], sys.argv[2], sys.argv[3:])):
        print(word, " ".join(phonemes), sep="\t")
