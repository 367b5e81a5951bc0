"""Networks of torchaudio."""
import torch
import torchaudio

from .parts import Part, R


audio = torchaudio.models


def networks():
    yield "conv_tasnet", lambda: audio.ConvTasNet(enc_num_feats=32, msk_num_feats=16, msk_num_hidden_feats=32, msk_num_layers=3, msk_num_stacks=2), (R(1, 1, 400),)
    yield "deepspeech", lambda: audio.DeepSpeech(n_feature=20, n_hidden=64), (R(1, 1, 12, 20),)
    yield "wavernn", lambda: audio.WaveRNN([2, 2, 4], n_classes=32, hop_length=16, n_res_block=2, n_rnn=32, n_fc=32, kernel_size=3, n_freq=20, n_hidden=16, n_output=16), \
        (R(1, 1, 32), R(1, 1, 20, 4))
    yield "hdemucs", lambda: audio.HDemucs(["a", "b"], nfft=256, depth=3, channels=8), (R(1, 2, 2048),)
    yield "wav2letter", lambda: audio.Wav2Letter(num_classes=20, input_type="mfcc", num_features=13), (R(1, 13, 80),)
    yield "emformer", lambda: Part(audio.Emformer(32, 4, 64, 2, 4), lambda m, x: m(x, torch.tensor([16]))[0]), (R(1, 16, 32),)
    yield "tacotron_postnet", lambda: Part(audio.Tacotron2(encoder_embedding_dim=32, n_mels=20, postnet_embedding_dim=32), lambda m, x: x + m.postnet(x)), (R(1, 20, 30),)
    yield "tacotron_encoder", lambda: Part(audio.Tacotron2(encoder_embedding_dim=32), lambda m, x: m.encoder(m.embedding(x).transpose(1, 2), torch.tensor([10]))), (torch.randint(2, 99, (1, 10)),)
    yield "squim", lambda: audio.squim_objective_base(), (R(1, 4000),)
