"""Writes images/ and images.npz: pictures, and what Pillow and transformers make of them.

usage: python make_images.py OUT        (needs numpy, Pillow and transformers 4.57)
"""
import json
import os
import sys

import numpy as np
import transformers
from PIL import Image


def picture(width, height):
    """Colour gradients, a few edges and noise."""
    y, x = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(5).integers(0, 60, (height, width, 3))
    rgb = np.stack([x * 195 // width, y * 195 // height, (x * y) % 195], axis=-1) + noise
    rgb[height // 3 : height // 2, width // 4 : width // 2] = (255, 0, 20)
    return Image.fromarray(rgb.astype(np.uint8))


def main(out):
    os.makedirs(f"{out}/images", exist_ok=True)
    rgb = picture(37, 23)
    arrays = {"picture": np.asarray(rgb)}
    alpha = rgb.convert("RGBA")
    alpha.putalpha(Image.fromarray(np.arange(23 * 37, dtype=np.uint8).reshape(23, 37)))
    files = {
        "rgb.png": (rgb, {}), "alpha.png": (alpha, {}), "grey.png": (rgb.convert("L"), {}),
        "grey_alpha.png": (rgb.convert("LA"), {}), "palette.png": (rgb.quantize(30), {}),
        "bits.png": (rgb.convert("1"), {}), "palette_transparent.png": (rgb.quantize(7), {"transparency": 3}),
        "rgb.jpg": (rgb, {"quality": 80}), "grey.jpg": (rgb.convert("L"), {}),
        "full.jpg": (rgb, {"quality": 95, "subsampling": 0}), "progressive.jpg": (rgb, {"progressive": True}),
    }
    for name, (image, arguments) in files.items():
        path = f"{out}/images/{name}"
        image.save(path, **arguments)
        arrays[f"file {name}"] = np.asarray(Image.open(path).convert("RGB"))
    for filter in range(6):
        for size in ((12, 9), (60, 70), (37, 11), (50, 23)):
            arrays[f"resize {filter} {size[0]}x{size[1]}"] = np.asarray(rgb.resize(size, filter))
    for size, gap in (((12, 9), 1.5), ((5, 4), 2.0), ((9, 3), 1.0), ((37, 5), 2.0), ((20, 12), 2.0)):
        for filter in (Image.NEAREST, Image.BILINEAR, Image.BICUBIC, Image.LANCZOS):
            arrays[f"reduce {int(filter)} {size[0]}x{size[1]} {gap}"] = np.asarray(rgb.resize(size, filter, reducing_gap=gap))
    configurations = [
        {"feature_extractor_type": "ViTFeatureExtractor", "size": 24, "resample": 2},
        {"image_processor_type": "ViTImageProcessor", "size": {"height": 16, "width": 32}, "resample": 3, "image_mean": [0.1, 0.2, 0.3]},
        {"image_processor_type": "ViTImageProcessor", "do_resize": False, "do_normalize": False},
        {"image_processor_type": "ViTImageProcessor", "do_rescale": False, "size": 8, "do_center_crop": True},
        {"image_processor_type": "DeiTImageProcessor", "size": 26, "crop_size": 21, "resample": 3},
        {"image_processor_type": "DeiTImageProcessor", "size": 20, "do_center_crop": False, "image_std": [0.2, 0.3, 0.4]},
        {"image_processor_type": "CLIPImageProcessor", "size": 19, "crop_size": 15},
        {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 16}, "crop_size": {"height": 20, "width": 18}},
        {"image_processor_type": "BlipImageProcessor", "size": {"height": 20, "width": 20}},
        {"image_processor_type": "BeitImageProcessor", "size": 22, "crop_size": 16, "rescale_factor": 0.01, "do_reduce_labels": True},
        {"image_processor_type": "ViTImageProcessor", "size": {"height": 30, "width": 14}, "resample": 0},
        {"image_processor_type": "ViTImageProcessor", "size": 9, "resample": 1, "do_pad": True},
        {"image_processor_type": "DeiTImageProcessor", "size": {"height": 9, "width": 12}, "crop_size": {"height": 14, "width": 8}, "do_resize": False},
        {"image_processor_type": "CLIPImageProcessor", "size": {"height": 12, "width": 20}, "do_center_crop": False, "do_convert_rgb": True},
        {"image_processor_type": "BlipImageProcessor", "size": 18, "resample": 2, "image_mean": [0, 0, 0], "image_std": [1, 1, 1]},
        {"feature_extractor_type": "DonutFeatureExtractor", "size": [24, 32]},
        {"image_processor_type": "DonutImageProcessor", "size": {"height": 32, "width": 24}, "do_align_long_axis": True},
        {"image_processor_type": "DonutImageProcessor", "size": {"height": 12, "width": 20}, "do_align_long_axis": True, "resample": 3},
        {"image_processor_type": "DonutImageProcessor", "size": {"height": 11, "width": 11}, "do_resize": False},
        {"image_processor_type": "DonutImageProcessor", "size": {"height": 9, "width": 6}, "do_resize": False, "do_align_long_axis": True},
        {"image_processor_type": "DonutImageProcessor", "size": {"height": 41, "width": 45}, "do_resize": False, "do_thumbnail": False},
        {"image_processor_type": "DonutImageProcessor", "size": {"height": 20, "width": 20}, "do_pad": False, "do_normalize": False},
        {"image_processor_type": "Pix2StructImageProcessor", "patch_size": {"height": 6, "width": 4}, "max_patches": 12},
        {"image_processor_type": "Pix2StructImageProcessor", "patch_size": {"height": 4, "width": 4}, "max_patches": 90},
        {"image_processor_type": "Pix2StructImageProcessor", "patch_size": {"height": 16, "width": 16}, "max_patches": 2},
        {"image_processor_type": "Pix2StructImageProcessor", "patch_size": {"height": 5, "width": 7}, "max_patches": 7},
    ]
    for c in configurations:
        kind = c.get("image_processor_type", c.get("feature_extractor_type")).replace("FeatureExtractor", "ImageProcessor")
        outputs = getattr(transformers, kind).from_dict(c)(rgb, return_tensors="np")
        for name in ("pixel_values", "flattened_patches", "attention_mask"):
            if name in outputs:
                arrays[f"process {name} {json.dumps(c)}"] = outputs[name].astype(np.float32)
    # Plain pictures have no deviation.
    plain = Image.new("RGB", (10, 10), (9, 9, 9))
    arrays["plain"] = transformers.Pix2StructImageProcessor(patch_size={"height": 2, "width": 2}, max_patches=6)(plain, return_tensors="np").flattened_patches
    # What the program's test gives to trocr/.
    arrays["trocr"] = transformers.ViTImageProcessor(size={"height": 32, "width": 32})(rgb, return_tensors="np").pixel_values
    np.savez_compressed(f"{out}/images.npz", **arrays)


main(sys.argv[1])
