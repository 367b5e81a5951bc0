"""Further networks for scripts/popular.py: architectures of timm and transformers that none of its other lists has."""
import torch

from families import R
from wider import Part, first


def from_timm():
    import timm

    def make(name, **more):
        return lambda: timm.create_model(name, pretrained=False, num_classes=10, **more)

    sizes = {
        "focalnet_tiny_srf": 96, "hgnetv2_b0": 64, "mobilevitv2_050": 64, "rexnet_100": 64, "cspdarknet53": 64, "gernet_s": 64,
        "xception41": 96, "eca_nfnet_l0": 64, "tinynet_e": 64, "repghostnet_050": 64, "swiftformer_xs": 64, "efficientvit_b0": 64,
        "hardcorenas_a": 64, "gcresnet33ts": 64, "resnetv2_50": 64, "inception_v4": 128, "dpn48b": 64, "tresnet_m": 64, "rdnet_tiny": 64,
    }
    for name, size in sizes.items():
        yield name, make(name), (R(1, 3, size, size),)
    yield "davit", make("davit_tiny", depths=(1, 1, 1, 1), embed_dims=(32, 64, 128, 256), num_heads=(1, 2, 4, 8)), (R(1, 3, 224, 224),)
    yield "twins_svt", make("twins_svt_small", img_size=224, depths=(1, 1, 1, 1)), (R(1, 3, 224, 224),)
    yield "crossvit", make("crossvit_tiny_240", depth=([1, 1, 0], [1, 1, 0], [1, 1, 0])), (R(1, 3, 240, 240),)
    yield "tnt", make("tnt_s_patch16_224", img_size=64, depth=2), (R(1, 3, 64, 64),)
    yield "convmixer", make("convmixer_768_32", depth=4, dim=64), (R(1, 3, 56, 56),)
    yield "sequencer2d", make("sequencer2d_s", layers=(1, 1, 1, 1), embed_dims=(32, 64, 64, 64), hidden_sizes=(8, 16, 16, 16)), (R(1, 3, 56, 56),)
    yield "volo", make("volo_d1_224", layers=(1, 1, 1, 1), img_size=224), (R(1, 3, 224, 224),)
    yield "hiera_timm", make("hiera_tiny_224", stages=(1, 1, 1, 1), embed_dim=32), (R(1, 3, 224, 224),)


def from_transformers():
    import transformers as t

    def uncached(model, ids):
        later = torch.full((1, 1, ids.shape[1], ids.shape[1]), -1e4).triu(1)
        return model(input_ids=ids, attention_mask=later, use_cache=False, return_dict=False)[0]

    def whole(model, ids):
        return model(input_ids=ids, use_cache=False, return_dict=False)[0]

    def make(kind, config, run=first):
        eager = dict(attn_implementation="eager")
        return lambda: Part(getattr(t, kind)._from_config(config(), **eager), run)

    tokens = lambda count: (torch.randint(3, 99, (1, count)),)
    small = dict(vocab_size=99, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
    grouped = dict(small, num_key_value_heads=2, max_position_embeddings=64)
    yield "xlnet", make("XLNetModel", lambda: t.XLNetConfig(vocab_size=99, d_model=64, n_layer=2, n_head=4, d_inner=128)), tokens(16)
    yield "longformer", make("LongformerModel", lambda: t.LongformerConfig(**small, attention_window=8, max_position_embeddings=80)), tokens(16)
    yield "bigbird", make("BigBirdModel", lambda: t.BigBirdConfig(**small, attention_type="original_full")), tokens(16)
    yield "funnel", make("FunnelBaseModel", lambda: t.FunnelConfig(vocab_size=99, block_sizes=[1, 1], d_model=64, n_head=4, d_head=16, d_inner=128)), tokens(16)
    yield "esm", make("EsmModel", lambda: t.EsmConfig(**small, pad_token_id=1, mask_token_id=2, position_embedding_type="rotary")), tokens(16)
    yield "squeezebert", make("SqueezeBertModel", lambda: t.SqueezeBertConfig(**dict(small, embedding_size=64))), tokens(16)
    yield "ibert", make("IBertModel", lambda: t.IBertConfig(**small)), tokens(16)
    yield "gptj", make("GPTJForCausalLM", lambda: t.GPTJConfig(vocab_size=99, n_embd=64, n_layer=2, n_head=4, rotary_dim=8), uncached), tokens(16)
    yield "gpt_bigcode", make("GPTBigCodeForCausalLM", lambda: t.GPTBigCodeConfig(vocab_size=99, n_embd=64, n_layer=2, n_head=4), whole), tokens(16)
    yield "mpt", make("MptForCausalLM", lambda: t.MptConfig(vocab_size=99, d_model=64, n_layers=2, n_heads=4), whole), tokens(16)
    yield "nemotron", make("NemotronForCausalLM", lambda: t.NemotronConfig(**grouped), uncached), tokens(16)
    yield "starcoder2", make("Starcoder2ForCausalLM", lambda: t.Starcoder2Config(**grouped), uncached), tokens(16)
    yield "persimmon", make("PersimmonForCausalLM", lambda: t.PersimmonConfig(**small, max_position_embeddings=64), uncached), tokens(16)
    yield "glm", make("GlmForCausalLM", lambda: t.GlmConfig(**grouped, head_dim=16, pad_token_id=0), uncached), tokens(16)
    yield "diffllama", make("DiffLlamaForCausalLM", lambda: t.DiffLlamaConfig(**grouped), uncached), tokens(16)
    yield "olmoe", make("OlmoeForCausalLM", lambda: t.OlmoeConfig(**grouped, num_experts=4, num_experts_per_tok=2), uncached), tokens(16)
    yield "xglm", make("XGLMForCausalLM", lambda: t.XGLMConfig(vocab_size=99, d_model=64, num_layers=2, attention_heads=4, ffn_dim=128, max_position_embeddings=64), whole), tokens(16)
    image = lambda size: (R(1, 3, size, size),)
    vit = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=64)
    yield "glpn", make("GLPNForDepthEstimation", lambda: t.GLPNConfig(depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 64, 96], num_attention_heads=[1, 2, 4, 8], decoder_hidden_size=16)), image(64)
    yield "swin2sr", make("Swin2SRForImageSuperResolution", lambda: t.Swin2SRConfig(image_size=32, embed_dim=24, depths=[2, 2], num_heads=[2, 2], window_size=8, upscale=2)), image(32)
    yield "ijepa", make("IJepaModel", lambda: t.IJepaConfig(**vit)), image(64)
    yield "vitdet", make("VitDetModel", lambda: t.VitDetConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=64, pretrain_image_size=64, window_block_indices=[0], window_size=2)), image(64)
    yield "rt_detr_encoder", lambda: Part(t.RTDetrResNetBackbone(t.RTDetrResNetConfig(hidden_sizes=[16, 32, 64, 96], depths=[1, 1, 1, 1], embedding_size=16, layer_type="basic")), lambda m, x: m(x, return_dict=False)[0][-1]), image(64)
    yield "patch_tsmixer", make("PatchTSMixerModel", lambda: t.PatchTSMixerConfig(context_length=32, patch_length=8, patch_stride=8, num_input_channels=3, d_model=16, num_layers=2)), (R(1, 32, 3),)
    yield "speech_to_text", lambda: Part(t.Speech2TextModel(t.Speech2TextConfig(vocab_size=99, d_model=64, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=128, input_feat_per_channel=20, max_source_positions=64)).encoder, lambda m, x: m(x, return_dict=False)[0]), (R(1, 32, 20),)
    yield "wav2vec2_conformer", make("Wav2Vec2ConformerModel", lambda: t.Wav2Vec2ConformerConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, conv_dim=(32,) * 7, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4)), (R(1, 4000),)
    yield "univnet", lambda: Part(t.UnivNetModel(t.UnivNetConfig(model_in_channels=16, model_hidden_channels=8, num_mel_bins=20, kernel_predictor_hidden_channels=16)), lambda m, x, z: m(x, z, return_dict=False)[0]), (R(1, 12, 20), R(1, 12, 16))
    yield "dac", make("DacModel", lambda: t.DacConfig(encoder_hidden_size=8, downsampling_ratios=[2, 4], decoder_hidden_size=64, upsampling_ratios=[4, 2], n_codebooks=2, codebook_size=32, codebook_dim=4, hidden_size=32), lambda m, x: m.decoder(m.encoder(x))), (R(1, 1, 512),)
    yield "decision_transformer", lambda: Part(t.DecisionTransformerModel(t.DecisionTransformerConfig(state_dim=6, act_dim=3, hidden_size=64, n_layer=2, n_head=4, max_ep_len=40)), lambda m, s, a, r, g: m(s, a, r, g, torch.arange(5)[None], torch.ones(1, 5), return_dict=False)[1]), (R(1, 5, 6), R(1, 5, 3), R(1, 5, 1), R(1, 5, 1))
    yield "fastspeech2_conformer", lambda: Part(t.FastSpeech2ConformerModel(t.FastSpeech2ConformerConfig(hidden_size=64, vocab_size=40, num_mel_bins=20, encoder_layers=1, decoder_layers=1, encoder_linear_units=64, decoder_linear_units=64)).encoder, lambda m, x: m(x, return_dict=False)[0]), (torch.randint(1, 40, (1, 12)),)


def later():
    """Networks that no table had when they were first tried."""
    import timm
    import transformers as t

    def make(name, **more):
        return lambda: timm.create_model(name, pretrained=False, num_classes=10, **more)

    def of(kind, config, run=first):
        return lambda: Part(getattr(t, kind)._from_config(config(), attn_implementation="eager"), run)

    ids = lambda count: torch.randint(3, 99, (1, count))
    small = dict(vocab_size=99, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
    yield "gcvit", make("gcvit_xxtiny"), (R(1, 3, 224, 224),)
    yield "convit", make("convit_tiny", img_size=64, depth=4, local_up_to_layer=3), (R(1, 3, 64, 64),)
    yield "mvitv2", make("mvitv2_tiny", img_size=64), (R(1, 3, 64, 64),)
    yield "nextvit", make("nextvit_small"), (R(1, 3, 64, 64),)
    yield "efficientnetv2", make("tf_efficientnetv2_b0"), (R(1, 3, 64, 64),)
    yield "segformer", of("SegformerForSemanticSegmentation", lambda: t.SegformerConfig(depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 64, 96], num_attention_heads=[1, 2, 4, 8], decoder_hidden_size=32)), (R(1, 3, 64, 64),)
    yield "vivit", of("VivitModel", lambda: t.VivitConfig(image_size=32, num_frames=4, tubelet_size=[2, 16, 16], hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)), (R(1, 4, 3, 32, 32),)
    yield "layoutlm", of("LayoutLMModel", lambda: t.LayoutLMConfig(**small), lambda m, i, b: m(input_ids=i, bbox=b, return_dict=False)[0]), (ids(16), torch.randint(0, 900, (1, 16, 4)).sort(-1).values)
    yield "lxmert", of("LxmertModel", lambda: t.LxmertConfig(vocab_size=99, hidden_size=64, num_attention_heads=4, intermediate_size=128, l_layers=1, x_layers=1, r_layers=1, visual_feat_dim=32), lambda m, i, v, p: m(input_ids=i, visual_feats=v, visual_pos=p, return_dict=False)[0]), (ids(16), R(1, 6, 32), torch.rand(1, 6, 4))
    yield "canine", of("CanineModel", lambda: t.CanineConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, num_hash_buckets=64, max_position_embeddings=256, local_transformer_stride=16)), (ids(128),)
    yield "codegen", of("CodeGenForCausalLM", lambda: t.CodeGenConfig(vocab_size=99, n_embd=64, n_layer=2, n_head=4, rotary_dim=8), lambda m, i: m(input_ids=i, use_cache=False, return_dict=False)[0]), (ids(16),)
    yield "mbart", of("MBartModel", lambda: t.MBartConfig(vocab_size=99, d_model=64, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128), lambda m, i, d: m(input_ids=i, decoder_input_ids=d, use_cache=False, return_dict=False)[0]), (ids(16), ids(8))


def rarer():
    """Name, maker and inputs of each network."""
    yield from later()
    yield from from_timm()
    yield from from_transformers()
