#!/usr/bin/env python3
"""Networks of public libraries (timm, transformers, torchvision, torchaudio) with random weights, exported as users export them.

    python3 -m venv v && v/bin/pip install torch==2.7.0 torchvision==0.22.0 torchaudio==2.7.0 coremltools==9.0 "numpy<2.4" \\
        onnx onnxscript timm "transformers<5" diffusers segmentation-models-pytorch
    v/bin/python scripts/popular.py export FOLDER [NAME ...]
    python3 scripts/popular.py measure FOLDER [--ane target/quick/ane] [--write docs/data/NAME.tsv] [NAME ...]

`export` writes what networks.py writes, and `dynamo.onnx`, by the newer exporter. `measure` writes a table of docs/networks.md; with
`--times`, times of the ONNX form too: the steps of the engine's plan, and ONNX Runtime with its defaults, each the least of five runs.
"""
import json
import os
import re
import sys
import time
import warnings

warnings.filterwarnings("ignore")


def networks():
    """Name, maker and inputs of each network."""
    import torch

    class Output(torch.nn.Module):
        """Part of a model's result, chosen by a function."""

        def __init__(self, model, run):
            super().__init__()
            self.model, self.run = model, run

        def forward(self, *inputs):
            return self.run(self.model, *inputs)

    def image(size, channels=3):
        return (torch.randn(1, channels, size, size),)

    def tokens(count, vocabulary=99):
        return (torch.randint(2, vocabulary, (1, count)),)

    yield from language(Output, tokens)
    yield from others(Output, image, tokens)
    yield from vision(image)
    from further import further
    from newer import newer
    from rarer import rarer
    from wider import wider
    yield from further()
    yield from wider()
    yield from rarer()
    yield from newer()


def vision(image):
    import timm

    def make(name, **more):
        return lambda: timm.create_model(name, pretrained=False, num_classes=10, **more)

    sizes = {
        "ghostnetv2_100": 96, "dla46_c": 96, "res2net50_14w_8s": 64, "resnest14d": 64, "skresnet18": 64, "ese_vovnet19b_slim_dw": 96,
        "repvgg_a0": 64, "poolformerv2_s12": 64, "pvt_v2_b0": 64, "edgenext_xx_small": 64, "fastvit_t8": 64, "mambaout_femto": 64,
        "mobilenetv4_conv_small": 96, "repvit_m0_9": 64, "lcnet_050": 96, "selecsls42": 96, "mixnet_s": 96, "lambda_resnet26t": 64,
        "starnet_s1": 64, "inception_next_atto": 64, "botnet26t_256": 128, "halonet26t": 128, "ecaresnet26t": 64, "caformer_s18": 64,
    }
    for name, size in sizes.items():
        yield name, make(name), image(size)
    fixed = {
        "levit_128s": 224, "efficientformer_l1": 224, "coatnet_nano_rw_224": 224, "visformer_tiny": 224, "pit_ti_224": 224,
        "efficientvit_m0": 224, "resmlp_12_224": 224,
    }
    for name, size in fixed.items():
        yield name, make(name), image(size)
    yield "cait_xxs24", make("cait_xxs24_224", img_size=64, depth=4), image(64)
    yield "xcit_nano", make("xcit_nano_12_p16_224", img_size=64, depth=4), image(64)
    yield "maxvit_rmlp_pico", make("maxvit_rmlp_pico_rw_256", img_size=128), image(128)
    yield "beit", make("beit_base_patch16_224", img_size=64, depth=3, embed_dim=96, num_heads=4), image(64)
    yield "eva02_tiny", make("eva02_tiny_patch14_224", img_size=70, depth=3), image(70)
    yield "swinv2_tiny", make("swinv2_tiny_window8_256", img_size=128), image(128)


def language(Output, tokens):
    import torch
    import transformers as t

    small = dict(vocab_size=99, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
    eager = dict(attn_implementation="eager")

    def first(model, *inputs):
        return model(*inputs, return_dict=False)[0]

    def later(count):
        """A mask as an argument: what the models make of none cannot be traced."""
        return torch.full((1, 1, count, count), -1e4).triu(1)

    def causal(model, ids):
        return model(input_ids=ids, attention_mask=later(ids.shape[1]), use_cache=False, return_dict=False)[0]

    def both(model, ids, decoded):
        return model(input_ids=ids, decoder_input_ids=decoded, decoder_attention_mask=later(decoded.shape[1]), use_cache=False, return_dict=False)[0]

    def make(kind, config, run=first):
        return lambda: Output(kind._from_config(config, **eager) if hasattr(kind, "_from_config") else kind(config), run)

    for name in ("Bert", "Roberta", "Electra", "ConvBert", "MPNet", "RoFormer", "Nystromformer", "MobileBert"):
        config = getattr(t, name + "Config")(**small, **({"embedding_size": 64} if name in ("Electra", "RoFormer") else {}))
        yield name.lower(), make(getattr(t, name + "Model"), config), tokens(16)
    yield "albert", make(t.AlbertModel, t.AlbertConfig(**small, embedding_size=32)), tokens(16)
    yield "deberta_v2", make(t.DebertaV2Model, t.DebertaV2Config(**small, relative_attention=True, pos_att_type=["c2p", "p2c"],
                                                                 position_buckets=16)), tokens(16)
    yield "modernbert", make(t.ModernBertModel, t.ModernBertConfig(**small, pad_token_id=0, reference_compile=False)), tokens(16)
    yield "fnet_hf", make(t.FNetModel, t.FNetConfig(vocab_size=99, hidden_size=64, num_hidden_layers=2, intermediate_size=128)), tokens(16)
    grouped = dict(small, num_key_value_heads=2, max_position_embeddings=64)
    for name, config in (("Qwen2", grouped), ("Qwen3", dict(grouped, head_dim=16)), ("Gemma", dict(grouped, head_dim=16)),
                         ("Gemma2", dict(grouped, head_dim=16)), ("Phi", grouped), ("Phi3", dict(grouped, pad_token_id=0)),
                         ("Mistral", grouped), ("Granite", grouped), ("Olmo2", grouped), ("StableLm", grouped), ("Cohere", grouped),
                         ("SmolLM3", dict(grouped, pad_token_id=0)), ("Mixtral", dict(grouped, num_local_experts=4)), ("GPTNeoX", small)):
        if hasattr(t, name + "Config"):
            yield name.lower(), make(getattr(t, name + "ForCausalLM"), getattr(t, name + "Config")(**config), causal), tokens(16)
    yield "opt", make(t.OPTForCausalLM, t.OPTConfig(vocab_size=99, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, ffn_dim=128,
                                                    word_embed_proj_dim=64, max_position_embeddings=64), causal), tokens(16)
    yield "bloom", make(t.BloomForCausalLM, t.BloomConfig(vocab_size=99, hidden_size=64, n_layer=2, n_head=4), causal), tokens(16)
    yield "falcon", make(t.FalconForCausalLM, t.FalconConfig(vocab_size=99, hidden_size=64, num_hidden_layers=2, num_attention_heads=4),
                         causal), tokens(16)
    yield "mamba_hf", make(t.MambaForCausalLM, t.MambaConfig(vocab_size=99, hidden_size=32, num_hidden_layers=1, state_size=4), causal), tokens(6)
    t5 = t.T5Config(vocab_size=99, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4)
    yield "t5_encoder", make(t.T5EncoderModel, t5), tokens(16)
    yield "t5_full", make(t.T5Model, t5, both), tokens(16) + tokens(8)
    bart = dict(vocab_size=99, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                encoder_ffn_dim=128, decoder_ffn_dim=128, max_position_embeddings=64)
    for name in ("Bart", "Marian", "Pegasus"):
        yield name.lower(), make(getattr(t, name + "Model"), getattr(t, name + "Config")(**bart, pad_token_id=0, decoder_start_token_id=2), both), tokens(16) + tokens(8)


def others(Output, image, tokens):
    import torch
    import torchaudio
    import torchvision
    import transformers as t

    eager = dict(attn_implementation="eager")

    def first(model, *inputs):
        return model(*inputs, return_dict=False)[0]

    def make(kind, config, run=first):
        return lambda: Output(kind._from_config(config, **eager), run)

    size = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
    speech = dict(size, conv_dim=(32, 32, 32), conv_kernel=(10, 3, 3), conv_stride=(5, 2, 2), num_feat_extract_layers=3,
                  num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4)
    for name in ("Wav2Vec2", "Hubert", "WavLM", "SEW", "Data2VecAudio"):
        config = getattr(t, name + "Config")(**speech)
        yield name.lower() + "_hf", make(getattr(t, name + "Model"), config), (torch.randn(1, 1600),)
    yield "clap_audio", make(t.ClapAudioModel, t.ClapAudioConfig(spec_size=64, num_mel_bins=16, patch_embeds_hidden_size=32, hidden_size=64, depths=[1, 1],
                                                                 num_attention_heads=[2, 4], window_size=4, num_hidden_layers=2)), (torch.randn(1, 1, 64, 16),)
    yield "segformer", make(t.SegformerForSemanticSegmentation, t.SegformerConfig(depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 48, 64],
                                                                                  decoder_hidden_size=32)), image(64)
    yield "detr_hf", make(t.DetrForObjectDetection, t.DetrConfig(d_model=64, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=128, decoder_ffn_dim=128,
                          encoder_attention_heads=4, decoder_attention_heads=4, num_queries=10, use_pretrained_backbone=False,
                          backbone="resnet18", use_timm_backbone=True)), image(96)
    yield "yolos", make(t.YolosForObjectDetection, t.YolosConfig(**size, image_size=[64, 64], num_detection_tokens=5)), image(64)
    yield "dpt", make(t.DPTForDepthEstimation, t.DPTConfig(**size, image_size=64, backbone_out_indices=[0, 1, 1, 1], fusion_hidden_size=32,
                                                          neck_hidden_sizes=[16, 32, 48, 64])), image(64)
    yield "depth_anything", make(t.DepthAnythingForDepthEstimation, t.DepthAnythingConfig(backbone_config=t.Dinov2Config(
        hidden_size=64, num_hidden_layers=4, num_attention_heads=4, image_size=56, patch_size=14, out_indices=[1, 2, 3, 4], reshape_hidden_states=False,
        apply_layernorm=True), fusion_hidden_size=32, neck_hidden_sizes=[16, 32, 48, 64], reassemble_hidden_size=64, patch_size=14)), image(56)
    yield "mask2former", make(t.Mask2FormerForUniversalSegmentation, t.Mask2FormerConfig(
        feature_size=32, mask_feature_size=32, hidden_dim=32, encoder_feedforward_dim=64, encoder_layers=1, decoder_layers=2, num_attention_heads=4,
        dim_feedforward=64, num_queries=8, backbone_config=t.SwinConfig(image_size=64, embed_dim=16, depths=[1, 1, 1, 1], num_heads=[1, 2, 4, 4],
                                                                      window_size=4, out_features=["stage1", "stage2", "stage3", "stage4"]))), image(64)
    yield "vit_mae", make(t.ViTModel, t.ViTConfig(**size, image_size=64)), image(64)
    yield "siglip_vision", make(t.SiglipVisionModel, t.SiglipVisionConfig(**size, image_size=64)), image(64)
    yield "whisper_hf", make(t.WhisperModel, t.WhisperConfig(vocab_size=99, d_model=64, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
                             decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, max_source_positions=50, max_target_positions=32,
                             num_mel_bins=20, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1),
                             lambda m, f, d: m(input_features=f, decoder_input_ids=d, decoder_attention_mask=torch.full((1, 1, 8, 8), -1e4).triu(1),
                                               use_cache=False, return_dict=False)[0]), (torch.randn(1, 20, 100),) + tokens(8)
    yield "encodec_decoder", lambda: Output(t.EncodecModel(t.EncodecConfig(num_filters=8, upsampling_ratios=[4, 2, 2], codebook_size=64, hidden_size=32,
                                            codebook_dim=32)).decoder, lambda m, x: m(x)), (torch.randn(1, 32, 12),)
    yield "musicgen_decoder", make(t.MusicgenForCausalLM, t.MusicgenDecoderConfig(vocab_size=64, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                                   ffn_dim=128, max_position_embeddings=64, num_codebooks=2, pad_token_id=64),
                                   lambda m, i: m(input_ids=i, use_cache=False, return_dict=False)[0]), (torch.randint(0, 64, (2, 12)),)
    vits = t.VitsConfig(vocab_size=40, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, ffn_dim=64, flow_size=32, spectrogram_bins=65,
                        upsample_initial_channel=32)
    yield "vits_generator", lambda: Output(t.VitsModel(vits).decoder, lambda m, x: m(x)), (torch.randn(1, 32, 10),)
    yield "timesformer", make(t.TimesformerModel, t.TimesformerConfig(**size, image_size=32, num_frames=4)), (torch.randn(1, 4, 3, 32, 32),)
    yield "videomae", make(t.VideoMAEModel, t.VideoMAEConfig(**size, image_size=32, num_frames=4)), (torch.randn(1, 4, 3, 32, 32),)
    yield "patchtst", make(t.PatchTSTModel, t.PatchTSTConfig(num_input_channels=3, context_length=64, patch_length=8, patch_stride=8, d_model=32,
                           num_hidden_layers=2, num_attention_heads=4, ffn_dim=64)), (torch.randn(1, 64, 3),)
    yield "superpoint_like", make(t.Swin2SRModel, t.Swin2SRConfig(image_size=32, embed_dim=24, depths=[2], num_heads=[2], window_size=4)), image(32)
    vision = torchvision.models
    yield "raft_small", lambda: Output(vision.optical_flow.raft_small(weights=None), lambda m, a, b: m(a, b, num_flow_updates=2)[-1]), \
        (torch.randn(1, 3, 128, 128), torch.randn(1, 3, 128, 128))
    head = lambda m, x: m.head(list(m.backbone(x).values()))["cls_logits"]
    yield "retinanet", lambda: Output(vision.detection.retinanet_resnet50_fpn(weights=None, weights_backbone=None, num_classes=5), head), image(64)
    yield "fcos", lambda: Output(vision.detection.fcos_resnet50_fpn(weights=None, weights_backbone=None, num_classes=5), head), image(64)
    yield "ssdlite", lambda: Output(vision.detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5), head), image(160)
    yield "keypoint_head", lambda: Output(vision.detection.keypointrcnn_resnet50_fpn(weights=None, weights_backbone=None).roi_heads,
                                          lambda m, x: m.keypoint_predictor(m.keypoint_head(x))), (torch.randn(1, 256, 14, 14),)
    yield "lraspp", lambda: Output(vision.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None), lambda m, x: m(x)["out"]), image(96)
    yield "googlenet", lambda: vision.googlenet(weights=None, aux_logits=False, init_weights=False), image(64)
    yield "mc3", lambda: vision.video.mc3_18(weights=None), (torch.randn(1, 3, 4, 32, 32),)
    yield "s3d", lambda: vision.video.s3d(weights=None), (torch.randn(1, 3, 16, 64, 64),)
    yield "mvit_v1", lambda: vision.video.mvit_v1_b(weights=None), (torch.randn(1, 3, 16, 224, 224),)
    audio = torchaudio.models
    yield "conv_tasnet", lambda: audio.ConvTasNet(enc_num_feats=32, msk_num_feats=16, msk_num_hidden_feats=32, msk_num_layers=3, msk_num_stacks=2), (torch.randn(1, 1, 400),)
    yield "deepspeech", lambda: audio.DeepSpeech(n_feature=20, n_hidden=64), (torch.randn(1, 1, 12, 20),)
    yield "wavernn", lambda: audio.WaveRNN([2, 2, 4], n_classes=32, hop_length=16, n_res_block=2, n_rnn=32, n_fc=32, kernel_size=3, n_freq=20, n_hidden=16, n_output=16), \
        (torch.randn(1, 1, 32), torch.randn(1, 1, 20, 4))
    yield "hdemucs", lambda: audio.HDemucs(["a", "b"], nfft=256, depth=3, channels=8), (torch.randn(1, 2, 2048),)
    yield "wav2letter", lambda: audio.Wav2Letter(num_classes=20, input_type="mfcc", num_features=13), (torch.randn(1, 13, 80),)
    yield "emformer", lambda: Output(audio.Emformer(32, 4, 64, 2, 4), lambda m, x: m(x, torch.tensor([16]))[0]), (torch.randn(1, 16, 32),)
    yield "tacotron_postnet", lambda: Output(audio.Tacotron2(encoder_embedding_dim=32, n_mels=20, postnet_embedding_dim=32), lambda m, x: x + m.postnet(x)), (torch.randn(1, 20, 30),)
    yield "tacotron_encoder", lambda: Output(audio.Tacotron2(encoder_embedding_dim=32), lambda m, x: m.encoder(m.embedding(x).transpose(1, 2), torch.tensor([10]))), tokens(10)
    yield "squim", lambda: audio.squim_objective_base(), (torch.randn(1, 4000),)


def reset(module):
    """Statistics of normalizations, and parameters that begin as zeros, as training leaves them."""
    import torch
    for parameter in module.parameters(recurse=False):
        if parameter.dim() > 1 and parameter.numel() > 1 and not parameter.any():
            torch.nn.init.normal_(parameter, 0, 0.02)
    if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.running_mean is not None:
        module.running_mean.normal_(0, 0.1)
        module.running_var.uniform_(0.5, 1.5)


def attempt(path, form, work):
    """Result of one export, whose failure is kept beside it."""
    try:
        work()
    except Exception as error:
        with open(f"{path}/{form}.failed", "w") as file:
            file.write(f"{type(error).__name__} {str(error)[:2000]}")
        print(f"    {form}: {type(error).__name__} {' '.join(str(error).split())[:150]}", flush=True)


def export_one(path, make, inputs):
    import coremltools as ct
    import numpy as np
    import torch
    from networks import operations
    torch.backends.mha.set_fastpath_enabled(False)
    model = make().eval()
    model.apply(reset)
    with torch.no_grad():
        expected = model(*inputs)
    if not isinstance(expected, torch.Tensor):
        inner = model

        class First(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = inner

            def forward(self, *a):
                y = self.inner(*a)
                while not isinstance(y, torch.Tensor):
                    y = list(y.values())[0] if isinstance(y, dict) else y[0]
                return y
        model = First().eval()
        expected = model(*inputs)
    kind = lambda a: np.float32 if a.is_floating_point() else np.int32
    names = [f"x{i}" for i in range(len(inputs))]
    os.makedirs(path, exist_ok=True)
    for name, a in zip(names, inputs):
        np.save(f"{path}/{name}.npy", a.numpy().astype(kind(a)))
    np.save(f"{path}/expected.npy", expected.detach().numpy())

    def package():
        with torch.no_grad():
            traced = torch.jit.trace(model, inputs, strict=False, check_trace=False)
        ports = [ct.TensorType(n, shape=a.shape, dtype=kind(a)) for n, a in zip(names, inputs)]
        ct.convert(traced, inputs=ports, minimum_deployment_target=ct.target.iOS17, compute_precision=ct.precision.FLOAT16,
                   skip_model_load=True).save(f"{path}/model.mlpackage")
        ops, computing = operations(f"{path}/model.mlpackage")
        with open(f"{path}/meta.json", "w") as file:
            json.dump({"ops": ops, "computing": computing}, file)

    attempt(path, "mlpackage", package)
    attempt(path, "onnx", lambda: torch.onnx.export(model, inputs, f"{path}/model.onnx", input_names=names, output_names=["y"],
                                                    opset_version=17, dynamo=False))
    attempt(path, "dynamo", lambda: torch.onnx.export(model, inputs, f"{path}/dynamo.onnx", input_names=names, output_names=["y"],
                                                      dynamo=True, external_data=False, verbose=False))


def export(folder, names):
    import torch
    for name, make, inputs in networks():
        if names and name not in names or os.path.exists(f"{folder}/{name}/expected.npy") and not names:
            continue
        torch.manual_seed(len(name))
        started = time.time()
        try:
            export_one(f"{folder}/{name}", make, inputs)
            print(f"{name}: {time.time() - started:.1f} s", flush=True)
        except Exception as error:
            print(f"{name}: not made: {type(error).__name__} {' '.join(str(error).split())[:200]}", flush=True)


FORMS = {"mlpackage": "model.mlpackage", "onnx": "model.onnx", "dynamo": "dynamo.onnx"}
def measure(folder, tool, names, times):
    """One row a network."""
    from networks import one
    rows = []
    for name in sorted(os.listdir(folder)):
        path = f"{folder}/{name}"
        if names and name not in names or not os.path.exists(f"{path}/expected.npy"):
            continue
        row = {"name": name, **(json.load(open(f"{path}/meta.json")) if os.path.exists(f"{path}/meta.json") else {}), "forms": {}}
        for form, file in FORMS.items():
            if os.path.exists(f"{path}/{file}"):
                started = time.time()
                row["forms"][form] = {**one(path, file, tool), "seconds": round(time.time() - started, 1)}
        if times and "tasks" in row["forms"].get("onnx", {}):
            row["times"] = [engine_time(f"{path}/model.onnx", tool), runtime_time(path)]
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def engine_time(model, tool):
    """Milliseconds of a run by the engine's plan; none for a chain of programs."""
    from networks import ane
    _, out, _ = ane(tool, "run", model, "--profile=5")
    least = re.search(r"shortest of 5 runs ([\d.]+) ms", out)
    return float(least[1]) if least else None


def runtime_time(path):
    """Milliseconds of a run of ONNX Runtime; none where it does not load the model."""
    import numpy as np
    import onnxruntime
    try:
        session = onnxruntime.InferenceSession(f"{path}/model.onnx", providers=["CPUExecutionProvider"])
        kinds = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
        inputs = {port.name: np.load(f"{path}/{port.name}.npy").astype(kinds[port.type]) for port in session.get_inputs()}
        taken = []
        for _ in range(6):
            started = time.perf_counter()
            session.run(None, inputs)
            taken.append(time.perf_counter() - started)
        return min(taken[1:]) * 1e3
    except Exception:
        return None


def table(rows, times):
    forms = [(r, f) for r in rows for f in r["forms"].values()]
    ran = [f for _, f in forms if "refused" not in f]
    per = sorted(r["forms"]["mlpackage"]["tasks"] / r["computing"] for r in rows if "tasks" in r["forms"].get("mlpackage", {}))
    within = lambda k: sum(f.get(k, 9) <= 1 for f in ran)
    text = (f"#: {len(rows)} networks, {len(forms)} models: {len(ran)} run, {within('fast')} within the tolerance in `fast` and "
                   f"{within('exact')} in `exact`; check and compiler agree in {sum(f['agree'] for _, f in forms)}.")
    if per:
        text += (f" Tasks per computing operation: median {per[len(per) // 2]:.1f}, at most 3 in {sum(p <= 3 for p in per)} of {len(per)}, "
                 f"above 10 in {sum(p > 10 for p in per)}.")
    heads = ["network", "operations", "computing", "tasks", "per computing", "programs, host", "fast", "exact", "ONNX: tasks", "fast", "exact"]
    text += "\n" + "\t".join(heads + (["ms", "ONNX Runtime ms"] if times else ["dynamo: tasks", "fast", "exact"]) + ["agree"]) + "\n"
    error = lambda f, k: f"{f[k]:.2f}" if k in f else ""
    for r in rows:
        core = r["forms"].get("mlpackage", {})
        ratio = f"{core['tasks'] / r['computing']:.1f}" if "tasks" in core else ""
        cells = [r["name"], r.get("ops", ""), r.get("computing", ""), core.get("tasks", core.get("refused", "")), ratio,
                 f"{core['programs']}, {core['hosts']}" if "tasks" in core else "", error(core, "fast"), error(core, "exact")]
        for form in ("onnx",) if times else ("onnx", "dynamo"):
            f = r["forms"].get(form, {})
            cells += [f.get("tasks", f.get("refused", "")), error(f, "fast"), error(f, "exact")]
        if times:
            cells += ["" if t is None else f"{t:.2f}" for t in r.get("times", [None, None])]
        cells.append("yes" if all(f["agree"] for f in r["forms"].values()) else "no")
        text += "\t".join(str(c) for c in cells) + "\n"
    return text


def main(command, folder, *rest):
    from networks import flags, write
    rest = list(rest)
    given = flags(rest, ane="target/quick/ane", write=None)
    if command == "export":
        return export(folder, rest)
    times = "--times" in rest
    rows = measure(folder, given["ane"], [name for name in rest if name != "--times"], times)
    write(given["write"], table(rows, times))


if __name__ == "__main__":
    main(*sys.argv[1:])
