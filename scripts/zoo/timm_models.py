"""Networks of timm."""
import timm

from .parts import img


# Side of the image that each network takes whole.
SIZES = {
    "botnet26t_256": 256, "caformer_s18": 64, "coat_tiny": 64, "coatnet_nano_rw_224": 224, "cspdarknet53": 64, "cspnext_tiny": 64,
    "dla46_c": 96, "dpn48b": 64, "eca_nfnet_l0": 64, "ecaresnet26t": 64, "edgenext_xx_small": 64, "efficientformer_l1": 224,
    "efficientvim_m1": 128, "efficientvit_b0": 64, "efficientvit_m0": 224, "ese_vovnet19b_slim_dw": 96, "fastvit_t8": 64,
    "focalnet_tiny_srf": 96, "gcresnet33ts": 64, "gernet_s": 64, "ghostnetv2_100": 96, "halonet26t": 256, "hardcorenas_a": 64,
    "hgnetv2_b0": 64, "inception_next_atto": 64, "inception_v4": 128, "lambda_resnet26t": 64, "lcnet_050": 96, "lcnetv2_small": 64,
    "levit_128s": 224, "mambaout_femto": 64, "mixnet_s": 96, "mobilenetv4_conv_small": 96, "mobilevitv2_050": 64, "nf_regnet_b0": 64,
    "pit_ti_224": 224, "poolformerv2_s12": 64, "pvt_v2_b0": 64, "rdnet_tiny": 64, "repghostnet_050": 64, "repvgg_a0": 64,
    "repvit_m0_9": 64, "res2net50_14w_8s": 64, "resmlp_12_224": 224, "resnest14d": 64, "resnetv2_50": 64, "rexnet_100": 64,
    "selecsls42": 96, "shvit_s1": 128, "skresnet18": 64, "starnet_s1": 64, "swiftformer_xs": 64, "tinynet_e": 64, "tresnet_m": 64,
    "visformer_tiny": 224, "xception41": 96,
}


def make(name, **more):
    return lambda: timm.create_model(name, pretrained=False, num_classes=10, **more)


def networks():
    for name, size in SIZES.items():
        yield name, make(name, **(dict(img_size=size) if name == "coat_tiny" else {})), img(size)
    yield "cait_xxs24", make("cait_xxs24_224", img_size=64, depth=4), img(64)
    yield "xcit_nano", make("xcit_nano_12_p16_224", img_size=64, depth=4), img(64)
    yield "maxvit_rmlp_pico", make("maxvit_rmlp_pico_rw_256", img_size=128), img(128)
    yield "beit", make("beit_base_patch16_224", img_size=64, depth=3, embed_dim=96, num_heads=4), img(64)
    yield "eva02_tiny", make("eva02_tiny_patch14_224", img_size=70, depth=3), img(70)
    yield "swinv2_tiny", make("swinv2_tiny_window8_256", img_size=128), img(128)
    yield "davit", make("davit_tiny", depths=(1, 1, 1, 1), embed_dims=(32, 64, 128, 256), num_heads=(1, 2, 4, 8)), img(224)
    yield "twins_svt", make("twins_svt_small", img_size=224, depths=(1, 1, 1, 1)), img(224)
    yield "crossvit", make("crossvit_tiny_240", depth=([1, 1, 0], [1, 1, 0], [1, 1, 0])), img(240)
    yield "tnt", make("tnt_s_patch16_224", img_size=64, depth=2), img(64)
    yield "sequencer2d", make("sequencer2d_s", layers=(1, 1, 1, 1), embed_dims=(32, 64, 64, 64), hidden_sizes=(8, 16, 16, 16)), img(56)
    yield "hiera_timm", make("hiera_tiny_224", stages=(1, 1, 1, 1), embed_dim=32), img(224)
    yield "samvit", make("samvit_base_patch16", img_size=128, depth=2, embed_dim=64, num_heads=4, global_attn_indexes=(1,), window_size=6), img(128)
    yield "vit_relpos", make("vit_relpos_base_patch16_224", img_size=64, depth=2, embed_dim=64, num_heads=4), img(64)
    yield "swinv2_cr", make("swinv2_cr_tiny_224", img_size=64, window_size=2, depths=(1, 1, 1, 1), embed_dim=32, num_heads=(1, 2, 4, 8)), img(64)
    yield "sam2_hiera", make("sam2_hiera_tiny", stages=(1, 1, 1, 1), embed_dim=32), img(128)
    yield "gcvit", make("gcvit_xxtiny"), img(224)
    yield "convit", make("convit_tiny", img_size=64, depth=4, local_up_to_layer=3), img(64)
    yield "mvitv2", make("mvitv2_tiny", img_size=64), img(64)
    yield "nextvit", make("nextvit_small"), img(64)
    yield "efficientnetv2", make("tf_efficientnetv2_b0"), img(64)
