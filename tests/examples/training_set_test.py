"""The demo's sentences, and the pair chat-noir, are not in the training set, which the grammar makes again from its seed."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "examples/translate/train"))
import grammar

train, heldout = grammar.corpus()
texts = {" ".join(s.french) for s in train}
assert len(texts) == len(train) == 60000
for demo in ("le chat noir dort", "nous mangeons du pain"):
    assert demo not in texts, demo
for text in texts:
    words = text.split()
    assert not any(a in ("chat", "chats") and b in ("noir", "noirs") for a, b in zip(words, words[1:])), text
committed = (ROOT / "examples/translate/heldout.tsv").read_text(encoding="utf8").splitlines()
assert committed == [f"{grammar.text(s.french)}\t{grammar.text(s.english)}" for s in heldout]
assert not texts & {" ".join(s.french) for s in heldout}
print(f"{len(train)} training sentences, {len(heldout)} held out")
