"""The decoder in CTranslate2, a C++ engine for inference, for `numformer bench generate`."""

from tempfile import TemporaryDirectory

import numpy as np

from numformer.benchmarks.cases import check_gpt2

# Norm of the error of the logits, relative to their norm. Rounding costs 1e-6 in float32; the
# exact GELU instead of the tanh one 2e-4; int8, which also rounds activations, 0.03.
MOST_ERROR = {"float32": 1e-5, "int8": 0.1}


def new_generator(model, threads, compute_type="float32"):
    """A `ctranslate2.Generator` with the weights of a `Decoder` with GPT-2's options.

    Parameters
    ----------
    model : Decoder
    threads : int
    compute_type : "float32" or "int8"
        Weights of int8 are made from the float32 ones, which are checked first.

    Raises
    ------
    ValueError
        If the decoder has other options, or its logits differ from CTranslate2's.
    """
    import ctranslate2

    with TemporaryDirectory() as folder:
        save(model, folder)
        for kind in dict.fromkeys(["float32", compute_type]):
            generator = ctranslate2.Generator(folder, device="cpu", inter_threads=1,
                                              intra_threads=threads, compute_type=kind)
            check_logits(generator, model, kind)
    return generator


def save(model, folder):
    """Write the weights in CTranslate2's format; the token of an id is the id as a string."""
    from ctranslate2.specs import TransformerDecoderModelSpec, common_spec

    check_gpt2("ctranslate2_decoder", model)
    c, ours = model.config, model.state_dict()
    spec = TransformerDecoderModelSpec.from_config(c.n_layers, c.n_heads, pre_norm=True,
                                                   activation=common_spec.Activation.GELUTanh)
    decoder = spec.decoder
    decoder.scale_embeddings = False
    decoder.embeddings.weight = decoder.projection.weight = ours["embedding.weight"]
    decoder.position_encodings.encodings = ours["positions.weight"]
    _set_norm(decoder.layer_norm, ours, "norm")
    for n, layer in enumerate(decoder.layer):
        block, attention, feed_forward = f"blocks.{n}.", layer.self_attention, layer.ffn
        _set_norm(attention.layer_norm, ours, f"{block}norm1")
        _set_linear(attention.linear[0], ours,
                    *(f"{block}attention.{name}" for name in ("query", "key", "value")))
        _set_linear(attention.linear[1], ours, f"{block}attention.output")
        _set_norm(feed_forward.layer_norm, ours, f"{block}norm2")
        _set_linear(feed_forward.linear_0, ours, f"{block}feedforward.hidden")
        _set_linear(feed_forward.linear_1, ours, f"{block}feedforward.output")
    spec.config.layer_norm_epsilon = c.epsilon
    spec.config.unk_token = "0"                          # otherwise one is added to the vocabulary
    spec.register_vocabulary([str(i) for i in range(c.vocab_size)])
    spec.validate()
    spec.optimize()                                                   # the tied head is stored once
    spec.save(folder)


def _set_norm(spec, ours, name):
    """Set a norm: CTranslate2 calls the weight gamma and the bias beta, and needs both."""
    weight = ours[f"{name}.weight"]
    spec.gamma, spec.beta = weight, ours.get(f"{name}.bias", np.zeros_like(weight))


def _set_linear(spec, ours, *names):
    """Set layers with the same input: one product, with weights as rows of outputs."""
    spec.weight = np.concatenate([ours[f"{name}.weight"] for name in names], axis=1).T
    if f"{names[0]}.bias" in ours:
        spec.bias = np.concatenate([ours[f"{name}.bias"] for name in names])


def check_logits(generator, model, compute_type="float32"):
    """Refuse a generator that computes something else than the model, at any position.

    Raises
    ------
    ValueError
        If the logits of random ids differ by more than the precision allows.
    """
    c = model.config
    ids = np.random.default_rng(0).integers(0, c.vocab_size, (2, c.context_length))
    ours, theirs = model(ids), np.array(generator.forward_batch(ids.tolist()))     # (B, T, V)
    error = float(np.linalg.norm(theirs - ours) / np.linalg.norm(ours))
    if not error <= MOST_ERROR[compute_type]:                          # NaN is refused too
        raise ValueError(f"ctranslate2_decoder: CTranslate2's logits in {compute_type} differ from "
                         f"numformer's by {error:.1e} of their norm, and not by at most "
                         f"{MOST_ERROR[compute_type]:g}: it computes something else, so its speed "
                         "says nothing.")
