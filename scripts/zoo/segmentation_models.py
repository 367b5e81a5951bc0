"""Networks of segmentation_models_pytorch."""
import segmentation_models_pytorch as smp

from .parts import R


def networks():
    common = dict(encoder_name="resnet18", encoder_weights=None, classes=3)
    for name in ("UnetPlusPlus", "Linknet", "PSPNet", "MAnet", "PAN", "FPN"):
        yield "smp_" + name.lower(), lambda kind=getattr(smp, name): kind(**common), (R(1, 3, 128, 128) if name == "PAN" else R(1, 3, 64, 64),)
