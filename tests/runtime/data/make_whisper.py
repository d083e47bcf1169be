"""Writes whisper/: a small random Whisper model with windows of 2 s, and expected.json, what transformers transcribes with it.

usage: python make_whisper.py OUT        (needs torch, transformers 4.57, optimum and tokenizers)
"""
import json
import os
import sys

import numpy as np
import torch
from optimum.exporters.onnx import onnx_export_from_model
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

# 256 bytes, then the special tokens in Whisper's order, then times from 0.00 to 2.00.
SPECIAL = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|ja|>", "<|translate|>", "<|transcribe|>",
           "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
ID = {name: 256 + i for i, name in enumerate(SPECIAL)}
END, START = ID["<|endoftext|>"], ID["<|startoftranscript|>"]
TIMES = 101

RUNS = {
    "plain_en": dict(samples=20000, language="en", task="transcribe"),
    "detected": dict(samples=20000),
    "german_translated": dict(samples=20000, language="german", task="translate"),
    "beams": dict(samples=20000, language="de", num_beams=3),
    "timestamps": dict(samples=20000, language="en", return_timestamps=True),
    "timestamps_detected_beams": dict(samples=30000, return_timestamps=True, num_beams=4),
    "long": dict(samples=83000, language="ja", return_timestamps=True),
    "long_detected_beams": dict(samples=83000, return_timestamps=True, num_beams=3),
    "long_conditioned": dict(samples=83000, language="en", return_timestamps=True, condition_on_prev_tokens=True),
    "long_conditioned_limited": dict(samples=83000, language="en", task="translate", return_timestamps=True,
                                     condition_on_prev_tokens=True, max_new_tokens=9),
    "silences": dict(samples=83000, language="en", return_timestamps=True, temperature=0.0, logprob_threshold=0.0,
                     no_speech_threshold=0.001),
    "improbable": dict(samples=83000, language="en", return_timestamps=True, temperature=0.0, logprob_threshold=-0.75,
                       no_speech_threshold=1e-5),
    "improbable_beams": dict(samples=83000, language="en", return_timestamps=True, temperature=0.0, logprob_threshold=-0.75,
                             no_speech_threshold=1e-5, num_beams=2),
    "prompted": dict(samples=20000, language="en", prompt="Anna"),
    "prompted_timestamps_beams": dict(samples=30000, language="de", return_timestamps=True, num_beams=3, prompt=" Mr. Brown "),
    "long_prompted": dict(samples=83000, language="en", return_timestamps=True, prompt="Anna"),
    "long_prompted_conditioned": dict(samples=83000, language="en", return_timestamps=True, condition_on_prev_tokens=True, prompt="Karenina",
                                      max_new_tokens=12),
    "long_prompted_always": dict(samples=83000, language="en", return_timestamps=True, condition_on_prev_tokens=True, prompt="Anna",
                                 prompt_condition_type="all-segments", max_new_tokens=12),
}


def sound(samples):
    """As made_up_sound() of tests/support/sound.h."""
    t = np.arange(samples) / 16000
    x = 0.4 * np.sin(2 * np.pi * (200 * t + 1500 * t * t)) + 0.2 * np.sin(2 * np.pi * 3000 * t) * (t > 0.2)
    noise, state = [], 12345
    for _ in range(samples):
        state = (state * 1103515245 + 12345) % (1 << 31)
        noise.append(state / (1 << 31) - 0.5)
    return (x + 0.02 * np.array(noise)).astype(np.float32)


def make_config():
    return WhisperConfig(
        vocab_size=256 + len(SPECIAL) + TIMES, num_mel_bins=80, d_model=16, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, max_source_positions=100, max_target_positions=64,
        pad_token_id=END, bos_token_id=END, eos_token_id=END, decoder_start_token_id=START, init_std=0.6, median_filter_width=7,
        begin_suppress_tokens=[220, END], suppress_tokens=None)


def make_generation_config():
    config = GenerationConfig(bos_token_id=END, eos_token_id=END, pad_token_id=END, decoder_start_token_id=START, max_length=32,
                              begin_suppress_tokens=[220, END],
                              suppress_tokens=[10, 11, 12, START, ID["<|startofprev|>"], ID["<|nospeech|>"]])
    whisper = dict(is_multilingual=True, lang_to_id={n: ID[n] for n in ("<|en|>", "<|de|>", "<|ja|>")},
                   task_to_id={"translate": ID["<|translate|>"], "transcribe": ID["<|transcribe|>"]},
                   no_timestamps_token_id=ID["<|notimestamps|>"], max_initial_timestamp_index=20,
                   prev_sot_token_id=ID["<|startofprev|>"], return_timestamps=False, alignment_heads=[[0, 1], [1, 0], [1, 1]])
    for name, value in whisper.items():
        setattr(config, name, value)
    return config


def make_model():
    """Random weights, large enough for outputs that vary with the sound and the position."""
    torch.manual_seed(4)
    model = WhisperForConditionalGeneration._from_config(make_config(), attn_implementation="eager").eval()
    for name, p in model.named_parameters():
        if name.endswith("bias"):
            p.copy_(torch.randn_like(p) * 0.2)
        if "embed_positions" in name and "decoder" in name:
            p.copy_(torch.randn_like(p))
        if "conv" in name and name.endswith("weight"):
            p.copy_(torch.randn_like(p) * 0.3)
        if "encoder_attn" in name and ("q_proj.weight" in name or "k_proj.weight" in name):
            p.mul_(2.0)
        if "encoder_attn.v_proj.weight" in name or "encoder_attn.out_proj.weight" in name:
            p.mul_(1.5)
    model.generation_config = make_generation_config()
    return model


def make_tokenizer():
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in SPECIAL])
    return tokenizer


def transcribe(model, extractor, samples, prompt=None, **arguments):
    if prompt is not None:  # as WhisperTokenizer.get_prompt_ids()
        arguments["prompt_ids"] = torch.tensor([ID["<|startofprev|>"]] + make_tokenizer().encode(" " + prompt.strip()).ids)
    # Up to one window is filled with silence; longer sound is not.
    padding = {} if samples <= 32000 else dict(truncation=False, padding="longest")
    batch = extractor(sound(samples), sampling_rate=16000, return_tensors="pt", return_attention_mask=True, **padding)
    output = model.generate(batch.input_features, attention_mask=batch.attention_mask, return_segments=True,
                            return_token_timestamps=True, **arguments)
    return [dict(start=round(float(s["start"]), 4), end=round(float(s["end"]), 4), tokens=s["tokens"].tolist(),
                 token_timestamps=[round(float(t), 4) for t in s["token_timestamps"]]) for s in output["segments"][0]]


@torch.no_grad()
def main(out):
    os.makedirs(out, exist_ok=True)
    model = make_model()
    extractor = WhisperFeatureExtractor(feature_size=80, chunk_length=2)
    expected = {}
    for name, run in RUNS.items():
        arguments = {k: v for k, v in run.items() if k != "samples"}
        expected[name] = dict(samples=run["samples"], args=arguments, segments=transcribe(model, extractor, **run))
    with open(f"{out}/expected.json", "w") as f:
        json.dump(expected, f)
    extractor.save_pretrained(out)
    make_tokenizer().save(f"{out}/tokenizer.json")
    exported = WhisperForConditionalGeneration._from_config(make_config(), attn_implementation="sdpa").eval()
    exported.load_state_dict(model.state_dict())
    exported.generation_config = model.generation_config
    onnx_export_from_model(exported, out, opset=17, task="automatic-speech-recognition-with-past", do_validation=False,
                           use_subprocess=False, nb_max_frames=200)
    for name in ("decoder_model.onnx", "decoder_with_past_model.onnx"):  # the merged decoder is enough
        os.remove(f"{out}/{name}")


main(sys.argv[1])
