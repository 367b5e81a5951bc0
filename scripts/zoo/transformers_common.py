"""What the lists of transformers share: small configurations, and ways to call a model."""
import torch
import transformers as t

from .parts import Part, first

small = dict(vocab_size=99, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
grouped = dict(small, num_key_value_heads=2, max_position_embeddings=64)
grouped_padded = dict(grouped, pad_token_id=0)
tiny = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
text = dict(tiny, vocab_size=99)
small_image = {key: value for key, value in small.items() if key != "vocab_size"}
eager = dict(attn_implementation="eager")
vit = dict(small_image, image_size=64, patch_size=16, initializer_range=0.02)


def make(kind, config, run=first):
    """Maker of a model of a class, whose attention is written out, with random weights."""
    def model():
        of = getattr(t, kind)
        return Part(of._from_config(config(), **eager) if hasattr(of, "_from_config") else of(config()), run)
    return model


def ids(count):
    return (torch.randint(3, 99, (1, count)),)


def later(count):
    """A mask as an argument: what the models make of none cannot be traced."""
    return torch.full((1, 1, count, count), -1e4).triu(1)


def causal(model, ids):
    return model(input_ids=ids, attention_mask=later(ids.shape[1]), use_cache=False, return_dict=False)[0]


def whole(model, ids):
    return model(input_ids=ids, use_cache=False, return_dict=False)[0]


def both(model, ids, decoded):
    return model(input_ids=ids, decoder_input_ids=decoded, decoder_attention_mask=later(decoded.shape[1]), use_cache=False, return_dict=False)[0]
