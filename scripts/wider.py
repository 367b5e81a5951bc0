"""Further networks of public libraries for scripts/popular.py: transformers, diffusers, segmentation_models_pytorch and torchvision."""
import torch
import torch.nn as nn

R = torch.randn


class Part(nn.Module):
    """Part of a model's result, chosen by a function."""

    def __init__(self, model, run):
        super().__init__()
        self.model, self.run = model, run

    def forward(self, *inputs):
        return self.run(self.model, *inputs)


def first(model, *inputs):
    return model(*inputs, return_dict=False)[0]


def from_transformers():
    import transformers as t
    eager = dict(attn_implementation="eager")
    img = lambda n: (R(1, 3, n, n),)
    ids = lambda n: (torch.randint(2, 99, (1, n)),)
    tiny = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)

    def make(kind, config, run=first):
        return lambda: Part(getattr(t, kind)._from_config(getattr(t, config[0])(**config[1]), **eager), run)

    text = dict(tiny, vocab_size=99)
    yield "segformer", make("SegformerForSemanticSegmentation", ("SegformerConfig", dict(depths=[1] * 4, hidden_sizes=[16, 24, 40, 64], decoder_hidden_size=32, num_labels=4))), img(64)
    yield "dinov2", make("Dinov2Model", ("Dinov2Config", dict(tiny, image_size=56, patch_size=14))), img(56)
    yield "convnextv2", make("ConvNextV2Model", ("ConvNextV2Config", dict(depths=[1] * 4, hidden_sizes=[16, 24, 32, 48]))), img(64)
    yield "mobilevitv2", make("MobileViTV2Model", ("MobileViTV2Config", dict(image_size=64, width_multiplier=0.5))), img(64)
    yield "swiftformer", make("SwiftFormerModel", ("SwiftFormerConfig", dict(depths=[1, 1, 1, 1], embed_dims=[16, 24, 32, 48]))), img(64)
    yield "glpn_depth", make("GLPNForDepthEstimation", ("GLPNConfig", dict(depths=[1] * 4, hidden_sizes=[16, 24, 40, 64], decoder_hidden_size=16))), img(64)
    yield "focalnet", make("FocalNetModel", ("FocalNetConfig", dict(image_size=64, embed_dim=16, depths=[1, 1], focal_levels=[2, 2], focal_windows=[3, 3]))), img(64)
    yield "hiera", make("HieraModel", ("HieraConfig", dict(image_size=[64, 64], embed_dim=16, depths=[1, 1, 1, 1], num_heads=[1, 2, 4, 8]))), img(64)
    yield "rt_detr", lambda: Part(t.RTDetrModel(t.RTDetrConfig(
        backbone_config=t.RTDetrResNetConfig(embedding_size=16, hidden_sizes=[16, 24, 32, 48], depths=[1] * 4, layer_type="basic", out_features=["stage2", "stage3", "stage4"]),
        encoder_hidden_dim=32, encoder_in_channels=[24, 32, 48], d_model=32, num_queries=10, decoder_layers=1, encoder_ffn_dim=32, decoder_ffn_dim=32, decoder_attention_heads=4,
        encoder_attention_heads=4, anchor_image_size=[64, 64], eval_size=[64, 64])), lambda m, x: m(x).last_hidden_state), img(64)
    yield "deformable_detr", lambda: Part(t.DeformableDetrModel(t.DeformableDetrConfig(use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=t.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1] * 4, layer_type="basic", out_features=["stage2", "stage3", "stage4"]), d_model=32, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=32, decoder_ffn_dim=32, num_queries=8)), lambda m, x: m(x).last_hidden_state), img(64)
    yield "trocr_decoder", make("TrOCRForCausalLM", ("TrOCRConfig", dict(vocab_size=99, d_model=32, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=64, cross_attention_hidden_size=32, is_decoder=True)),
        lambda m, i, e: m(input_ids=i, encoder_hidden_states=e, use_cache=False, return_dict=False)[0]), ids(8) + (R(1, 12, 32),)
    yield "wav2vec2_conformer", make("Wav2Vec2ConformerModel", ("Wav2Vec2ConformerConfig", dict(text, conv_dim=[16, 16], conv_kernel=[10, 3], conv_stride=[5, 2], num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4, num_feat_extract_layers=2, position_embeddings_type="relative"))), (R(1, 400),)
    yield "wav2vec2_bert", make("Wav2Vec2BertModel", ("Wav2Vec2BertConfig", dict(tiny, feature_projection_input_dim=40))), (R(1, 30, 40),)
    yield "ast_audio", make("ASTModel", ("ASTConfig", dict(tiny, max_length=64, num_mel_bins=32))), (R(1, 64, 32),)
    yield "vivit", make("VivitModel", ("VivitConfig", dict(tiny, image_size=32, num_frames=4, tubelet_size=[2, 16, 16]))), (R(1, 4, 3, 32, 32),)
    yield "longformer", make("LongformerModel", ("LongformerConfig", dict(text, attention_window=8, max_position_embeddings=40, pad_token_id=1)), first), ids(16)
    yield "funnel", make("FunnelBaseModel", ("FunnelConfig", dict(vocab_size=99, block_sizes=[1, 1], num_decoder_layers=1, d_model=32, n_head=4, d_head=8, d_inner=64))), ids(16)
    yield "gptj", make("GPTJForCausalLM", ("GPTJConfig", dict(vocab_size=99, n_embd=32, n_layer=2, n_head=4, rotary_dim=4, n_positions=32)),
        lambda m, i: m(input_ids=i, attention_mask=torch.full((1, 1, 16, 16), -1e4).triu(1), use_cache=False, return_dict=False)[0]), ids(16)
    yield "layoutlm", make("LayoutLMModel", ("LayoutLMConfig", dict(text, max_2d_position_embeddings=128)), lambda m, i, b: m(input_ids=i, bbox=b, return_dict=False)[0]), ids(12) + (torch.randint(0, 60, (1, 12, 4)).sort(-1)[0],)
    yield "ibert", make("IBertModel", ("IBertConfig", dict(text, quant_mode=False))), ids(12)
    yield "squeezebert", make("SqueezeBertModel", ("SqueezeBertConfig", dict(text, embedding_size=32))), ids(12)
    yield "canine_like_xlm", make("XLMModel", ("XLMConfig", dict(vocab_size=99, emb_dim=32, n_layers=2, n_heads=4)), first), ids(12)
    yield "decision_transformer", make("DecisionTransformerModel", ("DecisionTransformerConfig", dict(state_dim=6, act_dim=3, hidden_size=32, n_layer=1, n_head=2, max_ep_len=20)),
        lambda m, s, a, r, i: m(states=s, actions=a, rewards=r, returns_to_go=r, timesteps=i, return_dict=False)[1]), (R(1, 6, 6), R(1, 6, 3), R(1, 6, 1), torch.arange(6)[None])
    yield "clip_whole", lambda: Part(t.CLIPModel._from_config(t.CLIPConfig.from_text_vision_configs(t.CLIPTextConfig(**text, projection_dim=16, eos_token_id=98), t.CLIPVisionConfig(**tiny, image_size=32, patch_size=8, projection_dim=16), projection_dim=16), **eager),
        lambda m, i, x: m(input_ids=i, pixel_values=x).logits_per_image), ids(10) + img(32)
    yield "sam_decoder", lambda: Part(t.SamModel._from_config(t.SamConfig(vision_config=dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=64, patch_size=16, output_channels=32, window_size=2, global_attn_indexes=[0], mlp_dim=64, num_pos_feats=16),
        prompt_encoder_config=dict(hidden_size=32, image_size=64, patch_size=16, image_embedding_size=4), mask_decoder_config=dict(hidden_size=32, mlp_dim=64, num_attention_heads=4, iou_head_hidden_dim=32)), **eager),
        lambda m, x, p: m(pixel_values=x, input_points=p).pred_masks), img(64) + (torch.rand(1, 1, 1, 2) * 60,)
    yield "blip_vision", make("BlipVisionModel", ("BlipVisionConfig", dict(tiny, image_size=32, patch_size=8))), img(32)
    yield "informer", make("InformerModel", ("InformerConfig", dict(prediction_length=6, context_length=12, lags_sequence=[1, 2], num_time_features=2, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32)), lambda m, p, a, b, f, g: m(past_values=p, past_time_features=a, past_observed_mask=b, future_values=f, future_time_features=g, return_dict=False)[0]),         (R(1, 14), R(1, 14, 2), torch.ones(1, 14), R(1, 6), R(1, 6, 2))
    yield "patchtsmixer", make("PatchTSMixerModel", ("PatchTSMixerConfig", dict(context_length=32, patch_length=8, patch_stride=8, num_input_channels=3, d_model=16, num_layers=2))), (R(1, 32, 3),)
    yield "speecht5_vocoder", lambda: Part(t.SpeechT5HifiGan(t.SpeechT5HifiGanConfig(model_in_dim=20, upsample_initial_channel=32, upsample_rates=[4, 2], upsample_kernel_sizes=[8, 4])), lambda m, x: m(x)), (R(24, 20),)
    yield "univnet_like_dac", lambda: Part(t.DacModel(t.DacConfig(encoder_hidden_size=8, downsampling_ratios=[2, 4], decoder_hidden_size=32, n_codebooks=2, codebook_size=16, codebook_dim=4, hidden_size=32)), lambda m, x: m(x).audio_values), (R(1, 1, 64),)
    yield "rwkv_hf", make("RwkvModel", ("RwkvConfig", dict(vocab_size=99, hidden_size=32, num_hidden_layers=1, attention_hidden_size=32, context_length=16)), lambda m, i: m(i, use_cache=False, return_dict=False)[0]), ids(8)
    yield "mamba2", make("Mamba2Model", ("Mamba2Config", dict(vocab_size=99, hidden_size=32, num_hidden_layers=1, state_size=8, num_heads=4, head_dim=16, n_groups=1, chunk_size=8)), lambda m, i: m(i, use_cache=False, return_dict=False)[0]), ids(8)
    yield "vitmatte_like_upernet", lambda: Part(t.UperNetForSemanticSegmentation(t.UperNetConfig(backbone=None, use_pretrained_backbone=False, use_timm_backbone=False, backbone_config=t.ConvNextConfig(depths=[1] * 4, hidden_sizes=[8, 16, 24, 32], out_features=["stage1", "stage2", "stage3", "stage4"]),
        hidden_size=16, pool_scales=[1, 2, 3, 6], use_auxiliary_head=False, num_labels=3)), lambda m, x: m(x).logits), img(64)


def from_diffusers():
    try:
        import diffusers as d
    except ImportError:
        return
    blocks = dict(block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=8)
    step = torch.tensor([7])
    yield "diffusers_unet2d", lambda: Part(d.UNet2DModel(sample_size=16, in_channels=3, out_channels=3, down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=8, **blocks), first), (R(1, 3, 16, 16), step)
    yield "diffusers_unet_text", lambda: Part(d.UNet2DConditionModel(sample_size=16, cross_attention_dim=24, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), attention_head_dim=8, **blocks), first), (R(1, 4, 16, 16), step, R(1, 7, 24))
    kl = dict(down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, **blocks)
    yield "diffusers_vae_encoder", lambda: Part(d.AutoencoderKL(**kl), lambda m, x: m.quant_conv(m.encoder(x))), (R(1, 3, 32, 32),)
    yield "diffusers_vae_decoder", lambda: Part(d.AutoencoderKL(**kl), lambda m, x: m.decoder(m.post_quant_conv(x))), (R(1, 4, 16, 16),)
    yield "diffusers_dit", lambda: Part(d.DiTTransformer2DModel(num_attention_heads=2, attention_head_dim=16, in_channels=4, out_channels=8, num_layers=2, sample_size=8, patch_size=2, num_embeds_ada_norm=10), lambda m, x, t, y: m(x, timestep=t, class_labels=y, return_dict=False)[0]), (R(1, 4, 8, 8), step, torch.tensor([3]))
    yield "diffusers_sd3", lambda: Part(d.SD3Transformer2DModel(sample_size=8, patch_size=2, in_channels=4, num_layers=1, attention_head_dim=8, num_attention_heads=4, joint_attention_dim=24, caption_projection_dim=32, pooled_projection_dim=16, out_channels=4, pos_embed_max_size=8),
        lambda m, x, e, p, t: m(x, e, p, t, return_dict=False)[0]), (R(1, 4, 8, 8), R(1, 6, 24), R(1, 16), step)
    yield "stable_audio_oobleck", lambda: Part(d.AutoencoderOobleck(encoder_hidden_size=8, downsampling_ratios=[2, 4], channel_multiples=[1, 2], decoder_channels=8, decoder_input_channels=8, audio_channels=1), lambda m, x: m.decoder(x)), (R(1, 8, 12),)
    yield "diffusers_vq", lambda: Part(d.VQModel(block_out_channels=(16,), layers_per_block=1, norm_num_groups=8, latent_channels=3, num_vq_embeddings=16), lambda m, x: m(x).sample), (R(1, 3, 16, 16),)


def from_segmentation():
    try:
        import segmentation_models_pytorch as smp
    except ImportError:
        return
    common = dict(encoder_name="resnet18", encoder_weights=None, classes=3)
    for name in ("UnetPlusPlus", "Linknet", "PSPNet", "MAnet", "PAN", "FPN"):
        yield "smp_" + name.lower(), lambda kind=getattr(smp, name): kind(**common), (R(1, 3, 128, 128) if name == "PAN" else R(1, 3, 64, 64),)


def from_torchvision():
    import torchvision
    v = torchvision.models
    yield "r2plus1d", lambda: v.video.r2plus1d_18(weights=None), (R(1, 3, 4, 32, 32),)
    yield "swin3d", lambda: v.video.swin_transformer.SwinTransformer3d([2, 4, 4], 24, [1, 1], [2, 4], [2, 4, 4]), (R(1, 3, 4, 32, 32),)
    yield "faster_rcnn_rpn", lambda: Part(v.detection.fasterrcnn_mobilenet_v3_large_320_fpn(weights=None, weights_backbone=None), lambda m, x: torch.cat([y.flatten(1) for y in m.rpn.head(list(m.backbone(x).values()))[0]], 1)), (R(1, 3, 96, 96),)
    yield "nms_boxes", lambda: Part(nn.Linear(4, 4), lambda m, b, s: torch.gather(b, 0, torchvision.ops.nms(b, s, 0.5)[:1, None].expand(1, 4))), (torch.rand(12, 4).cumsum(1), torch.rand(12))
    yield "roi_align_head", lambda: Part(nn.Linear(8 * 9, 5), lambda m, x, b: m(torchvision.ops.roi_align(x, [b], 3, 0.25, 2).flatten(1))), (R(1, 8, 16, 16), torch.tensor([[2.0, 3, 30, 40], [10, 10, 50, 60]]))
    yield "deform_conv", lambda: Part(nn.ModuleList([nn.Conv2d(8, 18, 3, 1, 1), torchvision.ops.DeformConv2d(8, 8, 3, 1, 1)]), lambda m, x: m[1](x, m[0](x) * 0.1)), (R(1, 8, 12, 12),)


def wider():
    """Name, maker and inputs of each network."""
    yield from from_torchvision()
    yield from from_segmentation()
    yield from from_diffusers()
    yield from from_transformers()
