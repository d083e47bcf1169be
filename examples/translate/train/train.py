"""Trains both demo models and writes their ONNX folders.

usage: python train.py gru|transformer [--epochs N]      (requirements.txt; minutes on two cores)
The encoder-decoder alignment of the grammar guides the recurrent model's attention, and one named head of the
transformer (last decoder layer, head 0), with a small weight.
"""
import argparse
import json
import pathlib
import random

import torch
from torch import nn

import grammar
from model import BOS, EOS, PAD, Translator

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORDS = grammar.vocabulary()
ID = {w: i for i, w in enumerate(WORDS)}


def encode(sentence):
    source = [ID[w] for w in sentence.french] + [EOS]
    target = [BOS] + [ID[w] for w in sentence.english] + [EOS]
    return source, target, sentence.aligned + [len(source) - 1]


def batches(sentences, size, rng):
    order = sorted(range(len(sentences)), key=lambda i: (len(sentences[i][0]), len(sentences[i][1]), rng.random()))
    groups = [order[i : i + size] for i in range(0, len(order), size)]
    rng.shuffle(groups)
    for group in groups:
        rows = [sentences[i] for i in group]
        pad = lambda k: nn.utils.rnn.pad_sequence([torch.tensor(r[k]) for r in rows], batch_first=True, padding_value=PAD)
        yield pad(0), pad(1), pad(2)


class Transformer(nn.Module):
    def __init__(self, words):
        super().__init__()
        from transformers import MarianConfig, MarianMTModel

        self.model = MarianMTModel(MarianConfig(
            vocab_size=words, d_model=96, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
            encoder_ffn_dim=256, decoder_ffn_dim=256, max_position_embeddings=64, activation_function="swish", scale_embedding=True,
            dropout=0.1, pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS, decoder_start_token_id=BOS, forced_eos_token_id=None,
            attn_implementation="eager"))

    def forward(self, source, target):
        out = self.model(input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=target, output_attentions=True)
        return out.logits, out.cross_attentions[-1][:, 0]


def train(model, data, epochs, rate):
    rng = random.Random(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    steps = epochs * ((len(data) + 127) // 128)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps, pct_start=0.1)
    for epoch in range(epochs):
        model.train()
        total, count = 0.0, 0
        for source, target, aligned in batches(data, 128, rng):
            logits, weights = model(source, target[:, :-1])
            wanted = target[:, 1:]
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=PAD)
            chosen = weights.gather(2, aligned.unsqueeze(-1)).squeeze(-1).clamp_min(1e-6)
            guide = -(chosen.log() * (wanted != PAD)).sum() / (wanted != PAD).sum()
            optimizer.zero_grad()
            (loss + 0.1 * guide).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            total, count = total + float(loss.detach()), count + 1
        print(f"epoch {epoch + 1}: loss {total / count:.4f}", flush=True)


def greedy(model, source, limit=24):
    target = torch.full((source.shape[0], 1), BOS)
    with torch.no_grad():
        for _ in range(limit):
            target = torch.cat([target, model(source, target)[0][:, -1:].argmax(-1)], 1)
    return [row[1 : (row.tolist() + [EOS]).index(EOS)].tolist() for row in target]


def accuracy(model, heldout):
    model.eval()
    right = 0
    for i in range(0, len(heldout), 100):
        part = heldout[i : i + 100]
        source = nn.utils.rnn.pad_sequence([torch.tensor(s) for s, _, _ in part], batch_first=True, padding_value=PAD)
        right += sum(out == t[1:-1] for out, (_, t, _) in zip(greedy(model, source), part))
    return right / len(heldout)


def write_tokenizer(folder):
    json.dump({
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": w, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
                         for i, w in enumerate(WORDS[:4])],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "WhitespaceSplit"},
            {"type": "Split", "pattern": {"String": "'"}, "behavior": "MergedWithPrevious", "invert": False}]},
        "post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
                           "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                           "special_tokens": {"</s>": {"id": "</s>", "ids": [EOS], "tokens": ["</s>"]}}},
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": ID, "unk_token": "<unk>"},
    }, open(folder / "tokenizer.json", "w"), ensure_ascii=False, indent=1)
    json.dump({"bos_token_id": BOS, "decoder_start_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD, "max_new_tokens": 32, "num_beams": 1},
              open(folder / "generation_config.json", "w"), indent=1)


def export_gru(model, folder):
    source = torch.tensor([[5, 6, 7, EOS], [8, 9, EOS, PAD]])
    mask = source != PAD
    memory, state = model.encoder(source, mask)
    axes = {0: "batch", 1: "source"}
    torch.onnx.export(model.encoder, (source, mask), str(folder / "encoder.onnx"), opset_version=17, dynamo=False,
                      input_names=["ids", "mask"], output_names=["memory", "state"],
                      dynamic_axes={"ids": axes, "mask": axes, "memory": axes, "state": {0: "batch"}})
    torch.onnx.export(model.step, (torch.full((2, 1), BOS), state, memory, mask), str(folder / "decoder_step.onnx"), opset_version=17,
                      dynamo=False, input_names=["token", "state", "memory", "mask"], output_names=["logits", "new_state", "weights"],
                      dynamic_axes={"token": {0: "batch"}, "state": {0: "batch"}, "memory": axes, "mask": axes, "logits": {0: "batch"},
                                    "new_state": {0: "batch"}, "weights": axes})


def export_transformer(model, folder):
    from optimum.exporters.onnx import onnx_export_from_model

    onnx_export_from_model(model.model, output=folder, task="text2text-generation-with-past", do_validation=False, no_post_process=True, opset=17)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("architecture", choices=["gru", "transformer"])
    parser.add_argument("--epochs", type=int, default=8)
    arguments = parser.parse_args()
    torch.manual_seed(3)
    training, heldout = grammar.corpus()
    (ROOT / "heldout.tsv").write_text("".join(f"{grammar.text(s.french)}\t{grammar.text(s.english)}\n" for s in heldout))
    training, heldout = [encode(s) for s in training], [encode(s) for s in heldout]
    gru = arguments.architecture == "gru"
    model = Translator(len(WORDS)) if gru else Transformer(len(WORDS))
    print(sum(p.numel() for p in model.parameters()), "parameters,", len(WORDS), "words")
    train(model, training, arguments.epochs, 3e-3 if gru else 2e-3)
    print(f"held-out sentences right: {accuracy(model, heldout):.1%}")
    folder = ROOT / "models" / arguments.architecture
    folder.mkdir(parents=True, exist_ok=True)
    (export_gru if gru else export_transformer)(model, folder)
    write_tokenizer(folder)
    for text in grammar.DEMO:
        source = torch.tensor([[ID[w] for w in text.split()] + [EOS]])
        out = greedy(model, source)[0]
        _, weights = model(source, torch.tensor([[BOS] + out]))
        print(text, "->", " ".join(WORDS[i] for i in out), weights[0].argmax(-1).tolist())


if __name__ == "__main__":
    main()
