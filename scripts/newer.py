"""Networks of recent releases of timm and transformers for scripts/popular.py, in families that none of its other lists has."""
import torch

from families import R
from wider import Part, first


def from_timm():
    import timm

    def make(name, **more):
        return lambda: timm.create_model(name, pretrained=False, num_classes=10, **more)

    sizes = {
        "coat_tiny": 64, "shvit_s1": 128, "efficientvim_m1": 128, "lcnetv2_small": 64, "cspnext_tiny": 64, "nf_regnet_b0": 64,
    }
    for name, size in sizes.items():
        more = dict(img_size=size) if name == "coat_tiny" else {}
        yield name, make(name, **more), (R(1, 3, size, size),)
    yield "samvit", make("samvit_base_patch16", img_size=128, depth=2, embed_dim=64, num_heads=4, global_attn_indexes=(1,), window_size=6), (R(1, 3, 128, 128),)
    yield "vit_relpos", make("vit_relpos_base_patch16_224", img_size=64, depth=2, embed_dim=64, num_heads=4), (R(1, 3, 64, 64),)
    yield "swinv2_cr", make("swinv2_cr_tiny_224", img_size=64, window_size=2, depths=(1, 1, 1, 1), embed_dim=32, num_heads=(1, 2, 4, 8)), (R(1, 3, 64, 64),)
    yield "sam2_hiera", make("sam2_hiera_tiny", stages=(1, 1, 1, 1), embed_dim=32), (R(1, 3, 128, 128),)


def from_transformers():
    import transformers as t

    def make(kind, config, run=first):
        eager = dict(attn_implementation="eager")
        return lambda: Part(getattr(t, kind)._from_config(config(), **eager), run)

    def causal(model, ids):
        later = torch.full((1, 1, ids.shape[1], ids.shape[1]), -1e4).triu(1)
        return model(input_ids=ids, attention_mask=later, use_cache=False, return_dict=False)[0]

    def whole(model, ids):
        return model(input_ids=ids, use_cache=False, return_dict=False)[0]

    ids = lambda count: (torch.randint(3, 99, (1, count)),)
    image = lambda size: (R(1, 3, size, size),)
    small = dict(vocab_size=99, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
    grouped = dict(small, num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0)
    vit = dict(initializer_range=0.02, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=64, patch_size=16)
    yield "deberta", make("DebertaModel", lambda: t.DebertaConfig(**small, relative_attention=True, pos_att_type=["c2p", "p2c"], max_relative_positions=16)), ids(16)
    yield "gpt_neo", make("GPTNeoForCausalLM", lambda: t.GPTNeoConfig(vocab_size=99, hidden_size=64, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], window_size=8), causal), ids(16)
    yield "imagegpt", make("ImageGPTModel", lambda: t.ImageGPTConfig(vocab_size=99, n_embd=64, n_layer=2, n_head=4), whole), ids(16)
    for name in ("Olmo", "Helium", "Cohere2", "Exaone4", "BitNet", "NanoChat", "Doge", "Olmo3", "SeedOss", "Arcee"):
        if hasattr(t, name + "Config"):
            more = dict(head_dim=16) if name == "Helium" else {}
            yield name.lower(), make(name + "ForCausalLM", lambda name=name, more=more: getattr(t, name + "Config")(**grouped, **more), causal), ids(16)
    yield "deepseek_mla", make("DeepseekV3ForCausalLM", lambda: t.DeepseekV3Config(**dict(grouped, num_key_value_heads=4), first_k_dense_replace=2, q_lora_rank=32, kv_lora_rank=32,
                               qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=16), causal), ids(16)
    yield "lfm2", make("Lfm2ForCausalLM", lambda: t.Lfm2Config(**grouped, layer_types=["conv", "full_attention"]), causal), ids(16)
    yield "falcon_mamba", make("FalconMambaForCausalLM", lambda: t.FalconMambaConfig(vocab_size=99, hidden_size=32, num_hidden_layers=1, state_size=4), whole), ids(6)
    yield "mamba2", make("Mamba2ForCausalLM", lambda: t.Mamba2Config(vocab_size=99, hidden_size=32, num_hidden_layers=1, state_size=8, num_heads=4, head_dim=16, n_groups=1, chunk_size=8, expand=2), whole), ids(8)
    yield "xlstm_hf", make("xLSTMForCausalLM", lambda: t.xLSTMConfig(vocab_size=99, hidden_size=64, num_hidden_layers=1, num_heads=2, chunkwise_kernel="chunkwise--native_autograd", sequence_kernel="native_sequence__native",
                           step_kernel="native"), whole), ids(16)
    yield "sew_d", make("SEWDModel", lambda: t.SEWDConfig(**dict(small, conv_dim=(32, 32), conv_kernel=(10, 3), conv_stride=(5, 2), num_feat_extract_layers=2, num_conv_pos_embeddings=16,
                        num_conv_pos_embedding_groups=4, squeeze_factor=2))), (R(1, 800),)
    yield "wav2vec2_bert", make("Wav2Vec2BertModel", lambda: t.Wav2Vec2BertConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, feature_projection_input_dim=20)), (R(1, 24, 20),)
    yield "parakeet", make("ParakeetEncoder", lambda: t.ParakeetEncoderConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, num_mel_bins=32, subsampling_conv_channels=16)), (R(1, 64, 32),)
    yield "audio_spectrogram", make("ASTModel", lambda: t.ASTConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, max_length=64, num_mel_bins=32)), (R(1, 64, 32),)
    yield "textnet", make("TextNetModel", lambda: t.TextNetConfig(stem_num_channels=3, stem_out_channels=16, hidden_sizes=[16, 16, 24, 32, 48])), image(64)
    yield "dinov3", make("DINOv3ViTModel", lambda: t.DINOv3ViTConfig(**vit, num_register_tokens=2)), image(64)
    yield "sam_vision", make("SamVisionModel", lambda: t.SamVisionConfig(**dict(vit, mlp_dim=128, window_size=2, output_channels=32, global_attn_indexes=[1]))), image(64)
    yield "vjepa2", make("VJEPA2Model", lambda: t.VJEPA2Config(hidden_size=48, num_hidden_layers=2, num_attention_heads=2, crop_size=32, frames_per_clip=4, pred_hidden_size=48, pred_num_attention_heads=2, pred_num_hidden_layers=1,
                         mlp_ratio=2), lambda m, x: m.encoder(x)[0]), (R(1, 4, 3, 32, 32),)
    yield "seggpt", make("SegGptModel", lambda: t.SegGptConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=[64, 32], patch_size=16, intermediate_hidden_state_indices=[0, 1], merge_index=0,
                         decoder_hidden_size=16), lambda m, a, b: m(a, a, b, return_dict=False)[0]), (R(1, 3, 32, 32), R(1, 3, 32, 32))
    yield "timesfm", make("TimesFmModel", lambda: t.TimesFmConfig(hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, head_dim=16, patch_length=8, context_length=32),
                          lambda m, x: m(past_values=x, past_values_padding=torch.zeros(1, 32).long(), freq=torch.zeros(1, 1).long()).last_hidden_state), (R(1, 32),)
    yield "blip_vision", make("BlipVisionModel", lambda: t.BlipVisionConfig(**vit)), image(64)
    yield "clipseg", make("CLIPSegVisionModel", lambda: t.CLIPSegVisionConfig(**vit)), image(64)
    yield "owlvit", make("OwlViTVisionModel", lambda: t.OwlViTVisionConfig(**vit)), image(64)
    yield "groupvit", make("GroupViTVisionModel", lambda: t.GroupViTVisionConfig(hidden_size=64, intermediate_size=128, depths=[1, 1, 1], num_hidden_layers=3, num_group_tokens=[8, 4, 0], num_output_groups=[8, 4, 4],
                           num_attention_heads=4, image_size=64, patch_size=16)), image(64)
    yield "hgnet_v2", make("HGNetV2Backbone", lambda: t.HGNetV2Config(embedding_size=16), lambda m, x: m(x).feature_maps[-1]), image(64)
    yield "maskformer_swin", make("MaskFormerSwinModel", lambda: t.MaskFormerSwinConfig(image_size=64, embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4)), image(64)
    yield "speecht5_hifigan", make("SpeechT5HifiGan", lambda: t.SpeechT5HifiGanConfig(model_in_dim=20, upsample_initial_channel=32, upsample_rates=[4, 4], upsample_kernel_sizes=[8, 8]), lambda m, x: m(x)), (R(10, 20),)
    yield "longt5_local", make("LongT5EncoderModel", lambda: t.LongT5Config(vocab_size=99, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, local_radius=4)), ids(16)
    yield "prophetnet", make("ProphetNetEncoder", lambda: t.ProphetNetConfig(vocab_size=99, hidden_size=64, num_encoder_layers=2, num_encoder_attention_heads=4, encoder_ffn_dim=128)), ids(16)
    yield "yoso", make("YosoModel", lambda: t.YosoConfig(**small, use_expectation=True)), ids(16)
    yield "conditional_detr", make("ConditionalDetrForObjectDetection", lambda: t.ConditionalDetrConfig(use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=t.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1] * 4, layer_type="basic", out_features=["stage4"]), d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=32, decoder_ffn_dim=32, num_queries=8), lambda m, x: m(x).logits), image(64)
    yield "siglip2_text", make("Siglip2TextModel", lambda: t.Siglip2TextConfig(**dict(small, max_position_embeddings=16), projection_size=64)), ids(16)
    yield "gemma3", make("Gemma3ForCausalLM", lambda: t.Gemma3TextConfig(**grouped, head_dim=16, sliding_window=8, layer_types=["sliding_attention", "full_attention"]),
                               lambda m, i: m(input_ids=i, attention_mask={k: torch.full((1, 1, 16, 16), -1e4).triu(1) for k in ("full_attention", "sliding_attention")}, use_cache=False, return_dict=False)[0]), ids(16)
    yield "bigbird_pegasus_encoder", make("BigBirdPegasusModel", lambda: t.BigBirdPegasusConfig(vocab_size=99, d_model=64, encoder_layers=1,
                                   decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, attention_type="original_full", max_position_embeddings=64),
                                   lambda m, i: m.encoder(i, return_dict=False)[0]), ids(16)


def newer():
    """Name, maker and inputs of each network."""
    yield from from_timm()
    yield from from_transformers()
