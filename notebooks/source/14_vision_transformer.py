# %% [markdown]
# # 14. The Vision Transformer
#
# Time: about 15 seconds on 2 cores.
#
# **Goals.** Turn an image into tokens; see that two ways of embedding patches are the same; use
# positions in two dimensions; see what a model attends to.
#
# **Before.** Notebooks 3 to 6. (Needs scikit-learn: `pip install 'numformer[data]'`.)

# %%
# %matplotlib inline
import numpy as np

from numformer import check
from numformer.analysis import attention_rollout, count
from numformer.analysis.attention_views import Reading, attention_views
from numformer.data import LabelledStream, labelled_batches, load_digits
from numformer.layers import PatchEmbedding
from numformer.models import VISION_CONFIGS, VisionTransformer, VisionTransformerConfig
from numformer.plots import attention_grid, patch_attention, position_similarity
from numformer.training import Trainer, TrainingConfig, accuracy

# %% [markdown]
# ## An image is a sequence of patches
#
# Cut the image into square patches, flatten each and project it: the results are the tokens. A
# convolution whose stride equals its kernel size is the same map with the same weights.

# %%
digits, rng = load_digits(), np.random.default_rng(0)
images = digits.train_images.astype(np.float32)
print(images.shape)                                                   # (N, height, width, channels)
flat = PatchEmbedding(8, 2, 1, 32, rng, "flatten", dtype=np.float64)
convolution = PatchEmbedding(8, 2, 1, 32, rng, "convolution", dtype=np.float64)
convolution.weight.data[:] = flat.weight.data.reshape(convolution.weight.data.shape)
convolution.bias.data[:] = flat.bias.data
x = images[:3].astype(np.float64)
print(flat(x).shape, np.abs(flat(x) - convolution(x)).max())          # (B, T, C)

# %% [markdown]
# ## The model
#
# The model prepends a class token to the patches, adds learned positions, applies an encoder
# without a mask, and maps the output at the class token to logits.
#
# $$x^0 = [\, c;\; \mathrm{patches} + \mathrm{positions} \,], \qquad
# z = \mathrm{encoder}(x^0)_{0}\, W + b$$

# %%
config = VisionTransformerConfig(image_size=8, patch_size=2, channels=1, n_classes=10, n_layers=3,
                                 n_heads=4, d_model=48, positions="learned_2d", dropout=0.1,
                                 init_std=0.1)
model = VisionTransformer(config, np.random.default_rng(0))
model.label_smoothing = 0.1
test = labelled_batches(digits.test_images.astype(np.float32), digits.test_labels)
training = TrainingConfig(steps=450, batch_size=64, optimizer="muon", muon_ratio=3.0,
                          learning_rate=3e-3, min_learning_rate=0.0, warmup_steps=30)
trainer = Trainer(model, LabelledStream(images, digits.train_labels, 64, 0), test, training)
for step in range(training.steps):
    trainer.train_step()
print(f"{accuracy(model, test):.1%} of {len(digits.test_labels)} test images")

# %% [markdown]
# ## What it attends to
#
# The class token's attention in each layer, and its rollout through all layers:

# %%
image = digits.test_images[[4]].astype(np.float32)                    # (1, height, width, channels)
names = ["[CLS]", *(f"{row},{column}" for row in range(1, 5) for column in range(1, 5))]
view, = attention_views(model, Reading((image,), names, image=image[0]))
attention = [weights.mean(axis=0)[0, 1:] for weights in view.weights]
attention.append(attention_rollout(view.weights)[0, 1:])              # each of the patches (16,)
patch_attention(np.repeat(image, 4, axis=0), np.array(attention),
                ["layer 1", "layer 2", "layer 3", "rollout"],
                title=f"A {digits.test_labels[4]}").figure

# %%
attention_grid(view.weights, title="All heads: rows and columns are patches").figure

# %% [markdown]
# The positions were learned: which patches have similar position vectors? This model has one vector
# for each row and one for each column, so patches of the same row or column are similar from the
# start; training adds how similar neighbouring rows and columns are. (A model with a separate
# vector for every patch, `positions="learned"`, has to learn all of it.)

# %%
vectors = model.positions(np.zeros((1, 16, 48), np.float32))[0]       # (T, C)
position_similarity(vectors).figure

# %% [markdown]
# ## Which pixels does the prediction depend on?
#
# The backward continues to the image: it gives the gradient of a class's logit with respect to
# every pixel.

# %%
logits, saved = model.forward(image)
dlogits = np.zeros_like(logits)
dlogits[0, logits.argmax()] = 1
dimage = model.backward(dlogits, saved)
strongest = np.unravel_index(np.abs(dimage[0, ..., 0]).argmax(), (8, 8))
print(dimage.shape, "the pixel with the largest gradient:", tuple(map(int, strongest)))

# %%
for name in ("vit-base", "vit-large"):
    print(f"{name}: {count(VISION_CONFIGS[name])['parameters'] / 1e6:.1f} M parameters")

# %% [markdown]
# ## Is the gradient right?

# %%
def patch_convolution_backward(dy, images, weight, bias):
    """images (B, H, W, c), weight (P, P, c, C), dy (B, H / P, W / P, C)."""
    (B, H, W, c), (P, _, _, C) = images.shape, weight.shape
    patches = images.reshape(B, H // P, P, W // P, P, c).transpose(0, 1, 3, 2, 4, 5)
    patches = patches.reshape(-1, P * P * c)                          # (B H W / P^2, P P c)
    dy = dy.reshape(-1, C)
    dpatches = dy @ weight.reshape(-1, C).T
    dimages = dpatches.reshape(B, H // P, W // P, P, P, c).transpose(0, 1, 3, 2, 4, 5)
    return dimages.reshape(images.shape), (patches.T @ dy).reshape(weight.shape), dy.sum(axis=0)


check("patch_convolution_backward", patch_convolution_backward, seed=0)

# %% [markdown]
# ## Exercises
#
# 1. Apply one fixed permutation to the patches of all images. Does the model learn as well? (What
#    does it encode about neighbouring patches at initialisation?)
# 2. Use mean pooling instead of a class token: what changes in the code, and in the picture?
# 3. `numformer explore` on a run of the preset `vit`, with `--text 4`.
