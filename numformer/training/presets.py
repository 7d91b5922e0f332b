"""Named runs: what `numformer train --preset NAME` trains, and how."""

# Each preset is a pair: switches of DecoderConfig without the vocabulary, which comes from the data, and of TrainingConfig.
PRESETS = {
    "tiny": (
        dict(context_length=64, n_layers=3, n_heads=4, d_model=96, norm="rms_norm", feedforward="swiglu", positions="rotary",
             query_key_norm=True, bias=False, init_std=0.08),
        dict(steps=640, batch_size=16, learning_rate=4e-3, min_learning_rate=2e-4, warmup_steps=30, eval_every=160, save_every=160),
    ),
    # nanoGPT's character model for a CPU (Karpathy 2022), with tanh GELU as GPT-2's own code has it
    "nanogpt-cpu": (
        dict(context_length=64, n_layers=4, n_heads=4, d_model=128, bias=False),
        dict(steps=2000, batch_size=12, learning_rate=1e-3, min_learning_rate=1e-4, warmup_steps=100, eval_every=500, save_every=250),
    ),
    # nanoGPT's character model for an accelerator: hours on a laptop
    "nanogpt": (
        dict(context_length=256, n_layers=6, n_heads=6, d_model=384, bias=False, dropout=0.2),
        dict(steps=5000, batch_size=64, shards=8, learning_rate=1e-3, min_learning_rate=1e-4, warmup_steps=100, eval_every=250,
             save_every=50),
    ),
}
