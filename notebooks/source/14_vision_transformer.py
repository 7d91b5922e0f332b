# %% [markdown]
# # 14. The Vision Transformer
#
# **Question.** A Transformer reads a sequence of vectors. How can it read an image, which is a grid
# of pixels, without any convolution over neighbouring pixels?
#
# **You will learn** to
#
# - implement the step from an image to a sequence of patch vectors, and derive its gradient;
# - explain why a linear map of patches is a convolution with a stride of one patch;
# - explain class token, mean pooling and positions in two dimensions;
# - measure what positions contribute, and what the model knows of neighbourhood.
#
# **You need** lessons 2, 3 and 5: attention, positions, the block; the gradient of a linear map.
#
# **Time.** 2 x 45 minutes; the cells run in about 30 seconds.

# %% tags=["setup"]
# %matplotlib inline
import numpy as np
from matplotlib.figure import Figure

from numformer import check, hint, solution
from numformer.analysis import attention_rollout, count
from numformer.analysis.attention_views import Reading, attention_views
from numformer.data import LabelledStream, labelled_batches, load_digits
from numformer.models import VISION_CONFIGS, VisionTransformer, VisionTransformerConfig
from numformer.plots import image_grid, patch_attention, position_similarity
from numformer.training import Trainer, TrainingConfig, accuracy

digits = load_digits()
train = digits.train_images.astype(np.float32)                        # (N, height, width, 1)
test = digits.test_images.astype(np.float32)

# %% [markdown] minutes=15
# ## An image is a sequence of patches
#
# A sequence model could take the pixels one by one, but an image of 224 x 224 pixels would be a
# sequence of 50,176 tokens, and attention compares each with each. So we cut the image into square
# *patches* and take each patch as one token, as a sentence is read in words and not in strokes of
# the pen. On the left is a digit of 8 x 8 pixels, on the right the same digit cut into 16
# patches of 2 x 2 pixels.

# %%
def cut(images, P):
    """Images (B, height, width, channels) to patches (B, T, P * P * channels)."""
    B, height, width, channels = images.shape
    y = images.reshape(B, height // P, P, width // P, P, channels)
    y = y.transpose(0, 1, 3, 2, 4, 5)     # (B, rows, columns, P, P, channels)
    return y.reshape(B, -1, P * P * channels)


patches = cut(test[[4]], 2)                                           # (1, 16, 4)
# %% tags=["hide-input"]
left, right = Figure(figsize=(7, 3.4)).subplots(1, 2)
image_grid(test[[4], None, ..., 0], [""], ax=left, title="An image")
right.set_facecolor("orange")
image_grid(patches.reshape(4, 4, 2, 2), [""] * 4, ax=right, title="Its 16 patches").figure

# %% [markdown]
# The cut needs no arithmetic: it only rearranges numbers. An image has shape (height, width, K)
# with K channels, such as red, green and blue. With patches of P x P pixels,
#
# $$T = \frac{\text{height}}{P} \cdot \frac{\text{width}}{P} \text{ patches of } P^2 K
# \text{ numbers}; \qquad 224 \times 224 \times 3 \;\to\; 196 \times 768 \text{ for } P = 16$$
#
# As in a language model, each token then becomes a vector of the model's width C. A word is looked
# up in a table; a patch, which is already a list of numbers, is multiplied by a matrix E:
#
# $$X = \mathrm{cut}(\text{image})\, E + b \qquad (T, P^2 K)(P^2 K, C) \to (T, C)$$
#
# From here on the model is the encoder that you know: blocks of self-attention and feed-forward
# network. It has no mask. Words of the future have to be hidden from a model that predicts them,
# but all patches of an image are given at once.
#
# > A Vision Transformer cuts an image into patches, maps each linearly to a vector, and treats the
# > vectors as a sequence of tokens that all attend to each other.

# %% [markdown] minutes=20
# ## The patch embedding is a convolution
#
# The published models compute the embedding as a convolution. Is that another model? A convolution
# moves a filter of P x P pixels over the image and takes the products with what is under it. Its
# *stride* is the number of pixels from one position of the filter to the next. With a stride of P,
# filters never overlap: each position of the filter is one patch. For the patch in row r and
# column c, with one matrix $W_{ij}$ of shape (K, C) for each pixel (i, j) of a patch,
#
# $$y_{rc} = \sum_{i=0}^{P-1} \sum_{j=0}^{P-1} x_{rP + i,\; cP + j}\, W_{ij} + b$$
#
# The double sum runs over the $P^2 K$ numbers of one patch. So it is the product of the flattened
# patch and the matrix E whose rows are those of all $W_{ij}$, one below the other. It is the same
# map with the same weights in another layout.
#
# Now the gradient. Let $\bar{y} = \partial L / \partial y$ be the gradient of the loss L with
# respect to y; code names it `dy`. We go backwards through $Z = \mathrm{cut}(x)$, $Y = Z E + b$,
# where Z has all patches of the batch as its B T rows:
#
# 1. $Y = Z E + b$: the bias is added to each row, so the gradients of all rows add:
#
# $$\bar{b} = \sum_{n=1}^{BT} \bar{Y}_n \qquad (C)$$
#
# 2. The product: each factor receives $\bar{Y}$ times the other factor, transposed so that the
#    shapes fit. The sum over rows in $\bar{E}$ is that over all patches which share E:
#
# $$\bar{E} = Z^\top \bar{Y} \quad (P^2 K, C), \qquad
# \bar{Z} = \bar{Y} E^\top \quad (BT, P^2 K)$$
#
# 3. $Z = \mathrm{cut}(x)$ moves numbers without changing them, so each gradient moves back to the
#    pixel it belongs to: $\bar{x} = \mathrm{cut}^{-1}(\bar{Z})$. No pixel is in two patches, so
#    nothing is added.

# %%
def patch_convolution_backward(dy, images, weight, bias):
    """images (B, height, width, K), weight (P, P, K, C), dy (B, rows, columns, C)."""
    (B, height, width, K), (P, _, _, C) = images.shape, weight.shape
    Z, E, dY = cut(images, P).reshape(-1, P * P * K), weight.reshape(-1, C), dy.reshape(-1, C)
    # Y = Z @ E + b
    dbias, dE, dZ = dY.sum(axis=0), Z.T @ dY, dY @ E.T
    # Z = cut(images): reshape and transpose, in reverse order
    dimages = dZ.reshape(B, height // P, width // P, P, P, K).transpose(0, 1, 3, 2, 4, 5)
    return dimages.reshape(images.shape), dE.reshape(weight.shape), dbias


check("patch_convolution_backward", patch_convolution_backward, seed=0)

# %% [markdown]
# > With a stride of one patch, a convolution is a linear map of each patch: the same numbers in
# > another layout, and the same gradient.
#
# **Exercise 14.1** (10 minutes). The last step alone: $y = \mathrm{cut}(x)$ with y of shape
# (B, T, P P K). Bring `dy` back to the shape of the images. Which transposition undoes
# (0, 1, 3, 2, 4, 5)? `hint("patches_backward")` helps; after a pass, `solution("patches_backward")`
# shows ours.

# %%
def patches_backward(dy, images, patch_size):
    """dy (B, T, P P K), images (B, height, width, K). Return dimages."""
    ...


check("patches_backward", patches_backward, seed=0)

# %% [markdown] minutes=10
# ## From many vectors to one answer
#
# The encoder returns T vectors, one for each patch, but an image has one class. There are two usual
# ways to one vector. The Vision Transformer prepends a *class token*: a learned vector
# $x_{\text{cls}}$ (C) that belongs to no patch. Like every token it attends to all others, and the
# output at its position is classified:
#
# $$X^0 = [\, x_{\text{cls}};\; X + \text{positions} \,] \quad (1 + T, C), \qquad
# \text{logits} = \mathrm{encoder}(X^0)_0\, W + b$$
#
# (The paper adds a position to the class token as well. As both are learned, the sum is again one
# learned vector.) The other way is the mean of all outputs, followed by the same linear map with W
# of shape (C, classes):
#
# $$m = \frac{1}{T} \sum_{t=1}^{T} h_t, \qquad \text{logits} = m\, W + b$$
#
# Backward, the mean gives every position the same share: $\bar{h}_t = \bar{m} / T$. With a class
# token, only one row of the last layer receives a gradient directly; the patches receive theirs
# through attention. So the class token has to learn where to look; the mean looks everywhere.
#
# > A class token lets the model learn a weighted average of patches; mean pooling fixes equal
# > weights.
#
# **Exercise 14.2** (10 minutes, at home). A third way is the maximum of each coordinate over the
# positions, x (B, T, C) to y (B, C). Which positions receive a gradient, and how much? Positions
# where the mask (B, T) is False are padding; of equal maxima the first one counts.
# `hint("max_pooling_backward")` helps; after a pass, `solution("max_pooling_backward")` shows ours.

# %%
def max_pooling_backward(dy, x, mask=None):
    """dy (B, C). Return dx (B, T, C)."""
    ...


check("max_pooling_backward", max_pooling_backward, seed=0)

# %% [markdown] minutes=15
# ## Positions in two dimensions
#
# Without positions, attention does not depend on the order of its tokens (lesson 3): the patches
# are a bag of pieces. Position vectors restore the order, but now there are two coordinates, row r
# and column c. A simple scheme has one vector for each row and one for each column, each of half
# the width, and a patch receives both, concatenated. Here they are random, as at the start of
# training. Each small map belongs to one patch and shows how similar (by cosine) its vector is to
# those of all patches.

# %%
row_vectors, column_vectors = np.random.default_rng(0).standard_normal((2, 4, 24))
vectors = np.concatenate([np.repeat(row_vectors, 4, axis=0),
                          np.tile(column_vectors, (4, 1))], axis=1)   # (16, 48)
# %% tags=["hide-input"]
position_similarity(vectors, title="Row and column vectors, at random").figure

# %% [markdown]
# The vector u of patch (r, c) is the concatenation of a row vector a and a column vector b, so the
# dot products with that of patch (i, j) separate:
#
# $$u_{rc} = [\, a_r;\; b_c \,], \qquad
# u_{rc} \cdot u_{ij} = a_r \cdot a_i + b_c \cdot b_j$$
#
# Patches in one row or one column are similar by construction, which makes the crosses in the
# picture. Both can be learned, or be the sinusoids of lesson 3. Dosovitskiy et al. (2021) use
# something simpler: one learned vector for each patch, which knows nothing of the grid at first.
# They found no clear gain from two dimensions.
#
# > Position vectors are the only part of the model that knows where a patch is.

# %% [markdown]
# ViT-B/16, drawn from its layers. Above the patch embedding it is an encoder such as BERT's.

# %% tags=["hide-input"]
from numformer.plots import architecture_diagram

architecture_diagram(VISION_CONFIGS["vit-base"], title="ViT-B/16").figure

# %% [markdown] minutes=15
# ## Experiment: what do positions and neighbourhood contribute?
#
# We train a small model (2 blocks, width 48) on 1,500 digits and measure its accuracy on 500 test
# images, with seeds 1, 2, 3: with a learned vector for each patch and without positions; and with
# the patches of all images in one fixed random order, the same for training and test.
#
# **Expected.** Without positions the model sees which pieces occur, but not where: it should be
# worse. In the fixed random order, every patch still has its own position vector, and nothing in
# the model treats neighbours in a special way: it should be as good as with whole images. Without
# positions the order should not matter at all.

# %% tags=["setup"]
def reordered(images, order):
    """The same images with their 2 x 2 patches in another order."""
    tiles = cut(images, 2)[:, order].reshape(-1, 4, 4, 2, 2, 1)
    return tiles.transpose(0, 1, 3, 2, 4, 5).reshape(images.shape)


def trained(positions, seed, order=range(16), steps=100):
    """(trained model, its accuracy on the test images)."""
    config = VisionTransformerConfig(
        image_size=8, patch_size=2, channels=1, n_classes=10, n_layers=2, n_heads=4, d_model=48,
        positions=positions, init_std=0.1)
    model = VisionTransformer(config, np.random.default_rng(seed))
    stream = LabelledStream(reordered(train, order), digits.train_labels, 64, seed)
    batches = labelled_batches(reordered(test, order), digits.test_labels)
    trainer = Trainer(model, stream, batches, TrainingConfig(
        steps=steps, batch_size=64, optimizer="muon", muon_ratio=3.0, learning_rate=4e-3,
        min_learning_rate=0.0, warmup_steps=20))
    for step in range(steps):
        trainer.train_step()
    return model, accuracy(model, batches)

# %%
shuffle = np.random.default_rng(0).permutation(16)
settings = {"positions": ("learned", range(16)), "positions, reordered": ("learned", shuffle),
            "no positions": ("none", range(16))}
found = {}
for name, (positions, order) in settings.items():
    found[name] = [trained(positions, seed, order) for seed in (1, 2, 3)]
    print(f"{name:>20}:", ", ".join(f"{right:.1%}" for _, right in found[name]))
model, without = found["positions"][0][0], found["no positions"][0][0]
change = np.abs(without(test) - without(reordered(test, shuffle))).max()
print(f"without positions, reordering changes the logits by at most {change:.0e}")

# %% [markdown]
# **What came out.** As expected, with each seed. Without positions the model loses more than 40
# percentage points, and its logits are the same for any order of the patches, up to rounding. With
# positions, images in a fixed random order are learned about as well as whole ones: the
# differences, in both directions, are no larger than those between seeds.
#
# > Attention treats no patch as a neighbour: what a convolution knows of nearby pixels from the
# > start, a Vision Transformer has to learn from data.
#
# This has a price where data are few. With 100 training images, a small convolutional network
# reaches 85.8%, the Vision Transformer 73.2%; with 400 images 95.4% and 89.8% (seed 1, `numformer
# reproduce few-images`). Dosovitskiy et al. (2021, figure 3) saw the same at scale: convolutional
# networks were ahead after pretraining on 1.3 million images, Vision Transformers after 300
# million.
#
# Did the learned position vectors find the grid? We compare the cosine of vectors of adjacent
# patches with that of all other pairs; at the start all are random.

# %%
grid = np.array([(row, column) for row in range(4) for column in range(4)])
adjacent = np.abs(grid[:, None] - grid).sum(axis=-1) == 1             # (16, 16)
others = ~adjacent & ~np.eye(16, dtype=bool)
for seed, (each, _) in enumerate(found["positions"], start=1):
    start = VisionTransformer(each.config, np.random.default_rng(seed))
    for name, model_then in (("before", start), ("after", each)):
        vectors = model_then.positions(np.zeros((1, 16, 48), np.float32))[0]      # (T, C)
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        cosines = unit @ unit.T
        print(f"seed {seed}, {name} training: mean cosine of adjacent patches "
              f"{cosines[adjacent].mean():+.2f}, of others {cosines[others].mean():+.2f}")

# %% [markdown]
# They hardly did: adjacent vectors become closer by 0.02 to 0.04. The accuracy above does not need
# a grid in these vectors. In models trained on millions of images the grid becomes visible in them
# (Dosovitskiy et al., 2021, figure 7).

# %% [markdown] minutes=15
# ## What does the prediction depend on?
#
# Two pictures of one test image. The first shows attention: the weights of the class token in each
# block, as a mean over heads, and their *rollout* through both blocks. Rollout (Abnar and Zuidema,
# 2020) multiplies the mean weights $p_l$ of the blocks; half of the identity is added for the
# residual path, which carries each token past the attention (the orange line is the outline of the
# digit; the darkest patch of a map has the weight below it):
#
# $$R_l = \tfrac12 (I + p_l)\, R_{l-1}, \qquad R_0 = I \qquad (1 + T, 1 + T)$$

# %%
image = test[[4]]                                                     # (1, height, width, 1)
names = ["[CLS]", *(f"{row},{column}" for row in range(1, 5) for column in range(1, 5))]
view, = attention_views(model, Reading((image,), names, image=image[0]))
attention = [weights.mean(axis=0)[0, 1:] for weights in view.weights]
attention.append(attention_rollout(view.weights)[0, 1:])              # to each patch (16,)
# %% tags=["hide-input"]
patch_attention(np.repeat(image, 3, axis=0), np.array(attention),
                ["block 1", "block 2", "rollout"], title=f"A {digits.test_labels[4]}").figure

# %% [markdown]
# The second goes backward to the input: the gradient of the predicted class's logit with respect to
# every pixel. It is exact for small changes of pixels, and includes all paths: values, feed-forward
# networks and residuals, which rollout leaves out. Where it is red, more ink raises the logit;
# where it is blue, more ink lowers it.

# %%
logits, saved = model.forward(image)
dlogits = np.zeros_like(logits)
dlogits[0, logits.argmax()] = 1                                       # d logit / d logits
dimage = model.backward(dlogits, saved)[0, ..., 0]                    # (height, width)
# %% tags=["hide-input"]
left, right = Figure(figsize=(7, 3.4)).subplots(1, 2)
left.imshow(image[0, ..., 0], cmap="gray_r")
left.set_title(f"predicted: {logits.argmax()}")
top = np.abs(dimage).max()
right.imshow(dimage, cmap="RdBu_r", vmin=-top, vmax=top)
right.set_title("gradient of its logit")
right.figure

# %% [markdown]
# Attention shows where a token reads, the gradient which pixels would change the answer. They need
# not agree, and neither is an explanation by itself.
#
# > The weights of attention show what a model reads. The gradient with respect to the input shows
# > how the output changes with each pixel, as long as the change is small.
#
# The published models, counted without building them:

# %%
for name in ("vit-base", "vit-large"):
    print(f"{name}: {count(VISION_CONFIGS[name])['parameters'] / 1e6:.1f} M parameters")

# %% [markdown]
# **Think.** An image has twice the height and width: how do T and the cost of attention grow?
#
# <details><summary>Answer</summary>
#
# T grows four times, and so does the work of the projections. The number of scores, $T^2$ for each
# head, grows sixteen times.
#
# </details>
#
# **Think.** Which of the parameters depend on the size of the image?
#
# <details><summary>Answer</summary>
#
# Only the position vectors, one for each patch. For larger images they are interpolated.
#
# </details>

# %% [markdown]
# ## Summary
#
# - Cut, map, add positions, encode without a mask, classify one vector.
# - An image of height x width x K has $T = \text{height} \cdot \text{width} / P^2$ patches of
#   $P^2 K$ numbers.
# - The embedding is a convolution with stride P: $\bar{E} = Z^\top \bar{Y}$, $\bar{Z} = \bar{Y}
#   E^\top$, and the pixels' gradients are rearranged.
# - A class token learns what to average; mean pooling gives each position $\bar{m} / T$.
# - Only position vectors know the grid, and the model has to learn what neighbourhood means.
#
# More practice: `numformer exercises 04 24` (linear maps, mean pooling). With `numformer train
# --preset vit` a model of three blocks reaches 98.4% of the test images, the label of the nearest
# training image 94.4% (seed 1, `numformer reproduce vit`).

# %% [markdown]
# ## Further reading
#
# - A. Dosovitskiy et al. (2021), "An Image Is Worth 16x16 Words: Transformers for Image Recognition
#   at Scale": section 3.1 for the model, appendix D.4 for positions, figure 3 for data.
# - S. Abnar, W. Zuidema (2020), "Quantifying Attention Flow in Transformers": section 3.
# - Code: `numformer/functional/vision/patches.py`, `numformer/functional/pooling.py`,
#   `numformer/models/vision_transformer/model.py`.
