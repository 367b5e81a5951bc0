"""Networks of diffusers."""
import torch
import diffusers as d

from .parts import Part, R, first


def networks():
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
