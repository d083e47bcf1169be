"""Trains the same recurrent encoder-decoder with one fixed vector and with attention, and writes both as ONNX folders.

usage: python train.py fixed|attending [--pairs N] [--epochs N]      (../translate/train/requirements.txt)

fixed:      the decoder sees the source only as one vector, the encoder's last states, at every step.
attending:  it sees a mean of the encoder's states, weighted anew at every step (general attention, h W s).
Nothing guides the attention; both see the same pairs in the same order.
"""
import argparse
import json
import pathlib
import random
import time

import torch
from torch import nn

from corpus import BOS, EOS, ID, PAD, TRAINED, WORDS, training

ROOT = pathlib.Path(__file__).resolve().parent
EMBEDDING, HIDDEN, MIXED = 64, 128, 96  # the encoder has HIDDEN in each direction


class Encoder(nn.Module):
    """Gives the states (batch, source, 2 HIDDEN), their summary (batch, 2 HIDDEN) and the decoder's first state."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(len(WORDS), EMBEDDING, padding_idx=PAD)
        self.rnn = nn.GRU(EMBEDDING, HIDDEN, batch_first=True, bidirectional=True)
        self.start = nn.Linear(2 * HIDDEN, HIDDEN)

    def forward(self, ids, mask):
        lengths = mask.to(torch.int64).sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding(ids), lengths, batch_first=True, enforce_sorted=False)
        states, last = self.rnn(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True)
        summary = torch.cat([last[0], last[1]], -1)
        return states, summary, torch.tanh(self.start(summary))


class FixedEncoder(Encoder):
    def forward(self, ids, mask):
        _, summary, start = super().forward(ids, mask)
        return summary, start


class AttendingEncoder(Encoder):
    def forward(self, ids, mask):
        states, _, start = super().forward(ids, mask)
        return states, start


class Step(nn.Module):
    """A recurrent layer, and words out of tanh(W [its state; what is known of the source])."""

    def __init__(self, inputs):
        super().__init__()
        self.embedding = nn.Embedding(len(WORDS), EMBEDDING, padding_idx=PAD)
        self.rnn = nn.GRU(inputs, HIDDEN, batch_first=True)
        self.combine = nn.Linear(3 * HIDDEN, MIXED)
        self.output = nn.Linear(MIXED, len(WORDS))

    def logits(self, out, context):
        return self.output(torch.tanh(self.combine(torch.cat([out, context], -1))))


class FixedStep(Step):
    def __init__(self):
        super().__init__(EMBEDDING + 2 * HIDDEN)

    def forward(self, target, state, summary):
        """All target words at once, or one."""
        context = summary.unsqueeze(1).expand(-1, target.shape[1], -1)
        out, new_state = self.rnn(torch.cat([self.embedding(target), context], -1), state.unsqueeze(0))
        return self.logits(out, context), new_state.squeeze(0)


class AttendingStep(Step):
    def __init__(self):
        super().__init__(EMBEDDING)
        self.score = nn.Linear(HIDDEN, 2 * HIDDEN, bias=False)

    def forward(self, target, state, memory, mask):
        out, new_state = self.rnn(self.embedding(target), state.unsqueeze(0))
        scores = self.score(out) @ memory.transpose(1, 2)
        weights = torch.softmax(scores.masked_fill(~mask.unsqueeze(1), float("-inf")), -1)
        return self.logits(out, weights @ memory), new_state.squeeze(0), weights


class Translator(nn.Module):
    def __init__(self, attending):
        super().__init__()
        self.attending = attending
        self.encoder, self.step = (AttendingEncoder(), AttendingStep()) if attending else (FixedEncoder(), FixedStep())

    def forward(self, source, target):
        mask = source != PAD
        memory, state = self.encoder(source, mask)
        return self.step(target, state, memory, *([mask] if self.attending else []))[0]


def batches(pairs, size, rng):
    order = sorted(range(len(pairs)), key=lambda i: (len(pairs[i][0]), len(pairs[i][1]), rng.random()))
    groups = [order[i : i + size] for i in range(0, len(order), size)]
    rng.shuffle(groups)
    pad = lambda rows: nn.utils.rnn.pad_sequence([torch.tensor(r) for r in rows], batch_first=True, padding_value=PAD)
    for group in groups:
        yield pad([pairs[i][0] for i in group]), pad([pairs[i][1] for i in group])


def train(model, pairs, epochs, rate=3e-3, size=64):
    rng = random.Random(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=epochs * -(-len(pairs) // size), pct_start=0.1)
    for epoch in range(epochs):
        total, count, start = 0.0, 0, time.time()
        for source, target in batches(pairs, size, rng):
            logits = model(source, target[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            total, count = total + float(loss.detach()), count + 1
        print(f"epoch {epoch + 1}: loss {total / count:.4f}, {time.time() - start:.0f} s", flush=True)


def export(model, folder):
    folder.mkdir(parents=True, exist_ok=True)
    source = torch.tensor([[5, 6, 7, EOS], [8, 9, EOS, PAD]])
    mask = source != PAD
    memory, state = model.encoder(source, mask)
    sequence, batch = {0: "batch", 1: "source"}, {0: "batch"}
    name = "memory" if model.attending else "summary"
    axes = {"ids": sequence, "mask": sequence, name: sequence if model.attending else batch, "state": batch, "token": batch,
            "logits": batch, "new_state": batch, "weights": {0: "batch", 2: "source"}}

    def write(part, inputs, file, given, results):
        torch.onnx.export(part, inputs, str(folder / file), opset_version=17, dynamo=False, input_names=given, output_names=results,
                          dynamic_axes={n: axes[n] for n in given + results})

    write(model.encoder, (source, mask), "encoder.onnx", ["ids", "mask"], [name, "state"])
    token = torch.full((2, 1), BOS)
    if model.attending:
        write(model.step, (token, state, memory, mask), "decoder_step.onnx", ["token", "state", name, "mask"], ["logits", "new_state", "weights"])
    else:
        write(model.step, (token, state, memory), "decoder_step.onnx", ["token", "state", name], ["logits", "new_state"])
    (folder / "generation_config.json").write_text(json.dumps(
        {"bos_token_id": BOS, "decoder_start_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD, "max_new_tokens": 96, "num_beams": 1}, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=["fixed", "attending"])
    parser.add_argument("--pairs", type=int, default=12000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(3)
    pairs = [([ID[w] for w in f] + [EOS], [BOS] + [ID[w] for w in e] + [EOS]) for f, e in training(arguments.pairs)]
    model = Translator(arguments.model == "attending")
    print(f"{sum(p.numel() for p in model.parameters())} parameters, sources of up to {TRAINED} words", flush=True)
    train(model, pairs, arguments.epochs)
    model.eval()
    with torch.no_grad():
        export(model, ROOT / "models" / arguments.model)


if __name__ == "__main__":
    main()
