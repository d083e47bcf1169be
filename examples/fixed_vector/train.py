"""Trains the same recurrent encoder-decoder with one fixed vector and with attention, and writes both to models/.

usage: python train.py [--steps N]      (../translate/train/requirements.txt)

fixed:      the decoder sees the source only as one vector, the encoder's last states, at every step.
attending:  it sees a mean of the encoder's states, weighted anew at every step (additive attention).
Nothing guides the attention; both see the same pairs in the same order.
"""
import argparse
import json
import pathlib
import random
import time

import torch
from torch import nn

from numbers_aloud import BOS, EOS, ID, PAD, TRAINED, VOCABULARY, pair

ROOT = pathlib.Path(__file__).resolve().parent
EMBEDDING, HIDDEN = 32, 64  # the encoder has HIDDEN in each direction
BATCH, RATE = 64, 5e-3


class Encoder(nn.Module):
    """Gives what the decoder sees of the source, states (batch, source, 2 HIDDEN) or the last ones (batch, 2 HIDDEN), and the
    decoder's first state."""

    def __init__(self, attending):
        super().__init__()
        self.attending = attending
        self.embedding = nn.Embedding(len(VOCABULARY), EMBEDDING)
        self.rnn = nn.GRU(EMBEDDING, HIDDEN, batch_first=True, bidirectional=True)
        self.start = nn.Linear(2 * HIDDEN, HIDDEN)

    def forward(self, ids, mask):
        lengths = mask.to(torch.int64).sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding(ids), lengths, batch_first=True, enforce_sorted=False)
        states = nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0]
        last = (lengths - 1).view(-1, 1, 1).expand(-1, 1, HIDDEN)
        summary = torch.cat([states[..., :HIDDEN].gather(1, last).squeeze(1), states[:, 0, HIDDEN:]], -1)
        return states if self.attending else summary, torch.tanh(self.start(summary))


class Decoder(nn.Module):
    """A recurrent layer over words and what is known of the source, and words out of both."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(len(VOCABULARY), EMBEDDING)
        self.rnn = nn.GRU(EMBEDDING + 2 * HIDDEN, HIDDEN, batch_first=True)
        self.output = nn.Linear(3 * HIDDEN, len(VOCABULARY))

    def step(self, target, state, context):
        out, new_state = self.rnn(torch.cat([self.embedding(target), context], -1), state.unsqueeze(0))
        return self.output(torch.cat([out, context], -1)), new_state.squeeze(0)


class FixedDecoder(Decoder):
    def forward(self, target, state, summary):
        """One word, or many."""
        return self.step(target, state, summary.unsqueeze(1).expand(-1, target.shape[1], -1))


class AttendingDecoder(Decoder):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.key = nn.Linear(2 * HIDDEN, HIDDEN)
        self.score = nn.Linear(HIDDEN, 1, bias=False)

    def attend(self, state, keys, memory, mask):
        scores = self.score(torch.tanh(self.query(state).unsqueeze(1) + keys)).squeeze(-1)
        weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), -1)
        return weights.unsqueeze(1) @ memory, weights

    def forward(self, target, state, memory, mask):
        """One word."""
        context, weights = self.attend(state, self.key(memory), memory, mask)
        return *self.step(target, state, context), weights

    def all_steps(self, target, state, memory, mask):
        keys, outputs = self.key(memory), []
        for word in target.split(1, dim=1):
            logits, state = self.step(word, state, self.attend(state, keys, memory, mask)[0])
            outputs.append(logits)
        return torch.cat(outputs, 1)


class Reader(nn.Module):
    def __init__(self, attending):
        super().__init__()
        self.attending = attending
        self.encoder = Encoder(attending)
        self.decoder = AttendingDecoder() if attending else FixedDecoder()

    def forward(self, source, target):
        mask = source != PAD
        known, state = self.encoder(source, mask)
        if self.attending:
            return self.decoder.all_steps(target, state, known, mask)
        return self.decoder(target, state, known)[0]


def batches(count, seed=1):
    """Pairs of similar lengths together."""
    rng = random.Random(seed)
    pad = lambda rows: nn.utils.rnn.pad_sequence([torch.tensor(r) for r in rows], batch_first=True, padding_value=PAD)
    pool = []
    for _ in range(count):
        if not pool:
            pairs = sorted((pair(rng, TRAINED) for _ in range(16 * BATCH)), key=lambda p: len(p[0]))
            pool = [pairs[i : i + BATCH] for i in range(0, len(pairs), BATCH)]
            rng.shuffle(pool)
        batch = pool.pop()
        yield (pad([[ID[c] for c in s] + [EOS] for s, _ in batch]), pad([[BOS] + [ID[w] for w in t] + [EOS] for _, t in batch]))


def train(model, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps, pct_start=0.1)
    total, start = 0.0, time.process_time()
    for i, (source, target) in enumerate(batches(steps), 1):
        loss = nn.functional.cross_entropy(model(source, target[:, :-1]).flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        total += float(loss.detach())
        if i % 250 == 0:
            print(f"  step {i}: loss {total / 250:.4f}, {time.process_time() - start:.0f} s", flush=True)
            total = 0.0


def tokenizer():
    """Characters of a source one by one; words with blanks between them."""
    special = [{"id": i, "content": VOCABULARY[i], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                "special": True} for i in (PAD, BOS, EOS)]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
            "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "."}, "behavior": "Isolated", "invert": False},
            "post_processor": {"type": "TemplateProcessing", "pair": [],
                               "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
                               "special_tokens": {"</s>": {"id": "</s>", "ids": [EOS], "tokens": ["</s>"]}}},
            "decoder": None, "model": {"type": "WordLevel", "vocab": ID, "unk_token": "<pad>"}}


def export(model, folder):
    folder.mkdir(parents=True, exist_ok=True)
    source = torch.tensor([[5, 6, 7, EOS], [8, 9, EOS, PAD]])
    mask = source != PAD
    known, state = model.encoder(source, mask)
    sequence, batch = {0: "batch", 1: "source"}, {0: "batch"}
    name = "memory" if model.attending else "summary"
    axes = {"ids": sequence, "mask": sequence, name: sequence if model.attending else batch, "state": batch, "token": batch,
            "logits": batch, "new_state": batch, "weights": sequence}

    def write(part, inputs, file, given, results):
        torch.onnx.export(part, inputs, str(folder / file), opset_version=17, dynamo=False, input_names=given, output_names=results,
                          dynamic_axes={n: axes[n] for n in given + results})

    write(model.encoder, (source, mask), "encoder.onnx", ["ids", "mask"], [name, "state"])
    token = torch.full((2, 1), BOS)
    if model.attending:
        write(model.decoder, (token, state, known, mask), "decoder_step.onnx", ["token", "state", name, "mask"], ["logits", "new_state", "weights"])
    else:
        write(model.decoder, (token, state, known), "decoder_step.onnx", ["token", "state", name], ["logits", "new_state"])
    settings = {"bos_token_id": BOS, "decoder_start_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD, "max_new_tokens": 100, "num_beams": 1}
    (folder / "generation_config.json").write_text(json.dumps(settings, indent=1) + "\n")
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(), indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in ("fixed", "attending"):
        torch.manual_seed(3)
        model = Reader(name == "attending")
        print(f"{name}: {sum(p.numel() for p in model.parameters())} parameters, sources of up to {TRAINED} characters", flush=True)
        train(model, arguments.steps)
        model.eval()
        with torch.no_grad():
            export(model, ROOT / "models" / name)


if __name__ == "__main__":
    main()
