"""A bidirectional GRU encoder and a GRU decoder with additive (Bahdanau) attention of mixed widths."""
import torch
from torch import nn

PAD, BOS, EOS, UNK = 0, 1, 2, 3
EMBEDDING, ENCODER, DECODER, ATTENTION = 64, 80, 128, 96  # memory is 2 x ENCODER wide


class Encoder(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.embedding = nn.Embedding(words, EMBEDDING, padding_idx=PAD)
        self.rnn = nn.GRU(EMBEDDING, ENCODER, batch_first=True, bidirectional=True)
        self.start = nn.Linear(ENCODER, DECODER)

    def forward(self, ids, mask):
        lengths = mask.to(torch.int64).sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding(ids), lengths, batch_first=True, enforce_sorted=False)
        memory, last = self.rnn(packed)
        memory, _ = nn.utils.rnn.pad_packed_sequence(memory, batch_first=True)
        return memory, torch.tanh(self.start(last[1]))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(DECODER, ATTENTION)
        self.key = nn.Linear(2 * ENCODER, ATTENTION, bias=False)
        self.v = nn.Linear(ATTENTION, 1, bias=False)

    def forward(self, state, memory, mask):
        scores = self.v(torch.tanh(self.query(state).unsqueeze(1) + self.key(memory))).squeeze(-1)
        weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), -1)
        return (weights.unsqueeze(1) @ memory).squeeze(1), weights


class DecoderStep(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.embedding = nn.Embedding(words, EMBEDDING, padding_idx=PAD)
        self.attention = Attention()
        self.rnn = nn.GRU(EMBEDDING + 2 * ENCODER, DECODER, batch_first=True)
        self.output = nn.Linear(DECODER + 2 * ENCODER + EMBEDDING, words)

    def forward(self, token, state, memory, mask):
        embedded = self.embedding(token)
        context, weights = self.attention(state, memory, mask)
        out, new_state = self.rnn(torch.cat([embedded, context.unsqueeze(1)], -1), state.unsqueeze(0))
        logits = self.output(torch.cat([out.squeeze(1), context, embedded.squeeze(1)], -1))
        return logits, new_state.squeeze(0), weights


class Translator(nn.Module):
    """Teacher-forced training view: logits and attention weights of all target positions."""

    def __init__(self, words):
        super().__init__()
        self.encoder, self.step = Encoder(words), DecoderStep(words)

    def forward(self, source, target):
        mask = source != PAD
        memory, state = self.encoder(source, mask)
        logits, weights = [], []
        for t in range(target.shape[1]):
            step, state, w = self.step(target[:, t : t + 1], state, memory, mask)
            logits.append(step)
            weights.append(w)
        return torch.stack(logits, 1), torch.stack(weights, 1)
