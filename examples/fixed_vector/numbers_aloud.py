"""The task: numbers read aloud, "407,12,90" to "four hundred seven twelve ninety". Nothing helps to guess the next number."""
import random

UNITS = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
         "seventeen eighteen nineteen").split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
PAD, BOS, EOS = 0, 1, 2
VOCABULARY = ["<pad>", "<s>", "</s>", *"0123456789,", *UNITS, *TENS, "hundred"]
ID = {token: i for i, token in enumerate(VOCABULARY)}
TRAINED = 30  # characters at most in training
BUCKETS = [(lo, lo + 4) for lo in range(1, 50, 5)]  # characters, both ends included


def aloud(number):
    """Words of 0 to 999."""
    if number < 20:
        return [UNITS[number]]
    if number < 100:
        return [TENS[number // 10 - 2]] + (aloud(number % 10) if number % 10 else [])
    return [UNITS[number // 100], "hundred"] + (aloud(number % 100) if number % 100 else [])


def pair(rng, longest):
    """A source of at most `longest` characters, and its words."""
    wanted = rng.randint(1, longest)
    source, words = "", []
    while True:
        number = rng.randrange(10 ** rng.randint(1, 3))
        more = f"{',' if source else ''}{number}"
        if len(source) + len(more) > wanted:
            if source:
                return source, words
            continue
        source += more
        words += aloud(number)


def test(per_bucket, seed=12):
    """Pairs for each bucket of source lengths."""
    rng = random.Random(seed)
    buckets = {b: [] for b in BUCKETS}
    for (lo, hi), pairs in buckets.items():
        while len(pairs) < per_bucket:
            source, words = pair(rng, hi)
            if len(source) >= lo:
                pairs.append((source, words))
    return buckets
