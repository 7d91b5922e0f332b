r"""The backward of every box of a diagram, as equations in mathtext.

dy is the gradient of the loss with respect to the output y of a box, dx that with respect to its
input x. The derivations are in the docstrings of the layers and functions that a box names.
"""

_LINEAR = (r"dx = dy\,W^\top", r"dW = x^\top dy", r"db = \Sigma\,dy")
_ADDED = (r"dx = dy", r"dP_t = \Sigma_b dy_{bt}")
_UNCHANGED = (r"dx = dy",)
_NORM = (r"d\hat{x} = \gamma\,dy", r"d\gamma = \Sigma\,dy\,\hat{x}",
         r"dx = r\,(d\hat{x} - \langle d\hat{x}\rangle - \hat{x}\langle d\hat{x}\,\hat{x}\rangle)")
_ATTENTION = (r"do = dy\,W_o^\top", r"dv = p^\top do", r"dp = do\,v^\top",
              r"ds = p\,(dp - \Sigma\,p\,dp)",
              r"dq = ds\,k / \sqrt{D}", r"dk = ds^\top q / \sqrt{D}",
              r"dx = dq\,W_q^\top + dk\,W_k^\top + dv\,W_v^\top")
_FEED_FORWARD = (r"da = dy\,W_2^\top", r"dh = da\,f'(h)", r"dx = dh\,W_1^\top",
                 r"dW_1 = x^\top dh", r"dW_2 = a^\top dy")
_GATED = (r"da = dy\,W_3^\top", r"dg = da\,h\,f'(g)", r"dh = da\,f(g)",
          r"dx = dg\,W_1^\top + dh\,W_2^\top")
_RECURRENT = (r"dh_t = dy_t + dz_{t+1} U^\top", r"dU = \Sigma_t h_{t-1}^\top dz_t",
              r"dx_t = dz_t\,W^\top", r"dW = \Sigma_t x_t^\top dz_t")

EQUATIONS = {
    # layers
    "ALiBi": _UNCHANGED,
    "AttentiveGRU": (r"dx_t = da_t\,W^\top", r"dc_t = dy^c_t + da_t\,W_c^\top",
                     r"dp_{tj} = dc_t \cdot h_j", r"ds = p\,(dp - \Sigma\,p\,dp)"),
    "BatchNorm": _NORM,
    "Bidirectional": (r"dx = \overrightarrow{dx} + \overleftarrow{dx}",),
    "BoxHead": (r"dz = dy\,y\,(1 - y)", r"dx = dz\,W_3^\top \cdots W_1^\top"),
    "CausalConvolution": (
        r"dx_t = \Sigma_k dy_{t+o_k}\,W_k^\top", r"dW_k = \Sigma_t x_{t-o_k}^\top dy_t",
        r"o_k = (K - 1 - k)\,d"),
    "ClassHeads": (r"dx_k = dy\,W_k^\top / K", r"dW_k = x_k^\top dy / K"),
    "ClassPooler": (r"dz = dy\,(1 - y^2)", r"dx_0 = dz\,W^\top", r"dW = x_0^\top dz"),
    "ConcatenatedPositions": (r"[dx, dp] = dy\,W^\top", r"dW = [x, p]^\top dy"),
    "Convolution2D": (r"dx_{u} = \Sigma_k dy_{u-k}\,W_k^\top", r"dW_k = \Sigma_u x_{u+k}^\top dy_u",
                      r"db = \Sigma\,dy"),
    "Embedding": (r"dE_i = \Sigma_{t:\,id_t = i} dy_t",),
    "FeedForward": _FEED_FORWARD,
    "FixedWeightAttention": (r"dv = p^\top do", r"do = dy\,W_o^\top", r"dx = dv\,W_v^\top"),
    "GRU": (r"dh_t = dy_t + u_{t+1}\,dh_{t+1} + da_{t+1} U^\top", r"dx_t = da_t\,W^\top",
            r"dW = \Sigma_t x_t^\top da_t"),
    "GatedConvolution": (r"da = dy\,\sigma(g)", r"dg = dy\,a\,\sigma'(g)",
                         r"dn_t = \Sigma_k [da, dg]_{t+(K-1-k)d}\,W_k^\top"),
    "GatedFeedForward": _GATED,
    "GatedSwishFeedForward": (*_GATED, r"d\beta = \Sigma\,da\,h\,\partial f / \partial\beta"),
    "LMHead": (r"dx = dy\,E", r"dE = dy^\top x"),
    "LSTM": (r"dc_t = dh_t\,o_t\,(1 - \tanh^2 c_t) + f_{t+1}\,dc_{t+1}", *_RECURRENT),
    "LayerNorm": _NORM,
    "LearnedPositions": _ADDED,
    "LearnedPositions2D": (
        r"dx = dy", r"dR_r = \Sigma_{b,c} dy_{brc}", r"dS_c = \Sigma_{b,r} dy_{brc}"),
    "Linear": _LINEAR,
    "Linear without bias": _LINEAR[:2],
    "MaskedTokenHead": (r"da = dy\,E", r"dE = dy^\top a", r"db = \Sigma\,dy",
                        r"dx = \mathrm{norm}'(da)\,f'(h)\,W^\top"),
    "MixtureOfExperts": (r"dw_e = dy \cdot y_e", r"dy_e = w_e\,dy",
                         r"dx = \Sigma_e dx_e + dz\,W_r^\top"),
    "MultiHeadAttention": _ATTENTION,
    "Parameter": (r"d\theta = \Sigma_b dy_b",),
    "PatchEmbedding": (r"dW = \Sigma_t x_t^\top dy_t", r"db = \Sigma\,dy", r"dx_t = dy_t\,W^\top"),
    "PatchMerging": (r"dn = dy\,W^\top", r"dW = n^\top dy",
                     r"[dx_1, \ldots, dx_4] = \mathrm{norm}'(dn)"),
    "Pooling": (r"mean: $dx_t = dy / T$", r"class: $dx_0 = dy$", r"max: $dx_{t^*} = dy$"),
    "Pooling2D": (r"max: $dx_{u^*} = dy$", r"mean: $dx_u = dy / n$"),
    "PositionedAttention": (*_ATTENTION[:-1], r"dp_q = dq\,W_q^\top", r"dx = dp_q + \ldots"),
    "RMSNorm": (r"d\hat{x} = \gamma\,dy", r"d\gamma = \Sigma\,dy\,\hat{x}",
                r"dx = r\,(d\hat{x} - \hat{x}\langle d\hat{x}\,\hat{x}\rangle)"),
    "RNN": (r"dz_t = dh_t\,(1 - h_t^2)", *_RECURRENT),
    "RelativePositionBias": (r"db_{h,n} = \Sigma_{i - j \in n} ds_{hij}",),
    "RotaryPositions": (r"dx = R_t^\top dy",),
    "ShawPositions": (r"da_{j-i} = \Sigma\,ds_{ij}\,q_i",),
    "SinusoidalPositions": _UNCHANGED,
    "SinusoidalPositions2D": _UNCHANGED,
    "SoftCappedLMHead": (r"dz = dy\,(1 - (y / c)^2)", r"dx = dz\,E", r"dE = dz^\top x"),
    "Swish": (r"dx = dy\,f'(x)", r"d\beta = \Sigma\,dy\,\partial f / \partial\beta"),
    "SwishFeedForward": (*_FEED_FORWARD, r"d\beta = \Sigma\,da\,\partial f / \partial\beta"),
    "TokenAndNGramEmbedding": (r"dE_i = \Sigma_{t:\,id_t = i} dy_t",
                               r"dE^{(n)}_r = \Sigma_{t:\,r_n(t) = r} dy_t"),
    "WindowAttention": _ATTENTION,
    "WindowPositionBias": (r"db_{h,n} = \Sigma_{i - j \in n} ds_{hij}",),
    # functions and steps
    "activation": (r"dx = dy\,f'(x)",),
    "attention_weights": (r"ds = p\,(dp - \Sigma\,p\,dp)", r"dq = ds\,k / \sqrt{D}",
                          r"dk = ds^\top q / \sqrt{D}"),
    "Weighted sum of values": (r"dp = do\,v^\top", r"dv = p^\top do"),
    "Product": (r"da = dy\,b", r"db = dy\,a"),
    "Experts": (r"dx = \Sigma_e\,dx_e",),
    "Top-k weights": (r"dz = w\,(dw - \Sigma\,w\,dw)",),
    "Weighted sum of experts": (r"dw_e = dy \cdot y_e", r"dy_e = w_e\,dy"),
    "Windows": (r"dx = dy\;\mathrm{moved\ back}",),
    "cosine_similarity": (r"d\hat{u} = ds\,\hat{v}", r"du = (d\hat{u} - \hat{u}\,(\hat{u} \cdot "
                          r"d\hat{u})) / |u|"),
    "Concatenation": (r"du = dy_1 + \mathrm{sgn}(u - v)\,dy_3",
                      r"dv = dy_2 - \mathrm{sgn}(u - v)\,dy_3"),
    "Contexts": ("no gradient: nothing is trained by descent",),
    "Counts of n-grams": ("no gradient: counting maximizes the likelihood",),
    "End token": (r"dx_t = dy\;\mathrm{at\ the\ token,\ else}\;0",),
    "Flatten": (r"dx = dy\;\mathrm{in\ the\ shape\ of}\;x",),
    "Kneser-Ney smoothing": ("no gradient",),
    "Last token": (r"dx_t = dy\;\mathrm{at\ the\ token,\ else}\;0",),
}


def backward_equations(kind):
    r"""The equations of the backward of a box.

    Parameters
    ----------
    kind : str
        Of a `Box`: the name of a layer's class, or of a step.

    Returns
    -------
    tuple of str
        In mathtext, each with its dollar signs.

    Raises
    ------
    KeyError
        If there is none; a class that is drawn needs an entry in this page.

    Examples
    --------
    >>> backward_equations("Linear")[0]
    '$dx = dy\\,W^\\top$'
    """
    if kind not in EQUATIONS:
        raise KeyError(f"backward_equations: {kind} has no equation; add it to "
                       "analysis/structure/backward_equations.py.")
    return tuple(line if "$" in line or line.startswith("no gradient") else f"${line}$"
                 for line in EQUATIONS[kind])
