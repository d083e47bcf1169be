"""Sentences of the translation example's grammar, joined by "et" and "and": the same language at any length."""
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "translate/train"))
import grammar

PAD, BOS, EOS, UNK = 0, 1, 2, 3
WORDS = grammar.vocabulary() + ["et", "and"]
ID = {w: i for i, w in enumerate(WORDS)}
TRAINED = 30  # source words at most in training
BUCKETS = [(lo, lo + 4) for lo in range(4, 54, 5)]  # source words, both ends included


def joined(rng, longest):
    """A pair of word lists with at most `longest` source words."""
    wanted = rng.randint(3, longest)
    french, english = [], []
    while True:
        s = grammar.sentence(rng)
        if grammar.held_back(s.french):
            continue
        more = (["et"] if french else []) + s.french
        if french and len(french) + len(more) > wanted:
            return french, english
        if len(more) > longest:
            continue
        french, english = french + more, english + (["and"] if english else []) + s.english


def training(count, seed=11):
    rng = random.Random(seed)
    return [joined(rng, TRAINED) for _ in range(count)]


def test(per_bucket, seed=12):
    """Pairs for each bucket of source lengths; none of them is in the training set."""
    rng = random.Random(seed)
    buckets = {b: [] for b in BUCKETS}
    while any(len(v) < per_bucket for v in buckets.values()):
        pair = joined(rng, BUCKETS[-1][1])
        for (lo, hi), pairs in buckets.items():
            if lo <= len(pair[0]) <= hi and len(pairs) < per_bucket:
                pairs.append(pair)
    return buckets
