"""The decoder and its training step in plain JAX, for `numformer bench train`."""

from functools import partial

import numpy as np

LEARNING_RATE, BETA1, BETA2, EPSILON, WEIGHT_DECAY, MOST_NORM = 1e-4, 0.9, 0.99, 1e-8, 0.1, 1.0


def parameters_of(model):
    """The weights of a `Decoder` with GPT-2's options and without biases, as JAX arrays by name.

    Raises
    ------
    ValueError
        If the decoder has other options.
    """
    import jax.numpy as jnp

    c = model.config
    if (c.bias, c.norm, c.feedforward, c.positions, c.tied, c.dropout) != (
            False, "layer_norm", "gelu_tanh", "learned", True, 0.0):
        raise ValueError("jax_decoder: model must have GPT-2's options, without biases and "
                         "dropout.")
    ours = model.state_dict()
    found = {name: ours[name] for name in ("embedding.weight", "positions.weight", "norm.weight")}
    for n in range(c.n_layers):
        block = f"blocks.{n}."
        found[f"{block}qkv"] = np.concatenate(
            [ours[f"{block}attention.{name}.weight"] for name in ("query", "key", "value")], axis=1)
        for name in ("norm1", "norm2", "attention.output", "feedforward.hidden",
                     "feedforward.output"):
            found[f"{block}{name}"] = ours[f"{block}{name}.weight"]
    return {name: jnp.array(array) for name, array in found.items()}


def loss(parameters, ids, targets, config):
    """The mean cross-entropy of a batch."""
    import jax
    import jax.numpy as jnp

    def norm(x, weight):
        centred = x - x.mean(-1, keepdims=True)
        variance = (centred * centred).mean(-1, keepdims=True)
        return weight * centred * jax.lax.rsqrt(variance + config.epsilon)

    B, T = ids.shape
    x = parameters["embedding.weight"][ids] + parameters["positions.weight"][:T]
    for n in range(config.n_layers):
        block = {name: parameters[f"blocks.{n}.{name}"] for name in (
            "norm1", "qkv", "attention.output", "norm2", "feedforward.hidden",
            "feedforward.output")}
        qkv = norm(x, block["norm1"]) @ block["qkv"]
        q, k, v = (z.reshape(B, T, config.n_heads, -1) for z in jnp.split(qkv, 3, axis=2))
        a = jax.nn.dot_product_attention(q, k, v, is_causal=True)     # (B, T, H, D)
        x = x + a.reshape(B, T, -1) @ block["attention.output"]
        hidden = jax.nn.gelu(norm(x, block["norm2"]) @ block["feedforward.hidden"])
        x = x + hidden @ block["feedforward.output"]
    logits = norm(x, parameters["norm.weight"]) @ parameters["embedding.weight"].T
    log_p = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(log_p, targets[..., None], axis=-1).mean()


def new_state(model):
    """What a step changes: parameters, both moments, and the number of steps."""
    import jax.numpy as jnp

    parameters = parameters_of(model)
    first, second = ({name: jnp.zeros_like(x) for name, x in parameters.items()} for _ in range(2))
    return parameters, first, second, jnp.zeros((), jnp.int32)


def training_step(config):
    """A compiled function: (state, ids, targets) to (state, loss), by AdamW with clipping."""
    import jax
    import jax.numpy as jnp

    # the old state's memory is given to the new one
    @partial(jax.jit, donate_argnums=0)
    def step(state, ids, targets):
        parameters, first, second, count = state
        value, gradients = jax.value_and_grad(loss)(parameters, ids, targets, config)
        norm = jnp.sqrt(sum((g * g).sum() for g in gradients.values()))
        factor, count = jnp.minimum(1.0, MOST_NORM / (norm + 1e-6)), count + 1
        for name, g in gradients.items():
            g = factor * g
            first[name] = BETA1 * first[name] + (1 - BETA1) * g
            second[name] = BETA2 * second[name] + (1 - BETA2) * g * g
            m = first[name] / (1 - BETA1 ** count)
            v = second[name] / (1 - BETA2 ** count)
            parameters[name] = (parameters[name] * (1 - LEARNING_RATE * WEIGHT_DECAY)
                                - LEARNING_RATE * m / (jnp.sqrt(v) + EPSILON))
        return (parameters, first, second, count), value

    return step
