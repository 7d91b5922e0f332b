"""What a model costs: parameters, operations a token, and the memory of its KV cache. No matrix is allocated for it."""

from numformer.layers import Linear, MixtureOfExperts, MultiHeadAttention, Unembedding
from numformer.models.decoder import Decoder
from numformer.models.encoder import Encoder
from numformer.models.encoder_decoder import EncoderDecoder
from numformer.models.encoder_decoder_config import EncoderDecoderConfig


def count(config):
    r"""Count by building the model of a config with arrays that take no memory, and walking over its layers.

    .. math:: \mathrm{FLOPs} = 2 \sum_W |W| + \sum_{\text{attention}} 4 H D\, n

    A multiplication and an addition are two operations. The first sum runs over all matrices that multiply (the output
    head among them, tied or not; lookup tables not); the second is q . k and p . v, over the n keys that a query sees at full context:
    T, or (T + 1) / 2 on average where attention is causal. A token of an encoder-decoder is one that is read together with one that
    is written, and so are the bytes of its cache. Of E experts only the k that a token passes are counted, in the sums and as active
    parameters. The backward pass costs twice the forward.

    Parameters
    ----------
    config : DecoderConfig or EncoderDecoderConfig

    Returns
    -------
    dict
        ``parameters``; ``active_parameters``, those that a token passes; ``flops_per_token`` of a forward pass;
        ``training_flops_per_token``, three times that; ``kv_bytes_per_token``, in the config's dtype.

    Examples
    --------
    >>> from numformer.models import CONFIGS
    >>> count(CONFIGS["gpt2-xl"])["parameters"]
    1557611200
    """
    model = EncoderDecoder(config, rng=None) if isinstance(config, EncoderDecoderConfig) else Decoder(config, rng=None)
    T, encoders = config.context_length, [part for _, part in model.named_layers() if isinstance(part, Encoder)]
    read = [id(layer) for encoder in encoders for _, layer in encoder.named_layers()]
    across = [id(block.cross_attention) for _, block in model.named_layers() if hasattr(block, "cross_attention")]
    parameters, flops = _numbers(model), 2 * _multiplied(model)
    active, kv_numbers = parameters, 0
    for _, layer in model.named_layers():
        if isinstance(layer, MixtureOfExperts):
            for expert in layer.experts[layer.k:]:                    # which k a token passes does not matter: they are alike
                active -= _numbers(expert)
                flops -= 2 * _multiplied(expert)
        if isinstance(layer, MultiHeadAttention):
            flops += 4 * layer.n_heads * layer.d_head * (T if id(layer) in read + across else (T + 1) / 2)
            kv_numbers += 0 if id(layer) in read else 2 * layer.n_kv_heads * layer.d_head      # an encoder remembers nothing
    return {
        "parameters": parameters,
        "active_parameters": active,
        "flops_per_token": round(flops),
        "training_flops_per_token": round(3 * flops),
        "kv_bytes_per_token": kv_numbers * model.embedding.weight.data.itemsize,
    }


def _numbers(layer):
    """All its parameters' numbers."""
    return sum(parameter.data.size for parameter in layer.parameters())


def _multiplied(layer):
    """The numbers of its matrices that multiply."""
    return sum(part.weight.data.size for _, part in layer.named_layers() if isinstance(part, (Linear, Unembedding)))
