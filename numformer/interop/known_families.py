"""Which published families are served, and what others lack.

What is served is what `FAMILIES` has. Of others that are often asked for, `LACKS` says what their
models have and ours lack; a folder of such a model is refused with these words.
"""

from numformer.interop.families import FAMILIES

_ONE_NORM = "one norm for two branches that run in parallel"
_LATENT = "keys and values from a latent vector of fewer coordinates"
_CONVOLUTION = "convolutions over sound before its encoder"
# model_type of config.json -> what models of ours lack
LACKS = {
    "albert": "one block for all layers, and an embedding narrower than the model",
    "big_bird": "attention to blocks of random keys",
    "codegen": f"{_ONE_NORM}, and queries, keys and values in an order of its own",
    "cohere": f"{_ONE_NORM}, and scaled logits",
    "deberta": "scores of content with position, each with a map of its own",
    "deberta-v2": "scores of content with position, each with a map of its own",
    "deepseek_v2": f"{_LATENT}, and experts that every token uses",
    "deepseek_v3": f"{_LATENT}, and experts that every token uses",
    "detr": "a table of its weights and those of its convolutional network",
    "dinov2": "a trained factor for each coordinate of a branch",
    "electra": "an embedding narrower than the model, and a head that tells replaced tokens",
    "falcon": f"{_ONE_NORM}, and norms with a bias next to linear maps without one",
    "gemma3n": "embeddings for each layer, and layers that share keys and values",
    "gpt_bigcode": "a table of its joint matrix with one key-value head",
    "gpt_oss": "a trained score in each head that takes part in the softmax",
    "gptj": f"{_ONE_NORM}, and attention without a bias next to a feed-forward with one",
    "granite": "factors of embeddings, branches, scores and logits",
    "llama4": "layers without rotary positions, and experts that every token uses",
    "longformer": "global tokens among local ones, with maps of their own",
    "mamba": "a state-space layer",
    "mamba2": "a state-space layer",
    "marian": "sinusoids in two halves, and a bias of logits",
    "olmo": "norms without weights",
    "olmo2": "norms after the branches alone, and norms of queries and keys over all heads",
    "olmoe": "norms of queries and keys over all heads",
    "pegasus": "sinusoids in two halves",
    "persimmon": "norms of queries and keys with a bias, and a squared ReLU",
    "phi": _ONE_NORM,
    "phimoe": "a router that chooses its experts one after the other",
    "qwen2_moe": "an expert that every token uses, with a gate",
    "qwen3_next": "layers of linear attention with a gated state",
    "reformer": "attention to keys of one hash bucket",
    "rwkv": "a recurrent layer of its own",
    "siglip": "a sigmoid loss, and pooling by attention",
    "smollm3": "layers without rotary positions",
    "stablelm": "norms with a bias next to linear maps without one",
    "swin": "a table of its weights",
    "umt5": "a table of distances in every layer",
    "wav2vec2": _CONVOLUTION,
    "whisper": _CONVOLUTION,
    "xlnet": "two streams of attention, and scores of content with position",
}


def not_served(model_type):
    """Why a `model_type` is not known, as the end of a message.

    Examples
    --------
    >>> not_served("olmo")
    'ours lack norms without weights'
    """
    if isinstance(model_type, str) and model_type in LACKS:
        return f"ours lack {LACKS[model_type]}"
    served = dict.fromkeys(family.model_type for family in FAMILIES.values())
    return f"these are: {', '.join(served)}"


def page():
    """The page of the documentation: what is served, and what the others lack."""
    lines = [
        "# Published families", "",
        "Folders of these models are read and written: `numformer import`, `numformer export` and "
        "`numformer.interop`. The class is that of `architectures` in config.json. A family is a "
        "table of weights on a page next to its model, see "
        "[add a model](../numformer/ADDING_A_MODEL.md).", "",
        "| model_type | architectures | model of ours |", "|---|---|---|"]
    for name in sorted({family.model_type for family in FAMILIES.values()}):
        kinds = {}
        for family in FAMILIES.values():
            if family.model_type == name:
                kinds.setdefault(family.kind, []).extend(family.architectures)
        lines += [f"| {name} | {', '.join(architectures)} | `{kind}` |"
                  for kind, architectures in kinds.items()]
    lines += ["", "## What others need", "", "| model_type | what our models lack |", "|---|---|"]
    lines += [f"| {name} | {lacks} |" for name, lacks in sorted(LACKS.items())]
    return "\n".join(lines) + "\n"
