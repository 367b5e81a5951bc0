"""Networks with random weights that scripts/networks.py exports and measures, in the structure of their originals.

Each module lists a kind: `networks()` gives name, maker, and example inputs of each network. backbones, images, language, audio and data
are written in plain PyTorch; the others take their networks from the library that their name has.
"""
import importlib

KINDS = ["backbones", "images", "language", "audio", "data", "timm_models", "torchvision_models", "torchaudio_models",
         "segmentation_models", "diffusers_models", "transformers_text", "transformers_others"]


def networks():
    """Library, name, maker and inputs of each network; those of a library that is not installed are left out with a message."""
    names = set()
    for kind in KINDS:
        library = kind.split("_")[0] if "_" in kind else "PyTorch"
        try:
            module = importlib.import_module(f"zoo.{kind}")
        except ImportError as error:
            print(f"{kind}: {error}", flush=True)
            continue
        for name, make, inputs in module.networks():
            assert name not in names, f"two networks are called {name}"
            names.add(name)
            yield library, name, make, inputs
