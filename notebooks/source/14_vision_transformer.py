# %% [markdown]
# # 14. The Vision Transformer
#
# Time: about 15 seconds on 2 cores.
#
# **Goals.** Make tokens of an image; see two ways of embedding patches that are one; positions in two dimensions; look at what a model
# looks at.
#
# **Before.** Notebooks 3 to 6. (Needs scikit-learn: `pip install 'numformer[data]'`.)

# %%
# %matplotlib inline
import numpy as np

from numformer import check
from numformer.datasets import load_digits
from numformer.layers import PatchEmbedding
from numformer.models import VISION_CONFIGS, VisionTransformer, VisionTransformerConfig, count
from numformer.plots import attention_grid, attention_rollout, patch_attention, position_similarity
from numformer.plots.views import Reading, attention_views
from numformer.training import LabelledStream, Trainer, TrainingConfig, accuracy, labelled_batches

# %% [markdown]
# ## An image is a sequence of patches
#
# Cut the image into squares, flatten each, project it: tokens. A convolution whose stride is its size is the same map with the same
# weights.

# %%
digits, rng = load_digits(), np.random.default_rng(0)
images = digits.train_images.astype(np.float32)
print(images.shape)                                                   # (N, height, width, channels)
flat = PatchEmbedding(8, 2, 1, 32, rng, "flatten", dtype=np.float64)
convolution = PatchEmbedding(8, 2, 1, 32, rng, "convolution", dtype=np.float64)
convolution.weight.data[:], convolution.bias.data[:] = flat.weight.data.reshape(convolution.weight.data.shape), flat.bias.data
x = images[:3].astype(np.float64)
print(flat(x).shape, np.abs(flat(x) - convolution(x)).max())          # (B, T, C)

# %% [markdown]
# ## The model
#
# A class token before the patches, learned positions, an encoder without a mask, and a linear map of what the class token has seen.
#
# $$x^0 = [\, c;\; \mathrm{patches} + \mathrm{positions} \,], \qquad z = \mathrm{encoder}(x^0)_{0}\, W + b$$

# %%
config = VisionTransformerConfig(image_size=8, patch_size=2, channels=1, n_classes=10, n_layers=3, n_heads=4, d_model=48,
                                 positions="learned_2d", dropout=0.1, init_std=0.1, label_smoothing=0.1)
model = VisionTransformer(config, np.random.default_rng(0))
test = labelled_batches(digits.test_images.astype(np.float32), digits.test_labels)
training = TrainingConfig(steps=450, batch_size=64, optimizer="muon", muon_ratio=3.0, learning_rate=3e-3, min_learning_rate=0.0,
                          warmup_steps=30)
trainer = Trainer(model, LabelledStream(images, digits.train_labels, 64, 0), test, training)
for step in range(training.steps):
    trainer.train_step()
print(f"{accuracy(model, test):.1%} of {len(digits.test_labels)} test images")

# %% [markdown]
# ## What it looks at
#
# The class token's attention in each layer, and rolled out through all of them:

# %%
shown = digits.test_images[[4]].astype(np.float32)
names = ["[CLS]", *(f"{row},{column}" for row in range(1, 5) for column in range(1, 5))]
(view,) = attention_views(model, Reading((shown,), names, image=shown[0]))
looks = [weights.mean(axis=0)[0, 1:] for weights in view.weights] + [attention_rollout(view.weights)[0, 1:]]
patch_attention(np.repeat(shown, 4, axis=0), np.array(looks), ["layer 1", "layer 2", "layer 3", "rollout"],
                title=f"A {digits.test_labels[4]}").figure

# %%
attention_grid(view.weights, title="All heads: rows and columns are patches").figure

# %% [markdown]
# Positions that were learned: which patches think themselves alike? This model has one vector for each row and one for each column, so
# those of the same row or column begin alike; what training adds is how like neighbouring rows and columns are. (A model with a vector
# of its own for every patch, `positions="learned"`, has to find all of it out.)

# %%
vectors = model.positions(np.zeros((1, 16, 48), np.float32))[0]
position_similarity(vectors).figure

# %% [markdown]
# ## Which pixels speak for the answer?
#
# The backward goes on to the image: the gradient of a class's logit by every pixel.

# %%
logits, saved = model.forward(shown)
dlogits = np.zeros_like(logits)
dlogits[0, logits.argmax()] = 1
dimage = model.backward(dlogits, saved)
print(dimage.shape, "the strongest pixel:", np.unravel_index(np.abs(dimage[0, ..., 0]).argmax(), (8, 8)))

# %%
for name in ("vit-base", "vit-large"):
    print(f"{name}: {count(VISION_CONFIGS[name])['parameters'] / 1e6:.1f} M parameters")

# %% [markdown]
# ## Is the gradient right?

# %%
def patch_convolution_backward(dy, images, weight, bias):
    """images (B, H, W, c), weight (P, P, c, C), dy (B, H / P, W / P, C)."""
    (B, H, W, c), (P, _, _, C) = images.shape, weight.shape
    cut = images.reshape(B, H // P, P, W // P, P, c).transpose(0, 1, 3, 2, 4, 5).reshape(-1, P * P * c)
    dcut = dy.reshape(-1, C) @ weight.reshape(-1, C).T
    dimages = dcut.reshape(B, H // P, W // P, P, P, c).transpose(0, 1, 3, 2, 4, 5).reshape(images.shape)
    return dimages, (cut.T @ dy.reshape(-1, C)).reshape(weight.shape), dy.reshape(-1, C).sum(axis=0)


check("patch_convolution_backward", patch_convolution_backward, seed=0)

# %% [markdown]
# ## Exercises
#
# 1. Shuffle the patches of all images in one fixed way. Does the model learn as well? (What does it know of neighbours at first?)
# 2. Mean pooling instead of a class token: what changes in the code, and in the picture?
# 3. `numformer explore` on a run of the preset `vit`, with `--text 4`.
