# %% [markdown]
# # 20. Vision beyond the Vision Transformer
#
# **Question.** In the Vision Transformer of lesson 14 every patch attends to every other, and an
# image gets one class. What if images are few or large, contain many objects, or come with
# sentences instead of classes?
#
# **You will learn** to
#
# - write a convolution as a matrix product, and derive its gradient;
# - count the operations of attention in windows, and derive the roll and the mask that shift them;
# - match predictions with objects, and derive the gradient of their overlap;
# - derive the gradient of the contrastive loss of images and texts, and classify with it.
#
# **You need** lessons 2, 4, 7 and 8 (attention, masks, gradients of a product and of cross-entropy,
# `gradcheck`), 11 (encoder and decoder) and 14.
#
# **Time.** 2 x 45 minutes; the cells run in about 30 seconds.

# %% tags=["setup"]
# %matplotlib inline
import itertools

import numpy as np
from matplotlib.figure import Figure

from numformer import check, hint, solution
from numformer.data import LabelledStream, digit_scenes, labelled_batches, load_digits
from numformer.experiments.training import trained, trainer_of
from numformer.functional import (
    box_corners, box_iou, box_loss, box_loss_backward, generalized_iou, match_objects,
    matching_costs, shifted_window_mask, softmax, window_distances, window_partition)
from numformer.models import (
    SWIN_CONFIGS, ConvolutionClassifier, ConvolutionClassifierConfig, SwinConfig, SwinStage,
    VisionTransformer, VisionTransformerConfig)
from numformer.plots import (
    architecture_diagram, boxes_in_images, image_grid, shifted_windows)
from numformer.recipes.vision.canvas import on_canvas
from numformer.recipes.vision.nearest import nearest_images
from numformer.training import Trainer, TrainingConfig, accuracy
from numformer.verify import gradcheck

digits = load_digits()

# %% [markdown] minutes=15
# ## A convolution is a product over overlapping windows
#
# The patches of lesson 14 do not overlap. A convolutional network moves its filter by one pixel at
# a time. So a digit of 8 x 8 pixels has 36 windows of 3 x 3, which share most of their pixels:

# %%
def windows(x, K, L):
    """(B, height, width, C) to (B, rows, columns, K L, C)."""
    rows, columns = x.shape[1] - K + 1, x.shape[2] - L + 1
    return np.stack([x[:, i:i + rows, j:j + columns]                  # pixel (i, j) of all windows
                     for i in range(K) for j in range(L)], axis=3)


image = digits.test_images[[4]]                                       # (1, 8, 8, 1)
# %% tags=["hide-input"]
left, right = Figure(figsize=(8, 4)).subplots(1, 2)
image_grid(image[:, None, ..., 0], [""], ax=left, title="An image")
right.set_facecolor("orange")
image_grid(windows(image, 3, 3).reshape(6, 6, 3, 3), [""] * 6, ax=right,
           title="Its 36 windows").figure

# %% [markdown]
# A filter W has one matrix $W_{ij}$ of shape (C, F) for each pixel (i, j) of a window of K x L
# pixels: C channels come in, F go out. The output at row r and column c is
#
# $$y_{rc} = b + \sum_{i=0}^{K-1} \sum_{j=0}^{L-1} x_{r+i,\, c+j}\, W_{ij} \qquad (F)$$
#
# Copy the windows of all images into the N rows of one array Z (*im2col*), and write the matrices
# $W_{ij}$ below each other as E. Then all outputs are one product:
#
# $$Y = Z E + b, \qquad Z: (N, K L C),\; E: (K L C, F),\; Y: (N, F)$$
#
# Backward:
#
# 1. The product, as in lesson 14, with $\bar{Y} = \partial L / \partial Y$:
#
# $$\bar{b} = \sum_n \bar{Y}_n, \qquad \bar{E} = Z^\top \bar{Y} \quad (K L C, F), \qquad
# \bar{Z} = \bar{Y} E^\top \quad (N, K L C)$$
#
# 2. The copy $z_{rc,\,ij} = x_{r+i,\, c+j}$. Pixel (u, v) was copied into every window that
#    contains it: as its pixel (i, j) if the window begins at $r = u - i$, $c = v - j$. The
#    gradients of all copies add:
#
# $$\bar{x}_{uv} = \sum_{i, j} \bar{z}_{(u - i)(v - j),\, ij} \qquad
# \text{over the windows that exist}$$
#
# For each (i, j), the code adds an array of gradients where the copies came from: a *scatter-add*.
# Only the `+=` is new: in lesson 14 no pixel was in two windows.

# %%
def convolution_2d_backward(dy, images, weight, bias):
    """images (B, height, width, C), weight (K, L, C, F), dy (B, rows, columns, F)."""
    (B, rows, columns, F), (K, L, C, _) = dy.shape, weight.shape
    Z, E = windows(images, K, L).reshape(-1, K * L * C), weight.reshape(-1, F)
    dY = dy.reshape(-1, F)                                            # (N, F)
    # Y = Z @ E + b
    dbias, dE, dZ = dY.sum(axis=0), Z.T @ dY, dY @ E.T
    # Z[r, c, i, j] = images[r + i, c + j]
    dZ, dimages = dZ.reshape(B, rows, columns, K, L, C), np.zeros_like(images)
    for i in range(K):
        for j in range(L):
            dimages[:, i:i + rows, j:j + columns] += dZ[:, :, :, i, j]
    return dimages, dE.reshape(weight.shape), dbias


check("convolution_2d_backward", convolution_2d_backward, seed=0)

# %% [markdown]
# > A convolution copies overlapping windows and multiplies them by one matrix. Backward, the copies
# > of a pixel add their gradients.
#
# A convolution assumes *locality*, as an output depends on nearby pixels only, and *shared
# weights*: a pattern is recognised in the same way everywhere. With 100 training digits a
# convolutional network reaches 85.8%, a Vision Transformer 73.2% (seed 1, `numformer reproduce
# few-images`). Is locality the reason?

# %% [markdown] minutes=10
# ## Experiment: what does neighbourhood contribute?
#
# We paste 500 training digits at random positions on a canvas of 16 x 16 pixels and train a small
# model of each kind, the Vision Transformer with patches of 4 x 4, with seeds 1, 2, 3. Then we
# repeat this with all pixels in one fixed random order, the same for training and test. The
# baseline, the label of the nearest training image, is the same in any order.
#
# **Expected.** The convolutional network falls from above the baseline to below it. The Vision
# Transformer loses little, as the order of patches did not matter in lesson 14.

# %% tags=["setup"]
test = on_canvas(digits.test_images, np.random.default_rng(2)).astype(np.float32)
MODELS = {
    "convolutions": (ConvolutionClassifier, ConvolutionClassifierConfig(
        image_size=16, channels=1, n_classes=10, widths="16,32", kernel_width=3, padding=1,
        hidden="64")),
    "Vision Transformer": (VisionTransformer, VisionTransformerConfig(
        image_size=16, patch_size=4, channels=1, n_classes=10, n_layers=2, n_heads=4, d_model=48,
        positions="learned", init_std=0.1))}


def some(seed):
    """50 training images of each digit on a canvas, and their labels."""
    order = np.random.default_rng(seed).permutation(len(digits.train_labels))
    rows = np.concatenate([order[digits.train_labels[order] == k][:50] for k in range(10)])
    canvas = on_canvas(digits.train_images[rows], np.random.default_rng(seed))
    return canvas.astype(np.float32), digits.train_labels[rows]


def reordered(images, order):
    """Images with their pixels in another order."""
    return images.reshape(len(images), -1)[:, order].reshape(images.shape)


# %%
def accuracy_of(name, seed, order, steps=150):
    kind, config = MODELS[name]
    images, labels = some(seed)
    stream = LabelledStream(reordered(images, order), labels, 32, seed)
    batches = labelled_batches(reordered(test, order), digits.test_labels)
    trainer = Trainer(kind(config, np.random.default_rng(seed)), stream, batches, TrainingConfig(
        steps=steps, batch_size=32, optimizer="muon", muon_ratio=3.0, learning_rate=1e-2,
        min_learning_rate=0.0, warmup_steps=20))
    return accuracy(trained(trainer).model, batches)


orders = {"whole images": np.arange(256), "pixels in random order":
          np.random.default_rng(0).permutation(256)}
for name in MODELS:
    for what, order in orders.items():
        found = [accuracy_of(name, seed, order) for seed in (1, 2, 3)]
        print(f"{name:>18}, {what:>22}:", ", ".join(f"{share:.1%}" for share in found))
nearest = [labels[nearest_images(test, images)[0]] for images, labels in map(some, (1, 2, 3))]
print(f"{'nearest image':>18}, {'in any order':>22}:",
      ", ".join(f"{(each == digits.test_labels).mean():.1%}" for each in nearest))

# %% [markdown]
# **What came out.** The first expectation holds clearly with each seed. The second does not: the
# Vision Transformer loses a third of its accuracy, too. Lesson 14 moved whole patches; here they
# are torn apart.
#
# > A convolution assumes that nearby pixels belong together, everywhere in the image; a Vision
# > Transformer assumes it within its patches. Where it is false, both lose.

# %% [markdown] minutes=5
# ## Windows: from quadratic to linear cost
#
# Large images are costly. In the Swin Transformer (Liu et al., 2021) patches attend only within
# windows of M x M patches. The first panel shows 8 x 8 patches in four windows, M = 4.

# %% tags=["hide-input"]
shifted_windows(8, 4, 2).figure

# %% [markdown]
# Count the multiplications for T patches of width C, where each query meets S keys:
#
# $$\begin{aligned}
# \text{queries, keys, values, output: four maps } (T, C)(C, C) && 4\, T C^2 \\
# \text{scores } Q K^\top \text{: } T S \text{ dot products; the widths of all heads sum to } C
#   && T S C \\
# \text{averages } P V \text{: the same} && T S C \\
# \text{global, } S = T && 4\, T C^2 + 2\, T^2 C \\
# \text{in windows, } S = M^2 && 4\, T C^2 + 2\, T M^2 C
# \end{aligned}$$
#
# > With a fixed window the cost of attention is linear in the number of patches; global attention
# > is quadratic.

# %%
C, M = 96, 7                                                          # of Swin-T
for side in (14, 28, 56, 112):
    T = side * side
    every, within = (4 * T * C ** 2 + 2 * T * S * C for S in (T, M * M))
    print(f"{side:3} x {side:3} patches: global {every / 1e6:8,.0f} million multiplications, "
          f"windows {within / 1e6:5,.0f}, a factor of {every / within:.1f}")

# %% [markdown] minutes=15
# ## Shifted windows: a permutation and a mask
#
# Fixed windows exchange nothing. So every second block shifts its windows by half of one (second
# panel), which gives nine windows of unequal size. It is simpler to move the map: roll it by o
# patches up and left; what leaves comes back on the other side (third panel):
#
# $$y_{rc} = x_{(r + o) \bmod h,\; (c + o) \bmod w} \qquad (h, w, C)$$
#
# With all positions on one axis, the roll is a permutation: a matrix $\Pi$ with a single 1 in each
# row and in each column.
#
# $$y = \Pi x, \qquad \bar{x} = \Pi^\top \bar{y} = \Pi^{-1} \bar{y} \qquad
# \text{since } (\Pi \Pi^\top)_{nm} = \textstyle\sum_k \Pi_{nk} \Pi_{mk} = \delta_{nm}$$
#
# The gradient is rolled back:
# $\bar{x}_{rc} = \bar{y}_{(r - o) \bmod h,\; (c - o) \bmod w}$.

# %%
def cyclic_roll_backward(dy, x, offset):
    return np.roll(dy, (offset, offset), axis=(1, 2))                 # x: (B, height, width, C)


check("cyclic_roll_backward", cyclic_roll_backward, seed=0)

# %% [markdown]
# All windows now have equal size, but some hold patches from opposite edges: the last o rows came
# from the top, the last o columns from the left. So we number these parts (the colours); patches of
# one window may attend to each other if they are in the same part (last panel):
#
# $$e_{rc} = 2\, [\, r \ge h - o \,] + [\, c \ge w - o \,], \qquad
# \mathrm{mask}_{nm} = [\, e_n = e_m \,] \qquad (M^2, M^2) \text{ for each window}$$
#
# $$\text{where } [\, \cdot \,] \text{ is 1 if true, else 0}$$

# %%
def wrapped_mask(side, M, offset):
    late = np.arange(side) >= side - offset                           # came from the other edge
    part = 2.0 * late[:, None] + late                                 # (side, side)
    part = window_partition(part[None, ..., None], M)[0][..., 0]      # (windows, M M)
    return part[:, :, None] == part[:, None, :]                       # (windows, M M, M M)


print("as the library's:", np.array_equal(wrapped_mask(8, 4, 2), shifted_window_mask(8, 8, 4, 2)))

# %% [markdown]
# What does an output patch of two untrained blocks (black) depend on? We mark every input patch
# whose gradient is not exactly 0. Without a shift we expect one window, 16 patches. With it, the
# shifted window touches four windows of the block before: 64. In the corner the mask must exclude
# the opposite edges: 16.

# %%
def reach(shifted, row, column, seed):
    config = SwinConfig(image_size=16, patch_size=1, channels=1, d_model=8, depths=(2,), heads=(2,),
                        window=4, shifted=shifted, init_std=0.5, dtype="float64")
    rng = np.random.default_rng(seed)
    stage = SwinStage(config, 0, rng)
    y, saved = stage.forward(rng.standard_normal((1, 16, 16, 8)))
    dy = np.zeros_like(y)
    dy[0, row, column] = rng.standard_normal(8)
    return (stage.backward(dy, saved)[0] != 0).any(axis=-1)           # (16, 16)

# %%
cases = {"not shifted": (False, 6, 6), "shifted": (True, 6, 6), "shifted, corner": (True, 0, 0)}
seen = {}
for name, case in cases.items():
    seen[name] = [reach(*case, seed) for seed in (1, 2, 3)]           # 3 of (16, 16)
    print(f"{name}: {[int(each.sum()) for each in seen[name]]} patches")
# %% tags=["hide-input"]
axes = Figure(figsize=(8, 3.2)).subplots(1, 3)
for ax, (name, (_, row, column)) in zip(axes, cases.items()):
    shown = 0.35 * seen[name][0]
    shown[row, column] = 1
    image_grid(shown[None, None], [""], ax=ax, title=name)
    ax.set_xticks(np.arange(3.5, 15, 4), [])
    ax.set_yticks(np.arange(3.5, 15, 4), [])
    ax.grid(color="0.6")
axes[0].figure

# %% [markdown]
# > Shifting windows is a roll, whose gradient is the roll back, and a mask for patches that only
# > the roll brought together.
#
# On a canvas of digits the accuracy is 0.900, 0.878 and 0.864 with shifts, 0.794, 0.778 and 0.778
# without (seeds 1, 2, 3; `numformer reproduce swin swin-unshifted`).
#
# **Exercise 20.1** (5 minutes). Swin adds a learned number to each score, by the rows and columns
# between both patches: `bias = table[d].transpose(2, 0, 1)`, with `d = window_distances(window)`,
# $(M^2, M^2)$, and a table $((2M-1)^2, H)$. Many pairs share a row of the table. What is its
# gradient? `hint("window_position_bias_backward")` helps; after a pass,
# `solution("window_position_bias_backward")` shows ours.

# %%
def window_position_bias_backward(dbias, table, window):
    """dbias (H, M M, M M). Return dtable."""
    ...


check("window_position_bias_backward", window_position_bias_backward, seed=0)

# %% [markdown]
# The second block of Swin-T: its $N = 64$ windows are shifted. Between stages, 2 x 2 patches are
# merged into one, so later windows cover more.

# %% tags=["hide-input"]
architecture_diagram(SWIN_CONFIGS["swin-t"], block=2, title="Swin-T").figure

# %% [markdown] minutes=10
# ## A set of objects needs a matching
#
# A detector finds all objects of an image, with a class and a box for each (centre and size, as
# fractions of the image). In DETR (Carion et al., 2020) an encoder reads the patches; the decoder
# gets Q learned vectors, the *object queries*, and each becomes one prediction. But objects have no
# order, so which prediction has to find which object? Here are five predictions for three digits;
# two are of the 9, one is of none.

# %%
scene = digit_scenes(digits.test_images, digits.test_labels, 7, np.random.default_rng(5))
labels, targets = scene.labels[6, :3], scene.boxes[6, :3].astype(float)         # (G,), (G, 4)
rng = np.random.default_rng(4)
boxes = np.concatenate([targets[[2, 0, 0, 1]], [[0.2, 0.3, 0.2, 0.3]]])         # (Q, 4)
boxes += 0.02 * rng.standard_normal(boxes.shape)
logits = rng.standard_normal((5, 10)) + 4 * np.eye(10)[labels[[2, 0, 0, 1, 1]]]
sigma = match_objects(logits, boxes, labels, targets)                 # (3,)
# %% tags=["hide-input"]
left, right = Figure(figsize=(8, 4.6)).subplots(1, 2)
for ax, kept, title in ((left, np.arange(5), "Five predictions (dashed)"),
                        (right, sigma, "Those that are matched")):
    found = logits[kept].argmax(axis=1), softmax(logits[kept])[0].max(axis=1), box_corners(
        boxes[kept])[0] * 24
    drawn = boxes_in_images(scene.images[[6]], [found], [(labels, box_corners(targets)[0] * 24)],
                            ax=ax, title=title)
drawn.figure

# %% [markdown]
# DETR lets the lowest cost decide. Prediction n has class probabilities $p_n$ and a box $b_n$, each
# of the G objects a class $y_m$ and a box $t_m$. A *matching* $\sigma$ gives each object a
# prediction of its own; g is the overlap that the next section defines:
#
# $$C_{nm} = -p_n(y_m) + 5\, \lVert b_n - t_m \rVert_1 - 2\, g(b_n, t_m) \quad (Q, G), \qquad
# \sigma = \arg\min_{\sigma'} \sum_m C_{\sigma'(m),\, m}$$
#
# Here we can try all $5 \cdot 4 \cdot 3 = 60$ matchings; the Hungarian algorithm finds the best in
# cubic time. Unmatched predictions are trained to predict the extra class "no object", so the
# second box of a digit is an error.
#
# Does a gradient pass through $\sigma$? It takes finitely many values, and jumps only where two
# matchings cost the same. Elsewhere a small change of the boxes leaves it as it is: its derivative
# is 0. So the box loss treats $\sigma$ as a constant:
#
# $$L = \frac1G \sum_m \ell(b_{\sigma(m)}, t_m), \qquad
# \ell(b, t) = 5\, \lVert b - t \rVert_1 + 2\, (1 - g(b, t))$$
#
# $$\bar{b}_n = \begin{cases}
# \frac{1}{G}\, \partial \ell(b_n, t_m) / \partial b_n & n = \sigma(m) \\
# 0 & \text{no object has } n \end{cases}$$

# %%
def set_loss(boxes):
    sigma = match_objects(logits, boxes, labels, targets)
    loss, saved = box_loss(boxes[sigma], targets)
    return loss, (saved, sigma, boxes.shape)


def set_loss_backward(dloss, saved):
    saved_loss, sigma, shape = saved
    # loss = box_loss(boxes[sigma]); no row is taken twice, so nothing has to be added
    dboxes = np.zeros(shape)
    dboxes[sigma] = box_loss_backward(dloss, saved_loss)
    return dboxes


costs = matching_costs(logits, boxes, labels, targets)                # (Q, G)
every = [costs[list(rows), range(3)].sum() for rows in itertools.permutations(range(5), 3)]
print(costs.round(2), "\nobjects are matched with predictions", sigma,
      "at the least cost:", np.isclose(costs[sigma, range(3)].sum(), min(every)))
print(gradcheck((set_loss, set_loss_backward), [boxes]))

# %% [markdown]
# > DETR predicts a set. A matching of least cost decides which prediction answers for which object;
# > it is piecewise constant, so it has no gradient.

# %% [markdown] minutes=10
# ## Overlap as a loss
#
# The L1 distance has the gradient $\mathrm{sign}(b - t)$ for boxes of any size, although an error
# of two pixels is worse for a small one. *Intersection over union* (IoU) does not depend on scale.
# But it is 0, with gradient 0, for boxes that do not meet. We slide one square past another:

# %%
shift = np.linspace(0, 3, 61)
a = np.stack([shift, 0 * shift, shift + 1, 0 * shift + 1], axis=1)    # corners (61, 4)
b = np.array([[0.0, 0.0, 1.0, 1.0]])
# %% tags=["hide-input"]
ax = Figure(figsize=(8, 3.6)).subplots()
ax.plot(shift, generalized_iou(a, np.repeat(b, 61, axis=0))[0], linewidth=3,
        label="generalized IoU")
ax.plot(shift, box_iou(a, b)[:, 0], "--", linewidth=2, label="IoU")
ax.set(xlabel="shift, in sides of the square", ylabel="overlap")
ax.grid(alpha=0.3)
ax.legend(frameon=False)
ax.figure

# %% [markdown]
# Rezatofighi et al. (2019) subtract the share of empty space in the smallest box around both. A and
# B are the areas of the boxes, I of their intersection, U of the union, H of the box around both:
#
# $$g = \frac{I}{U} - \frac{H - U}{H} = \frac{I}{U} + \frac{U}{H} - 1, \qquad U = A + B - I$$
#
# 1. The quotients. U occurs in both, and depends on I:
#
# $$\bar{U} = \bar{g} \Big( \frac1H - \frac{I}{U^2} \Big), \qquad \bar{H} = -\bar{g}\,
# \frac{U}{H^2}, \qquad \bar{I} = \frac{\bar{g}}{U} - \bar{U}, \qquad \bar{A} = \bar{U}$$
#
# 2. An area is width times height, so the gradient of one side is $\bar{I}$ times the other side.
#
# 3. With lower corner $a_0$ and upper corner $a_1$ (x and y alike), the sides are
#
# $$\max(0,\, \min(a_1, b_1) - \max(a_0, b_0)) \text{ of I}, \qquad
# \max(a_1, b_1) - \min(a_0, b_0) \text{ of H}, \qquad a_1 - a_0 \text{ of A}$$
#
# A minimum or maximum passes its gradient to the number that it chose. So each coordinate of a
# corner gets the gradient of A, and that of either I or H.

# %%
def gradient_of_a(dg, a, b):
    (a0, a1), (b0, b1) = np.split(a, 2, axis=-1), np.split(b, 2, axis=-1)       # (..., 2) each
    own, other = a1 - a0, b1 - b0
    inner = np.maximum(np.minimum(a1, b1) - np.maximum(a0, b0), 0)
    outer = np.maximum(a1, b1) - np.minimum(a0, b0)
    A, B, I, H = (sides.prod(axis=-1) for sides in (own, other, inner, outer))
    U = A + B - I
    # g = I / U + U / H - 1
    dU, dH = dg * (1 / H - I / U ** 2), -dg * U / H ** 2
    dI = dg / U - dU
    # area = width * height
    down, dinner, douter = (darea[..., None] * sides[..., ::-1] for darea, sides in
                            ((dU, own), (dI, inner), (dH, outer)))
    dinner = np.where(inner > 0, dinner, 0)
    # sides = upper - lower corner
    da0 = -down - np.where(a0 > b0, dinner, 0) - np.where(a0 < b0, douter, 0)
    da1 = down + np.where(a1 < b1, dinner, 0) + np.where(a1 > b1, douter, 0)
    return np.concatenate([da0, da1], axis=-1)


check("generalized_iou_backward",
      lambda dg, a, b: (gradient_of_a(dg, a, b), gradient_of_a(dg, b, a)), seed=0)

# %% [markdown]
# > Generalized IoU does not depend on scale and has a gradient for boxes that do not meet. DETR
# > adds it to the L1 distance.
#
# On such scenes `numformer reproduce detr` compares a small DETR with connected components of ink,
# classified by the nearest digit: by their *mean average precision*.
#
# <details><summary>What is mean average precision?</summary>
#
# Sort all predictions of one class by their probability. After each, precision is the share of
# those so far that found an object (an IoU of one half or more), recall the share of all objects
# found so far. Average precision is the area below precision against recall, between 0 and 1; its
# mean is over the classes.
#
# </details>

# %% [markdown] minutes=15
# ## Two encoders and one loss
#
# CLIP (Radford et al., 2021) trains an image encoder and a text encoder, so that an image and its
# caption get similar vectors. The other captions of a batch are the wrong answers. In these
# invented logits of three pairs, the diagonal wins in each row and column:
#
# | | "a photo of a two" | "the number seven" | "this is a 9" |
# |---|---|---|---|
# | image of a 2 | **6.1** | 1.0 | 0.3 |
# | image of a 7 | 1.2 | **4.8** | 2.9 |
# | image of a 9 | 0.2 | 2.5 | **5.5** |
#
# The rows of A and B are the vectors of N images and N texts, of norm 1 and width D; s is a learned
# scale, one over the temperature:
#
# $$Z = s A B^\top \quad (N, N), \qquad
# L = \tfrac12 \big( \mathrm{CE}(Z) + \mathrm{CE}(Z^\top) \big), \qquad
# \mathrm{CE}(Z) = -\frac1N \sum_i \log \frac{e^{z_{ii}}}{\sum_j e^{z_{ij}}}$$
#
# Let P be the softmax of each row, and R that of each column. The gradient of cross-entropy is
# prediction minus target (lesson 7), here twice, with the identity matrix as the target:
#
# $$\begin{aligned}
# \bar{Z} &= \frac{\bar{L}}{2N} (P + R - 2 I_N) && (N, N) \\
# \bar{A} &= s\, \bar{Z} B, \qquad \bar{B} = s\, \bar{Z}^\top A && \text{a product} \quad (N, D) \\
# \bar{s} &= \textstyle\sum_{ij} \bar{Z}_{ij} (A B^\top)_{ij}
#   && z_{ij} = s \cdot (A B^\top)_{ij} \text{ for all } i, j
# \end{aligned}$$

# %%
def clip_loss(A, B, s):
    z = s * A @ B.T                                                   # (N, N)
    p, r = softmax(z)[0], softmax(z.T)[0].T                           # of rows, of columns
    return -(np.log(np.diag(p)) + np.log(np.diag(r))).mean() / 2


def clip_loss_backward(dloss, A, B, s):
    z, N = s * A @ B.T, len(A)
    p, r = softmax(z)[0], softmax(z.T)[0].T
    dz = dloss / (2 * N) * (p + r - 2 * np.eye(N))                    # two cross-entropies
    return s * dz @ B, s * dz.T @ A, (dz * (A @ B.T)).sum()           # z = s A B^T


A, B = rng.standard_normal((2, 6, 4))                                 # (N, D) each
A, B = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (A, B))
print(gradcheck((clip_loss, clip_loss_backward), [A, B, np.array(14.0)]))

# %% [markdown]
# If the cosines of true pairs exceed the averages weighted by P and R, $\bar{s}$ is negative and s
# grows. CLIP learns $t = \log s$, so that s stays positive: $\bar{t} = s\, \bar{s}$. Last, let u be
# a vector of an encoder and $a = u / |u|$:
#
# $$\frac{\partial a_i}{\partial u_j} = \frac{\delta_{ij}}{|u|} - \frac{u_i u_j}{|u|^3}
# \qquad\Longrightarrow\qquad \bar{u} = \frac{\bar{a} - a\, (a \cdot \bar{a})}{|u|}, \qquad
# u \cdot \bar{u} = 0$$
#
# > The contrastive loss is a cross-entropy over rows and columns of one matrix. The gradient of a
# > normalised vector is orthogonal to it: only its direction is trained.
#
# **Exercise 20.2** (10 minutes). Derive the gradient of the cosines
# $c_{ij} = \cos(u_i, v_j)$, u: (N, D), v: (S, D). `hint("cosine_similarity_backward")` helps; after
# a pass, `solution("cosine_similarity_backward")` shows ours.

# %%
def cosine_similarity_backward(dc, u, v):
    """dc (N, S). Return du, dv."""
    ...


check("cosine_similarity_backward", cosine_similarity_backward, seed=0)

# %% [markdown]
# **Think.** With s fixed at 1 and N = 40, how low can the loss be at best?
#
# <details><summary>Answer</summary>
#
# Cosines lie between -1 and 1, so even a perfect row has $-\log \frac{e}{e + 39\, e^{-1}} = 1.84$
# nats. Without a scale the softmax cannot become certain.
#
# </details>

# %% [markdown] minutes=10
# ## Classification without a classifier
#
# The encoders classify by text: encode a caption for each class, and take the one with the largest
# cosine. We train on digits with captions of seven phrasings, for a quarter of the preset's steps.
#
# **Expected.** Before training 10%, by guessing; after it far more, and somewhat less with a
# phrasing that no training caption has.

# %%
trainer, task, tokenizer = trainer_of("clip", seed=1, steps=300)
for when in ("before", "after"):
    if when == "after":
        trained(trainer)
    found = task.measure(trainer.model, tokenizer, task.load(None))
    print(f"{when} training: known phrasing {found['zero_shot_accuracy']:.1%}, new phrasing "
          f"{found['new_phrasing_accuracy']:.1%}, s = {np.exp(trainer.model.logit_scale.data):.1f}")
# %% tags=["hide-input"]
task.pictures(trainer.model, tokenizer)["similarity.png"].figure

# %% [markdown]
# **What came out.** As expected, with one seed: most images have their largest cosine on the
# diagonal. After all 1,200 steps the accuracy is 96.4%, 97.0% and 95.0% with seeds 1, 2, 3, and
# 96.2%, 97.2% and 95.0% with the new phrasing (`numformer reproduce clip`).
#
# **Think.** Here s ends below its first value of 14.3. Why?
#
# <details><summary>Answer</summary>
#
# At first true pairs are no closer than others. P and R weigh large cosines most, so their averages
# exceed the cosines of true pairs: the gradient of s is positive, and s falls. It rises when true
# pairs win.
#
# </details>
#
# Radford et al. call this *zero-shot*: they classify data sets that were not trained on. Our test
# is weaker, as all ten digits occur in training captions.
#
# > A text encoder turns class names into the rows of a classifier, so classes can be changed
# > without training.

# %% [markdown]
# ## Summary
#
# - A convolution is $Y = Z E + b$ over overlapping windows; $\bar{x}$ is a scatter-add.
# - Attention within windows costs $4 T C^2 + 2 T M^2 C$; the roll that shifts them has the roll
#   back as its gradient, and a mask separates what it wrapped.
# - DETR matches predictions with objects. The matching is piecewise constant; gradients reach
#   matched boxes through the L1 distance and generalized IoU.
# - CLIP: $\bar{Z} = (P + R - 2 I_N) / 2N$, $\bar{A} = s \bar{Z} B$, $\bar{s} = \sum \bar{Z} \odot A
#   B^\top$; a caption for each class makes a classifier.

# %% [markdown]
# ## Further reading
#
# - LeCun et al. (1998), *Gradient-Based Learning Applied to Document Recognition*: section II.
# - Chellapilla, Puri and Simard (2006), *High Performance Convolutional Neural Networks for
#   Document Processing*.
# - Liu et al. (2021), *Swin Transformer*: section 3.2.
# - Carion et al. (2020), *End-to-End Object Detection with Transformers*: section 3.1.
# - Rezatofighi et al. (2019), *Generalized Intersection over Union*.
# - Radford et al. (2021), *Learning Transferable Visual Models From Natural Language Supervision*:
#   figure 3, section 3.1.
# - Code: `numformer/functional/vision/`, `numformer/functional/losses/contrastive.py`,
#   `numformer/models/` (swin, detr, clip).
