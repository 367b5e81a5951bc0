"""Networks of the library transformers for images, video, speech, sound, and time series."""
import torch
import transformers as t

from .parts import Part, R, img
from .transformers_common import eager, ids, make, small, small_image, text, tiny, vit, whole


def networks():
    speech = dict(small_image, conv_dim=(32, 32, 32), conv_kernel=(10, 3, 3), conv_stride=(5, 2, 2), num_feat_extract_layers=3,
                  num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4)
    for name in ("Wav2Vec2", "Hubert", "WavLM", "SEW", "Data2VecAudio"):
        config = getattr(t, name + "Config")(**speech)
        yield name.lower() + "_hf", make(name + "Model", lambda: config), (R(1, 1600),)
    yield "clap_audio", make("ClapAudioModel", lambda: t.ClapAudioConfig(spec_size=64, num_mel_bins=16, patch_embeds_hidden_size=32, hidden_size=64, depths=[1, 1],
                                                                 num_attention_heads=[2, 4], window_size=4, num_hidden_layers=2)), (R(1, 1, 64, 16),)
    yield "segformer", make("SegformerForSemanticSegmentation", lambda: t.SegformerConfig(depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 48, 64],
                                                                                  decoder_hidden_size=32)), img(64)
    yield "detr_hf", make("DetrForObjectDetection", lambda: t.DetrConfig(d_model=64, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=128, decoder_ffn_dim=128,
                          encoder_attention_heads=4, decoder_attention_heads=4, num_queries=10, use_pretrained_backbone=False,
                          backbone="resnet18", use_timm_backbone=True)), img(96)
    yield "yolos", make("YolosForObjectDetection", lambda: t.YolosConfig(**small_image, image_size=[64, 64], num_detection_tokens=5)), img(64)
    yield "dpt", make("DPTForDepthEstimation", lambda: t.DPTConfig(**dict(small_image, num_hidden_layers=4), image_size=64, backbone_out_indices=[0, 1, 2, 3], fusion_hidden_size=32,
                                                          neck_hidden_sizes=[16, 32, 48, 64])), img(64)
    yield "depth_anything", make("DepthAnythingForDepthEstimation", lambda: t.DepthAnythingConfig(backbone_config=t.Dinov2Config(
        hidden_size=64, num_hidden_layers=4, num_attention_heads=4, image_size=56, patch_size=14, out_indices=[1, 2, 3, 4], reshape_hidden_states=False,
        apply_layernorm=True), fusion_hidden_size=32, neck_hidden_sizes=[16, 32, 48, 64], reassemble_hidden_size=64, patch_size=14)), img(56)
    yield "mask2former", make("Mask2FormerForUniversalSegmentation", lambda: t.Mask2FormerConfig(
        feature_size=32, mask_feature_size=32, hidden_dim=32, encoder_feedforward_dim=64, encoder_layers=1, decoder_layers=2, num_attention_heads=4,
        dim_feedforward=64, num_queries=8, backbone_config=t.SwinConfig(image_size=64, embed_dim=16, depths=[1, 1, 1, 1], num_heads=[1, 2, 4, 4],
                                                                      window_size=4, out_features=["stage1", "stage2", "stage3", "stage4"]))), img(64)
    yield "vit_mae", make("ViTModel", lambda: t.ViTConfig(**small_image, image_size=64)), img(64)
    yield "siglip_vision", make("SiglipVisionModel", lambda: t.SiglipVisionConfig(**small_image, image_size=64)), img(64)
    yield "whisper_hf", make("WhisperModel", lambda: t.WhisperConfig(vocab_size=99, d_model=64, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
                             decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, max_source_positions=50, max_target_positions=32,
                             num_mel_bins=20, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1),
                             lambda m, f, d: m(input_features=f, decoder_input_ids=d, decoder_attention_mask=torch.full((1, 1, 8, 8), -1e4).triu(1),
                                               use_cache=False, return_dict=False)[0]), (R(1, 20, 100),) + ids(8)
    yield "encodec_decoder", lambda: Part(t.EncodecModel(t.EncodecConfig(num_filters=8, upsampling_ratios=[4, 2, 2], codebook_size=64, hidden_size=32,
                                            codebook_dim=32)).decoder, lambda m, x: m(x)), (R(1, 32, 12),)
    yield "musicgen_decoder", make("MusicgenForCausalLM", lambda: t.MusicgenDecoderConfig(vocab_size=64, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                                   ffn_dim=128, max_position_embeddings=64, num_codebooks=2, pad_token_id=64),
                                   lambda m, i: m(input_ids=i, use_cache=False, return_dict=False)[0]), (torch.randint(0, 64, (2, 12)),)
    vits = t.VitsConfig(vocab_size=40, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, ffn_dim=64, flow_size=32, spectrogram_bins=65,
                        upsample_initial_channel=32)
    yield "vits_generator", lambda: Part(t.VitsModel(vits).decoder, lambda m, x: m(x)), (R(1, 32, 10),)
    yield "timesformer", make("TimesformerModel", lambda: t.TimesformerConfig(**small_image, image_size=32, num_frames=4)), (R(1, 4, 3, 32, 32),)
    yield "videomae", make("VideoMAEModel", lambda: t.VideoMAEConfig(**small_image, image_size=32, num_frames=4)), (R(1, 4, 3, 32, 32),)
    yield "patchtst", make("PatchTSTModel", lambda: t.PatchTSTConfig(num_input_channels=3, context_length=64, patch_length=8, patch_stride=8, d_model=32,
                           num_hidden_layers=2, num_attention_heads=4, ffn_dim=64)), (R(1, 64, 3),)
    yield "superpoint_like", make("Swin2SRModel", lambda: t.Swin2SRConfig(image_size=32, embed_dim=24, depths=[2], num_heads=[2], window_size=4)), img(32)
    yield "dinov2", make("Dinov2Model", lambda: t.Dinov2Config(**dict(tiny, image_size=56, patch_size=14))), img(56)
    yield "convnextv2", make("ConvNextV2Model", lambda: t.ConvNextV2Config(depths=[1] * 4, hidden_sizes=[16, 24, 32, 48])), img(64)
    yield "mobilevitv2", make("MobileViTV2Model", lambda: t.MobileViTV2Config(image_size=64, width_multiplier=0.5)), img(64)
    yield "swiftformer", make("SwiftFormerModel", lambda: t.SwiftFormerConfig(depths=[1, 1, 1, 1], embed_dims=[16, 24, 32, 48])), img(64)
    yield "glpn_depth", make("GLPNForDepthEstimation", lambda: t.GLPNConfig(depths=[1] * 4, hidden_sizes=[16, 24, 40, 64], decoder_hidden_size=16)), img(64)
    yield "focalnet", make("FocalNetModel", lambda: t.FocalNetConfig(image_size=64, embed_dim=16, depths=[1, 1], focal_levels=[2, 2], focal_windows=[3, 3])), img(64)
    yield "hiera", make("HieraModel", lambda: t.HieraConfig(image_size=[64, 64], embed_dim=16, depths=[1, 1, 1, 1], num_heads=[1, 2, 4, 8])), img(64)
    yield "rt_detr", lambda: Part(t.RTDetrModel(t.RTDetrConfig(
        backbone_config=t.RTDetrResNetConfig(embedding_size=16, hidden_sizes=[16, 24, 32, 48], depths=[1] * 4, layer_type="basic", out_features=["stage2", "stage3", "stage4"]),
        encoder_hidden_dim=32, encoder_in_channels=[24, 32, 48], decoder_in_channels=[32, 32, 32], d_model=32, num_queries=10, decoder_layers=1, encoder_ffn_dim=32, decoder_ffn_dim=32, decoder_attention_heads=4,
        encoder_attention_heads=4, anchor_image_size=[64, 64])), lambda m, x: m(x).last_hidden_state), img(64)
    yield "deformable_detr", lambda: Part(t.DeformableDetrModel(t.DeformableDetrConfig(use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=t.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1] * 4, layer_type="basic", out_features=["stage2", "stage3", "stage4"]), d_model=32, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=32, decoder_ffn_dim=32, num_queries=8)), lambda m, x: m(x).last_hidden_state), img(128)
    yield "ast_audio", make("ASTModel", lambda: t.ASTConfig(**dict(tiny, max_length=64, num_mel_bins=32))), (R(1, 64, 32),)
    yield "vivit", make("VivitModel", lambda: t.VivitConfig(**dict(tiny, image_size=32, num_frames=4, tubelet_size=[2, 16, 16]))), (R(1, 4, 3, 32, 32),)
    yield "clip_whole", lambda: Part(t.CLIPModel._from_config(t.CLIPConfig(text_config=t.CLIPTextConfig(**text, projection_dim=16, eos_token_id=98), vision_config=t.CLIPVisionConfig(**tiny, image_size=32, patch_size=8, projection_dim=16), projection_dim=16), **eager),
        lambda m, i, x: m(input_ids=i, pixel_values=x).logits_per_image), ids(10) + img(32)
    yield "sam_decoder", lambda: Part(t.SamModel._from_config(t.SamConfig(vision_config=dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=64, patch_size=16, output_channels=32, window_size=2, global_attn_indexes=[0], mlp_dim=64, num_pos_feats=16),
        prompt_encoder_config=dict(hidden_size=32, image_size=64, patch_size=16, image_embedding_size=4), mask_decoder_config=dict(hidden_size=32, mlp_dim=64, num_attention_heads=4, iou_head_hidden_dim=32)), **eager),
        lambda m, x, p: m(pixel_values=x, input_points=p).pred_masks), img(64) + (torch.rand(1, 1, 1, 2) * 60,)
    yield "informer", make("InformerModel", lambda: t.InformerConfig(prediction_length=6, context_length=12, lags_sequence=[1, 2], num_time_features=2, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32), lambda m, p, a, b, f, g: m(past_values=p, past_time_features=a, past_observed_mask=b, future_values=f, future_time_features=g, return_dict=False)[0]),         (R(1, 14), R(1, 14, 2), torch.ones(1, 14), R(1, 6), R(1, 6, 2))
    yield "patchtsmixer", make("PatchTSMixerModel", lambda: t.PatchTSMixerConfig(context_length=32, patch_length=8, patch_stride=8, num_input_channels=3, d_model=16, num_layers=2)), (R(1, 32, 3),)
    yield "speecht5_vocoder", lambda: Part(t.SpeechT5HifiGan(t.SpeechT5HifiGanConfig(model_in_dim=20, upsample_initial_channel=32, upsample_rates=[4, 2], upsample_kernel_sizes=[8, 4])), lambda m, x: m(x)), (R(24, 20),)
    yield "univnet_like_dac", lambda: Part(t.DacModel(t.DacConfig(encoder_hidden_size=8, downsampling_ratios=[2, 4], decoder_hidden_size=32, n_codebooks=2, codebook_size=16, codebook_dim=4, hidden_size=32)), lambda m, x: m(x).audio_values), (R(1, 1, 64),)
    yield "vitmatte_like_upernet", lambda: Part(t.UperNetForSemanticSegmentation(t.UperNetConfig(backbone=None, use_pretrained_backbone=False, use_timm_backbone=False, backbone_config=t.ConvNextConfig(depths=[1] * 4, hidden_sizes=[8, 16, 24, 32], out_features=["stage1", "stage2", "stage3", "stage4"]),
        hidden_size=16, pool_scales=[1, 2, 3, 6], use_auxiliary_head=False, num_labels=3)), lambda m, x: m(x).logits), img(64)
    yield "glpn", make("GLPNForDepthEstimation", lambda: t.GLPNConfig(depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 64, 96], num_attention_heads=[1, 2, 4, 8], decoder_hidden_size=16)), img(64)
    yield "swin2sr", make("Swin2SRForImageSuperResolution", lambda: t.Swin2SRConfig(image_size=32, embed_dim=24, depths=[2, 2], num_heads=[2, 2], window_size=8, upscale=2)), img(32)
    yield "ijepa", make("IJepaModel", lambda: t.IJepaConfig(**vit)), img(64)
    yield "vitdet", make("VitDetModel", lambda: t.VitDetConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=64, pretrain_image_size=64, window_block_indices=[0], window_size=2)), img(64)
    yield "rt_detr_encoder", lambda: Part(t.RTDetrResNetBackbone(t.RTDetrResNetConfig(hidden_sizes=[16, 32, 64, 96], depths=[1, 1, 1, 1], embedding_size=16, layer_type="basic")), lambda m, x: m(x, return_dict=False)[0][-1]), img(64)
    yield "patch_tsmixer", make("PatchTSMixerModel", lambda: t.PatchTSMixerConfig(context_length=32, patch_length=8, patch_stride=8, num_input_channels=3, d_model=16, num_layers=2)), (R(1, 32, 3),)
    yield "speech_to_text", lambda: Part(t.Speech2TextModel(t.Speech2TextConfig(vocab_size=99, d_model=64, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=128, input_feat_per_channel=20, max_source_positions=64)).encoder, lambda m, x: m(x, return_dict=False)[0]), (R(1, 32, 20),)
    yield "wav2vec2_conformer", make("Wav2Vec2ConformerModel", lambda: t.Wav2Vec2ConformerConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, conv_dim=(32,) * 7, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4)), (R(1, 4000),)
    yield "univnet", lambda: Part(t.UnivNetModel(t.UnivNetConfig(model_in_channels=16, model_hidden_channels=8, num_mel_bins=20, kernel_predictor_hidden_channels=16)), lambda m, x, z: m(x, z, return_dict=False)[0]), (R(1, 12, 20), R(1, 12, 16))
    yield "dac", make("DacModel", lambda: t.DacConfig(encoder_hidden_size=8, downsampling_ratios=[2, 4], decoder_hidden_size=64, upsampling_ratios=[4, 2], n_codebooks=2, codebook_size=32, codebook_dim=4, hidden_size=32), lambda m, x: m.decoder(m.encoder(x))), (R(1, 1, 512),)
    yield "decision_transformer", lambda: Part(t.DecisionTransformerModel(t.DecisionTransformerConfig(state_dim=6, act_dim=3, hidden_size=64, n_layer=2, n_head=4, max_ep_len=40)), lambda m, s, a, g: m(s, a, g, g, torch.arange(5)[None], torch.ones(1, 5), return_dict=False)[1]), (R(1, 5, 6), R(1, 5, 3), R(1, 5, 1))
    yield "fastspeech2_conformer", lambda: Part(t.FastSpeech2ConformerModel(t.FastSpeech2ConformerConfig(hidden_size=64, vocab_size=40, num_mel_bins=20, encoder_layers=1, decoder_layers=1, encoder_linear_units=64, decoder_linear_units=64)).encoder, lambda m, x: m(x, return_dict=False)[0]), (torch.randint(1, 40, (1, 12)),)
    yield "lxmert", make("LxmertModel", lambda: t.LxmertConfig(vocab_size=99, hidden_size=64, num_attention_heads=4, intermediate_size=128, l_layers=1, x_layers=1, r_layers=1, visual_feat_dim=32), lambda m, i, v, p: m(input_ids=i, visual_feats=v, visual_pos=p, return_dict=False)[0]), ids(16) + (R(1, 6, 32), torch.rand(1, 6, 4))
    yield "imagegpt", make("ImageGPTModel", lambda: t.ImageGPTConfig(vocab_size=99, n_embd=64, n_layer=2, n_head=4), whole), ids(16)
    yield "sew_d", make("SEWDModel", lambda: t.SEWDConfig(**dict(small, conv_dim=(32, 32), conv_kernel=(10, 3), conv_stride=(5, 2), num_feat_extract_layers=2, num_conv_pos_embeddings=16,
                        num_conv_pos_embedding_groups=4, squeeze_factor=2))), (R(1, 800),)
    yield "wav2vec2_bert", make("Wav2Vec2BertModel", lambda: t.Wav2Vec2BertConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, feature_projection_input_dim=20)), (R(1, 24, 20),)
    yield "parakeet", make("ParakeetEncoder", lambda: t.ParakeetEncoderConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, num_mel_bins=32, subsampling_conv_channels=16)), (R(1, 64, 32),)
    yield "audio_spectrogram", make("ASTModel", lambda: t.ASTConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, max_length=64, num_mel_bins=32)), (R(1, 64, 32),)
    yield "textnet", make("TextNetModel", lambda: t.TextNetConfig(stem_num_channels=3, stem_out_channels=16, hidden_sizes=[16, 16, 24, 32, 48])), img(64)
    yield "dinov3", make("DINOv3ViTModel", lambda: t.DINOv3ViTConfig(**vit, num_register_tokens=2)), img(64)
    yield "sam_vision", make("SamVisionModel", lambda: t.SamVisionConfig(**dict(vit, mlp_dim=128, window_size=2, output_channels=32, global_attn_indexes=[1]))), img(64)
    yield "vjepa2", make("VJEPA2Model", lambda: t.VJEPA2Config(hidden_size=48, num_hidden_layers=2, num_attention_heads=2, crop_size=32, frames_per_clip=4, pred_hidden_size=48, pred_num_attention_heads=2, pred_num_hidden_layers=1,
                         mlp_ratio=2), lambda m, x: m.encoder(x)[0]), (R(1, 4, 3, 32, 32),)
    yield "seggpt", make("SegGptModel", lambda: t.SegGptConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=[64, 32], patch_size=16, intermediate_hidden_state_indices=[0, 1], merge_index=0,
                         decoder_hidden_size=16), lambda m, a, b: m(a, a, b, return_dict=False)[0]), (R(1, 3, 32, 32), R(1, 3, 32, 32))
    yield "timesfm", make("TimesFmModel", lambda: t.TimesFmConfig(hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, head_dim=16, patch_length=8, context_length=32),
                          lambda m, x: m(past_values=x, past_values_padding=torch.zeros(1, 32).long(), freq=torch.zeros(1, 1).long()).last_hidden_state), (R(1, 32),)
    yield "blip_vision", make("BlipVisionModel", lambda: t.BlipVisionConfig(**vit)), img(64)
    yield "clipseg", make("CLIPSegVisionModel", lambda: t.CLIPSegVisionConfig(**vit)), img(64)
    yield "owlvit", make("OwlViTVisionModel", lambda: t.OwlViTVisionConfig(**vit)), img(64)
    yield "groupvit", make("GroupViTVisionModel", lambda: t.GroupViTVisionConfig(hidden_size=64, intermediate_size=128, depths=[1, 1, 1], num_hidden_layers=3, num_group_tokens=[8, 4, 0], num_output_groups=[8, 4, 4],
                           num_attention_heads=4, image_size=64, patch_size=16)), img(64)
    yield "hgnet_v2", make("HGNetV2Backbone", lambda: t.HGNetV2Config(embedding_size=16), lambda m, x: m(x).feature_maps[-1]), img(64)
    yield "maskformer_swin", make("MaskFormerSwinModel", lambda: t.MaskFormerSwinConfig(image_size=64, embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4)), img(64)
    yield "speecht5_hifigan", make("SpeechT5HifiGan", lambda: t.SpeechT5HifiGanConfig(model_in_dim=20, upsample_initial_channel=32, upsample_rates=[4, 4], upsample_kernel_sizes=[8, 8]), lambda m, x: m(x)), (R(10, 20),)
    yield "conditional_detr", make("ConditionalDetrForObjectDetection", lambda: t.ConditionalDetrConfig(use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=t.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1] * 4, layer_type="basic", out_features=["stage4"]), d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=32, decoder_ffn_dim=32, num_queries=8), lambda m, x: m(x).logits), img(64)
