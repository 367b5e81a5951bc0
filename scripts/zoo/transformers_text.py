"""Language models and encoders of text of the library transformers."""
import torch
import transformers as t

from .parts import R, first
from .transformers_common import both, causal, grouped, grouped_padded, ids, make, small, text, whole


def networks():
    for name in ("Bert", "Roberta", "Electra", "ConvBert", "MPNet", "RoFormer", "Nystromformer", "MobileBert"):
        config = getattr(t, name + "Config")(**small, **({"embedding_size": 64} if name in ("Electra", "RoFormer") else {}))
        yield name.lower(), make(name + "Model", lambda: config), ids(16)
    yield "albert", make("AlbertModel", lambda: t.AlbertConfig(**small, embedding_size=32)), ids(16)
    yield "deberta_v2", make("DebertaV2Model", lambda: t.DebertaV2Config(**small, relative_attention=True, pos_att_type=["c2p", "p2c"],
                                                                 position_buckets=16)), ids(16)
    yield "modernbert", make("ModernBertModel", lambda: t.ModernBertConfig(**small, pad_token_id=0, reference_compile=False)), ids(16)
    yield "fnet_hf", make("FNetModel", lambda: t.FNetConfig(vocab_size=99, hidden_size=64, num_hidden_layers=2, intermediate_size=128)), ids(16)
    for name, config in (("Qwen2", grouped), ("Qwen3", dict(grouped, head_dim=16)), ("Gemma", dict(grouped, head_dim=16)),
                         ("Gemma2", dict(grouped, head_dim=16)), ("Phi", grouped), ("Phi3", dict(grouped, pad_token_id=0)),
                         ("Mistral", grouped), ("Granite", grouped), ("Olmo2", grouped), ("StableLm", grouped), ("Cohere", grouped),
                         ("SmolLM3", dict(grouped, pad_token_id=0)), ("Mixtral", dict(grouped, num_local_experts=4)), ("GPTNeoX", small)):
        if hasattr(t, name + "Config"):
            yield name.lower(), make(name + "ForCausalLM", lambda: getattr(t, name + "Config")(**config), causal), ids(16)
    yield "opt", make("OPTForCausalLM", lambda: t.OPTConfig(vocab_size=99, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, ffn_dim=128,
                                                    word_embed_proj_dim=64, max_position_embeddings=64), whole), ids(16)
    yield "bloom", make("BloomForCausalLM", lambda: t.BloomConfig(vocab_size=99, hidden_size=64, n_layer=2, n_head=4), whole), ids(16)
    yield "falcon", make("FalconForCausalLM", lambda: t.FalconConfig(vocab_size=99, hidden_size=64, num_hidden_layers=2, num_attention_heads=4),
                         causal), ids(16)
    yield "mamba_hf", make("MambaForCausalLM", lambda: t.MambaConfig(vocab_size=99, hidden_size=32, num_hidden_layers=1, state_size=4), whole), ids(6)
    t5 = t.T5Config(vocab_size=99, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4)
    yield "t5_encoder", make("T5EncoderModel", lambda: t5), ids(16)
    yield "t5_full", make("T5Model", lambda: t5, both), ids(16) + ids(8)
    bart = dict(vocab_size=99, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                encoder_ffn_dim=128, decoder_ffn_dim=128, max_position_embeddings=64)
    for name in ("Bart", "Marian", "Pegasus"):
        yield name.lower(), make(name + "Model", lambda: getattr(t, name + "Config")(**bart, pad_token_id=0, decoder_start_token_id=2), both), ids(16) + ids(8)
    yield "trocr_decoder", make("TrOCRForCausalLM", lambda: t.TrOCRConfig(vocab_size=99, d_model=32, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=64, cross_attention_hidden_size=32, is_decoder=True),
        lambda m, i, e: m(input_ids=i, encoder_hidden_states=e, use_cache=False, return_dict=False)[0]), ids(8) + (R(1, 12, 32),)
    yield "layoutlm", make("LayoutLMModel", lambda: t.LayoutLMConfig(**dict(text, max_2d_position_embeddings=128)), lambda m, i, b: m(input_ids=i, bbox=b, return_dict=False)[0]), ids(12) + (torch.randint(0, 60, (1, 12, 4)).sort(-1)[0],)
    yield "canine_like_xlm", make("XLMModel", lambda: t.XLMConfig(vocab_size=99, emb_dim=32, n_layers=2, n_heads=4), first), ids(12)
    yield "xlnet", make("XLNetModel", lambda: t.XLNetConfig(vocab_size=99, d_model=64, n_layer=2, n_head=4, d_inner=128)), ids(16)
    yield "longformer", make("LongformerModel", lambda: t.LongformerConfig(**small, attention_window=8, max_position_embeddings=80)), ids(16)
    yield "bigbird", make("BigBirdModel", lambda: t.BigBirdConfig(**small, attention_type="original_full")), ids(16)
    yield "funnel", make("FunnelBaseModel", lambda: t.FunnelConfig(vocab_size=99, block_sizes=[1, 1], d_model=64, n_head=4, d_head=16, d_inner=128)), ids(16)
    yield "esm", make("EsmModel", lambda: t.EsmConfig(**small, pad_token_id=1, mask_token_id=2, position_embedding_type="rotary")), ids(16)
    yield "squeezebert", make("SqueezeBertModel", lambda: t.SqueezeBertConfig(**dict(small, embedding_size=64))), ids(16)
    yield "ibert", make("IBertModel", lambda: t.IBertConfig(**small)), ids(16)
    yield "gptj", make("GPTJForCausalLM", lambda: t.GPTJConfig(vocab_size=99, n_embd=64, n_layer=2, n_head=4, rotary_dim=8), causal), ids(16)
    yield "gpt_bigcode", make("GPTBigCodeForCausalLM", lambda: t.GPTBigCodeConfig(vocab_size=99, n_embd=64, n_layer=2, n_head=4), whole), ids(16)
    yield "mpt", make("MptForCausalLM", lambda: t.MptConfig(vocab_size=99, d_model=64, n_layers=2, n_heads=4), whole), ids(16)
    yield "nemotron", make("NemotronForCausalLM", lambda: t.NemotronConfig(**grouped), causal), ids(16)
    yield "starcoder2", make("Starcoder2ForCausalLM", lambda: t.Starcoder2Config(**grouped), causal), ids(16)
    yield "persimmon", make("PersimmonForCausalLM", lambda: t.PersimmonConfig(**small, max_position_embeddings=64), causal), ids(16)
    yield "glm", make("GlmForCausalLM", lambda: t.GlmConfig(**grouped, head_dim=16, pad_token_id=0), causal), ids(16)
    yield "diffllama", make("DiffLlamaForCausalLM", lambda: t.DiffLlamaConfig(**grouped), causal), ids(16)
    yield "olmoe", make("OlmoeForCausalLM", lambda: t.OlmoeConfig(**grouped, num_experts=4, num_experts_per_tok=2), causal), ids(16)
    yield "xglm", make("XGLMForCausalLM", lambda: t.XGLMConfig(vocab_size=99, d_model=64, num_layers=2, attention_heads=4, ffn_dim=128, max_position_embeddings=64), whole), ids(16)
    yield "codegen", make("CodeGenForCausalLM", lambda: t.CodeGenConfig(vocab_size=99, n_embd=64, n_layer=2, n_head=4, rotary_dim=8), lambda m, i: m(input_ids=i, use_cache=False, return_dict=False)[0]), ids(16)
    yield "mbart", make("MBartModel", lambda: t.MBartConfig(vocab_size=99, d_model=64, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128), lambda m, i, d: m(input_ids=i, decoder_input_ids=d, use_cache=False, return_dict=False)[0]), ids(16) + ids(8)
    yield "deberta", make("DebertaModel", lambda: t.DebertaConfig(**small, relative_attention=True, pos_att_type=["c2p", "p2c"], max_relative_positions=16)), ids(16)
    yield "gpt_neo", make("GPTNeoForCausalLM", lambda: t.GPTNeoConfig(vocab_size=99, hidden_size=64, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], window_size=8), causal), ids(16)
    for name in ("Olmo", "Helium", "Cohere2", "Exaone4", "BitNet", "NanoChat", "Doge", "Olmo3", "SeedOss", "Arcee"):
        if hasattr(t, name + "Config"):
            more = dict(head_dim=16) if name == "Helium" else {}
            yield name.lower(), make(name + "ForCausalLM", lambda name=name, more=more: getattr(t, name + "Config")(**grouped_padded, **more), causal), ids(16)
    yield "deepseek_mla", make("DeepseekV3ForCausalLM", lambda: t.DeepseekV3Config(**dict(grouped_padded, num_key_value_heads=4), first_k_dense_replace=2, q_lora_rank=32, kv_lora_rank=32,
                               qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=16), causal), ids(16)
    yield "lfm2", make("Lfm2ForCausalLM", lambda: t.Lfm2Config(**grouped_padded, layer_types=["conv", "full_attention"]), causal), ids(16)
    yield "falcon_mamba", make("FalconMambaForCausalLM", lambda: t.FalconMambaConfig(vocab_size=99, hidden_size=32, num_hidden_layers=1, state_size=4), whole), ids(6)
    yield "mamba2", make("Mamba2ForCausalLM", lambda: t.Mamba2Config(vocab_size=99, hidden_size=32, num_hidden_layers=1, state_size=8, num_heads=4, head_dim=16, n_groups=1, chunk_size=8, expand=2), whole), ids(8)
    yield "xlstm_hf", make("xLSTMForCausalLM", lambda: t.xLSTMConfig(vocab_size=99, hidden_size=64, num_hidden_layers=1, num_heads=2, chunkwise_kernel="chunkwise--native_autograd", sequence_kernel="native_sequence__native",
                           step_kernel="native"), whole), ids(16)
    yield "longt5_local", make("LongT5EncoderModel", lambda: t.LongT5Config(vocab_size=99, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, local_radius=4)), ids(16)
    yield "prophetnet", make("ProphetNetEncoder", lambda: t.ProphetNetConfig(vocab_size=99, hidden_size=64, num_encoder_layers=2, num_encoder_attention_heads=4, encoder_ffn_dim=128)), ids(16)
    yield "yoso", make("YosoModel", lambda: t.YosoConfig(**small, use_expectation=True)), ids(16)
    yield "siglip2_text", make("Siglip2TextModel", lambda: t.Siglip2TextConfig(**dict(small, max_position_embeddings=16), projection_size=64)), ids(16)
    yield "gemma3", make("Gemma3ForCausalLM", lambda: t.Gemma3TextConfig(**grouped_padded, head_dim=16, sliding_window=8, layer_types=["sliding_attention", "full_attention"]),
                               lambda m, i: m(input_ids=i, attention_mask={k: torch.full((1, 1, 16, 16), -1e4).triu(1) for k in ("full_attention", "sliding_attention")}, use_cache=False, return_dict=False)[0]), ids(16)
    yield "bigbird_pegasus_encoder", make("BigBirdPegasusModel", lambda: t.BigBirdPegasusConfig(vocab_size=99, d_model=64, encoder_layers=1,
                                   decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, attention_type="original_full", max_position_embeddings=64),
                                   lambda m, i: m.encoder(i, return_dict=False)[0]), ids(16)
