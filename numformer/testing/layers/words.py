"""How alike two names of weights are: the same parts have many names."""

import re
from functools import cache

WORDS = {
    "query": "q wq queries", "key": "k wk keys", "value": "v wv values",
    "output": "o wo out down fc2 linear2 w2 w_o", "gate": "w1 gating",
    "hidden": "up fc fc1 linear1 intermediate w3 inner", "attention": "attn mha att",
    "feedforward": "mlp ffn ff feed", "weight": "w gamma g kernel scale gain",
    "bias": "b beta shift offset", "norm": "ln layernorm rmsnorm layer_norm",
    "embedding": "wte embed token tok tokens embeddings emb", "positions": "wpe position pos",
    "head": "lm unembed unembedding classifier", "blocks": "layers h block", "experts": "expert",
    "router": "gating_network", "cross": "crossattention encdec multihead"}
SAME = {word: name for name, words in WORDS.items() for word in [name, *words.split()]}
DROPPED = {"proj", "self", "dense", "c", "module", "model", "params", "parameters", "transformer",
           "projection", "weights", "linear", "forward", "multi"}
KINDS = {"weight", "bias"}


@cache
def words_of(name):
    """The words of a name, those of the field as one of ours.

    Examples
    --------
    >>> sorted(words_of("self_attn.q_proj.weight"))
    ['attention', 'query', 'weight']
    """
    text = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
    text = text.replace("input_layernorm", "norm_1").replace("post_attention_layernorm", "norm_2")
    text = text.replace("mlp.c_proj", "mlp.output").replace("mlp.c_fc", "mlp.hidden")
    text = re.sub(r"attn\.c_proj", "attn.output", text)
    found = set()
    for word in re.split(r"[^a-z0-9]+", text):
        parts = [word] if word in SAME else re.findall(r"[a-z]+|\d+", word)
        for part in parts:
            if part not in DROPPED:
                found.add(SAME.get(part, part))
    return frozenset(found)


def score(theirs, ours):
    """How well two names fit: shared words, fewer for each that only one has; kinds must agree.

    Examples
    --------
    >>> score("mlp.gate_proj.weight", "feedforward.gate.weight") > score(
    ...     "mlp.gate_proj.weight", "feedforward.hidden.weight")
    True
    """
    a, b = words_of(theirs), words_of(ours)
    kinds = a & KINDS, b & KINDS
    wrong = 4 if all(kinds) and kinds[0] != kinds[1] else 0
    return len(a & b) - 0.25 * len(a ^ b) - wrong
