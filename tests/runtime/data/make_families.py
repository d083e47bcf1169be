"""Writes families/NAME/: small random models of encoder-decoder families, and generate.json, what transformers generates from them
under many rules.

usage: python make_families.py OUT        (needs torch, transformers 4.57 and optimum)
"""
import json
import os
import sys
import types

import numpy as np
import torch
from optimum.exporters.onnx import onnx_export_from_model
from transformers import (MoonshineConfig, MoonshineForConditionalGeneration, PegasusConfig, PegasusForConditionalGeneration, Pix2StructConfig,
                          Pix2StructForConditionalGeneration, Pix2StructImageProcessor, Speech2TextConfig, Speech2TextForConditionalGeneration)

VOCABULARY, NEW_TOKENS, BANDS, PATCH, PATCHES = 96, 14, 16, 4, 12

RUNS = {
    "greedy": {}, "no_repeat_ngram": dict(no_repeat_ngram_size=2), "repetition": dict(repetition_penalty=1.4), "min_new": dict(min_new_tokens=9),
    "beam": dict(num_beams=4), "beam_early": dict(num_beams=4, early_stopping=True, num_return_sequences=3),
    "beam_never": dict(num_beams=3, early_stopping="never", length_penalty=1.7), "beam_negative": dict(num_beams=3, length_penalty=-0.5),
    "bad_words": dict(bad_words_ids=[[5], [7, 8], [11, 12, 13]], num_beams=2),
    "forced": dict(forced_bos_token_id=17, forced_eos_token_id=2, num_beams=2),
    "suppressed": dict(suppress_tokens=[3, 9, 27, 30, 41], begin_suppress_tokens=[4, 5, 50]),
    "forced_and_suppressed": dict(forced_bos_token_id=17, begin_suppress_tokens=[4, 5, 50]),
    "bias": dict(sequence_bias=[[[6], 2.5], [[8, 9], -3.0], [[20], 1.5]], num_beams=2),
    "encoder_repetition": dict(encoder_repetition_penalty=1.5), "encoder_ngram": dict(encoder_no_repeat_ngram_size=1, num_beams=2),
    "decay": dict(exponential_decay_length_penalty=(4, 1.3), num_beams=2),
    "renormalized": dict(num_beams=3, suppress_tokens=[3, 9], renormalize_logits=True), "min_length": dict(min_length=8, num_beams=2),
    "several_ends": dict(eos_token_id=[1, 2, 33], num_beams=3, pad_token_id=0), "all_beams": dict(num_beams=5, num_return_sequences=5),
}


def sizes(**more):
    return dict(vocab_size=VOCABULARY, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
                encoder_ffn_dim=48, decoder_ffn_dim=48, init_std=0.4, dropout=0.0, attention_dropout=0.0, activation_dropout=0.0, **more)


def pegasus():
    config = PegasusConfig(**sizes(max_position_embeddings=64, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, forced_eos_token_id=1))
    return PegasusForConditionalGeneration(config), "text2text-generation-with-past"


def speech2text():
    config = Speech2TextConfig(**sizes(max_source_positions=120, max_target_positions=64, input_feat_per_channel=BANDS, conv_channels=24,
                                       pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2))
    return Speech2TextForConditionalGeneration(config), "automatic-speech-recognition-with-past"


def pix2struct():
    text = dict(vocab_size=VOCABULARY, hidden_size=32, d_kv=16, d_ff=48, num_layers=2, num_heads=2, initializer_factor=2.0, dropout_rate=0.0,
                decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)
    vision = dict(hidden_size=32, patch_embed_hidden_size=PATCH * PATCH * 3, d_ff=48, d_kv=16, num_hidden_layers=2, num_attention_heads=2,
                  seq_len=40, initializer_range=0.4, dropout_rate=0.0, attention_dropout=0.0)
    model = Pix2StructForConditionalGeneration(Pix2StructConfig(text_config=text, vision_config=vision))
    model.generation_config.update(decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)
    return model, "image-to-text-with-past"


def moonshine():
    config = MoonshineConfig(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, encoder_num_hidden_layers=2,
                             decoder_num_hidden_layers=2, encoder_num_attention_heads=2, decoder_num_attention_heads=2,
                             max_position_embeddings=64, initializer_range=0.4, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                             decoder_start_token_id=1)
    return MoonshineForConditionalGeneration(config), "automatic-speech-recognition-with-past"


def inputs_of(name, case, random, pad):
    """One source, then three of different lengths."""
    rows = 1 + 2 * case
    if name == "moonshine":  # no mask is given: all of each sound is heard
        return {"input_values": random.standard_normal((rows, 4000)).astype(np.float32)}
    if name == "pix2struct":
        length, step = PATCHES, 4
        patches = random.standard_normal((rows, length, 2 + PATCH * PATCH * 3)).astype(np.float32)
        patches[:, :, 0], patches[:, :, 1] = np.arange(length) // 4 + 1, np.arange(length) % 4 + 1
        values, filler = {"flattened_patches": patches}, 0
    elif name == "speech2text":
        length, step = 40 + 11 * case, 9
        values = {"input_features": random.standard_normal((rows, length, BANDS)).astype(np.float32)}
        filler = 0
    else:
        length, step = 9 + 3 * case, 2
        values = {"input_ids": random.integers(2, VOCABULARY, (rows, length))}
        filler = pad
    mask = np.ones((rows, length), np.int64)
    for row in range(1, rows):
        mask[row, length - row * step :] = 0
        for v in values.values():
            v[row, length - row * step :] = filler
    return values | {"attention_mask": mask}


def run(model, inputs, arguments):
    beams = arguments.get("num_beams", 1) > 1
    output = model.generate(**{k: torch.from_numpy(v) for k, v in inputs.items()}, max_new_tokens=NEW_TOKENS, do_sample=False,
                            return_dict_in_generate=True, output_scores=True, **arguments)
    result = {"args": arguments, "sequences": output.sequences.tolist()}
    if beams:
        result["sequences_scores"] = output.sequences_scores.tolist()
    else:
        best = [s.topk(2).values for s in output.scores]
        result["min_top1_top2_gap"] = min(float((b[..., 0] - b[..., 1]).min()) for b in best)
    return result


@torch.no_grad()
def main(out):
    for make in (pegasus, speech2text, pix2struct, moonshine):
        name = make.__name__
        torch.manual_seed(11)
        model, task = make()
        model.eval()
        torch.manual_seed(2)
        for parameter, value in model.named_parameters():
            if parameter.endswith("bias"):
                value.add_(torch.randn(value.shape) * 0.1)
        random, folder, cases = np.random.default_rng(3), f"{out}/families/{name}", []
        os.makedirs(folder, exist_ok=True)
        for case in range(2):
            inputs = inputs_of(name, case, random, model.config.pad_token_id)
            np.savez(f"{folder}/generate_inputs_{case}.npz", **inputs)
            runs = {}
            for setting, arguments in RUNS.items():
                # Rules of the source's tokens: transformers counts padding among them.
                if setting.startswith("encoder_") and (case > 0 or make is not pegasus):
                    continue
                runs[setting] = run(model, inputs, arguments)
            cases.append({"inputs_npz": f"generate_inputs_{case}.npz", "runs": runs})
        with open(f"{folder}/generate.json", "w") as f:
            json.dump({"family": name, "max_new_tokens": NEW_TOKENS, "cases": cases}, f)
        # Pix2Struct's export asks the processor for the number of patches.
        processor = Pix2StructImageProcessor(patch_size={"height": PATCH, "width": PATCH}, max_patches=PATCHES)
        holder = types.SimpleNamespace(image_processor=processor, save_pretrained=lambda *_, **__: None)
        onnx_export_from_model(model, folder, opset=17, task=task, do_validation=False, use_subprocess=False,
                               preprocessors=[processor, holder] if make is pix2struct else None)
        for file in ("decoder_model.onnx", "decoder_with_past_model.onnx"):  # the merged decoder is enough
            os.remove(f"{folder}/{file}")


main(sys.argv[1])
