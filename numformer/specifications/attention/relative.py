"""Shaw's relative positions: tables for keys and values."""

import numpy as np

from numformer import functional as F
from numformer.functional import EVERYWHERE, AttentionPattern
from numformer.specifications.edges import MORE_QUERIES
from numformer.specifications.levels import Level, sizes
from numformer.specifications.pair import Pair
from numformer.specifications.specification import specify


# ---- relative_scores -----------------------------------------------------------------------------

def rows_of(T, S, n_rows):
    K = n_rows // 2
    distance = np.arange(S) - np.arange(T)[:, None] - (S - T)
    return np.clip(distance, -K, K) + K


def relative_scores(q, table, S):
    rows = rows_of(q.shape[2], S, len(table))
    return np.einsum("bhtd,tsd->bhts", q, table[rows])


def relative_scores_backward(dscores, q, table, S):
    rows = rows_of(q.shape[2], S, len(table))
    dq = np.einsum("bhts,tsd->bhtd", dscores, table[rows])
    da = np.einsum("bhts,bhtd->tsd", dscores, q)
    dtable = np.zeros(table.shape)
    np.add.at(dtable, rows, da)
    return dq, dtable


def sizes_and_reach(rng, more_queries):
    """Sizes (B, H, T, S, D), and the reach of a table: shorter than the largest distance."""
    B, H, D = sizes(rng, 3)
    T, S = sorted(int(size) for size in rng.permutation([6, 7, 8, 9])[:2])
    if more_queries:
        T, S = S, T
    return B, H, T, S, D, int(rng.integers(1, 4))


def more_queries(make):
    """The level with T > S."""
    def turned(rng):
        return make(rng, more_queries=True)
    return Level(turned, MORE_QUERIES)


def random_scores(rng, more_queries=False):
    B, H, T, S, D, reach = sizes_and_reach(rng, more_queries)
    return {"q": rng.standard_normal((B, H, T, D)),
            "table": rng.standard_normal((2 * reach + 1, D)), "S": S}, {}


def table_rows(T, S, rows, mistake=""):
    """The row of the table for every pair: the clipped distance from query to key, ends aligned."""
    reach, shift = rows // 2, 0 if mistake == "aligned at the start" else S - T
    distance = np.arange(S) - np.arange(T)[:, None] - shift
    return np.clip(-distance if mistake == "opposite" else distance, -reach, reach) + reach


def table_gradient(x, y, where, rows, mistake=""):
    """The sum of x[..., i, j] y[..., i, :] over each row's pairs; x (..., T, S), y (..., T, D)."""
    table = np.zeros((*x.shape[:2], rows, y.shape[-1]))
    for i, j in np.ndindex(*where.shape):
        term = x[:, :, i, j, None] * y[:, :, i]
        before = 0 if mistake == "overwritten" else table[:, :, where[i, j]]
        table[:, :, where[i, j]] = before + term
    if mistake == "no sum over heads":
        return table.sum(axis=0)
    return table[0].sum(axis=0) if mistake == "first example" else table.sum(axis=(0, 1))


def wrong_relative_scores(mistake):
    def gradients(dscores, q, table, S):
        where = table_rows(q.shape[2], S, len(table), mistake)
        return (dscores[..., None]
                * table[where]).sum(axis=3), table_gradient(dscores, q, where, len(table), mistake)
    return gradients


OF_TABLES = [
    ("only the last of the pairs that share a row of the table is kept, but their gradients must "
     "be summed: np.add.at sums repeated rows, `dtable[rows] += g` does not", "overwritten"),
    ("the sum over the heads is missing in dtable: all heads share the table", "no sum over heads"),
    ("dtable is that of the first example only: the whole batch shares the table", "first example"),
    ("the distance has the wrong sign: it is j - i", "opposite"),
    ("queries and keys are aligned at the start, but the last query is at the last key: the "
     "distance is j - (i + S - T)", "aligned at the start")]


specify(
    F.relative_scores, ("q", "table"),
    {"plain": random_scores, "more queries than keys": more_queries(random_scores)},
    cases=[
        Pair("relative scores", [(2, 2, 4, 3), (5, 3)], after=(6,)),
        Pair("relative scores, more queries than keys", [(1, 2, 5, 3), (3, 3)], after=(3,))],
    mistakes=[(cause, wrong_relative_scores(mistake)) for cause, mistake in OF_TABLES],
    hints=(
        "Every pair (i, j) has a distance, and every distance a vector in the table: the score is "
        "the query's dot product with that vector.",
        "The row is r = clip(j - i - S + T, -K, K) + K, (T, S), where the table has 2 K + 1 rows. "
        "The last query is aligned with the last key.",
        "products = q @ table.T is (B, H, T, 2 K + 1), small; each key takes the entry of its "
        "row: products[..., i, r_ij], for example with np.take_along_axis."),
    backward_hints=(
        "Two steps back: the lookup, and the product with the table. A query sums over its keys; "
        "a row of the table sums over all pairs at its distance.",
        "dproducts (B, H, T, 2 K + 1) adds up, for each query, the dscores of the keys that read "
        "the same row: many keys do, at the clipped ends.",
        "dq is dproducts @ table; dtable is dproducts^T q summed over batch, heads and queries: "
        "np.tensordot over axes (0, 1, 2) of both."))


# ---- relative_values -----------------------------------------------------------------------------

def relative_values(p, table):
    rows = rows_of(p.shape[2], p.shape[3], len(table))
    return np.einsum("bhts,tsd->bhtd", p, table[rows])


def relative_values_backward(do, p, table):
    rows = rows_of(p.shape[2], p.shape[3], len(table))
    dp = np.einsum("bhtd,tsd->bhts", do, table[rows])
    da = np.einsum("bhts,bhtd->tsd", p, do)
    dtable = np.zeros(table.shape)
    np.add.at(dtable, rows, da)
    return dp, dtable


def random_values(rng, more_queries=False):
    B, H, T, S, D, reach = sizes_and_reach(rng, more_queries)
    return {"p": rng.random((B, H, T, S)), "table": rng.standard_normal((2 * reach + 1, D))}, {}


def without_far_keys(p, table):
    T, S, K = *p.shape[2:], len(table) // 2
    near = abs(np.arange(S) - np.arange(T)[:, None] - (S - T)) <= K
    return F.relative_values(p * near, table)[0]


def wrong_relative_values(mistake):
    def gradients(do, p, table):
        where = table_rows(*p.shape[2:], len(table), mistake)
        return (do[:, :, :, None]
                * table[where]).sum(axis=4), table_gradient(p, do, where, len(table), mistake)
    return gradients


specify(
    F.relative_values, ("p", "table"),
    {"plain": random_values, "more queries than keys": more_queries(random_values)},
    cases=[Pair("relative values", [(2, 2, 4, 6), (5, 3)])],
    mistakes=[(cause, wrong_relative_values(mistake)) for cause, mistake in OF_TABLES],
    forward_mistakes=[
        ("keys beyond the table's reach are left out, but use its first or last row",
         without_far_keys)],
    hints=(
        "Add to the output of query i the vectors of the distances, weighted like the values: "
        "sum_j p_ij times the vector of (i, j).",
        "The row of the pair is clip(j - i - S + T, -K, K) + K, of 2 K + 1 rows. Keys that read "
        "the same row can share one product: add up their weights first.",
        "weights (B, H, T, 2 K + 1) holds, for each query, the sum of p over the keys of each "
        "row; the output is weights @ table."),
    backward_hints=(
        "p and the table both enter by a product. dp_ij is a dot product of do_i with one vector; "
        "a row of the table sums over all pairs at its distance.",
        "do @ table.T, (B, H, T, 2 K + 1), holds all dot products; each pair looks up its row. "
        "For the table, first add up p by row, as in the forward.",
        "dp looks up dweights = do @ table.T at the rows; dtable = np.tensordot(weights, do, "
        "axes=((0, 1, 2), (0, 1, 2)))."))


# ---- relative_attention --------------------------------------------------------------------------

def relative_attention(q, k, v, key_table, value_table, pattern=EVERYWHERE, scale=None):
    T, S = q.shape[2], k.shape[2]
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    rows = rows_of(T, S, len(key_table))
    scores = q @ k.mT + np.einsum("bhtd,tsd->bhts", q, key_table[rows])
    scores = np.where(pattern.dense(T, S), scores * scale, -np.inf)
    e = np.exp(scores)
    p = e / e.sum(axis=-1, keepdims=True)
    return p @ v + np.einsum("bhts,tsd->bhtd", p, value_table[rows])


def relative_attention_backward(do, q, k, v, key_table, value_table, pattern=EVERYWHERE,
                                scale=None):
    T, S = q.shape[2], k.shape[2]
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    rows = rows_of(T, S, len(key_table))
    scores = q @ k.mT + np.einsum("bhtd,tsd->bhts", q, key_table[rows])
    scores = np.where(pattern.dense(T, S), scores * scale, -np.inf)
    e = np.exp(scores)
    p = e / e.sum(axis=-1, keepdims=True)
    dv = p.mT @ do
    dp = do @ v.mT + np.einsum("bhtd,tsd->bhts", do, value_table[rows])
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) * scale
    dq = ds @ k + np.einsum("bhts,tsd->bhtd", ds, key_table[rows])
    dk = ds.mT @ q
    dkey_table = np.zeros(key_table.shape)
    np.add.at(dkey_table, rows, np.einsum("bhts,bhtd->tsd", ds, q))
    dvalue_table = np.zeros(value_table.shape)
    np.add.at(dvalue_table, rows, np.einsum("bhts,bhtd->tsd", p, do))
    return dq, dk, dv, dkey_table, dvalue_table


def random_attention(longer=0, **options):
    """The table of the keys, or by the seed that of the values, reaches `longer` keys further."""
    def make(rng, more_queries=False):
        B, H, T, S, D, reach = sizes_and_reach(rng, more_queries)
        k, v = rng.standard_normal((2, B, H, S, D))
        further = (longer, 0) if rng.bit_generator.seed_seq.entropy % 2 else (0, longer)
        key_table, value_table = (rng.standard_normal((2 * (reach + more) + 1, D))
                                  for more in further)
        return {"q": rng.standard_normal((B, H, T, D)), "k": k, "v": v, "key_table": key_table,
                "value_table": value_table}, options
    return make


def wrong_relative_attention(mistake):
    def gradients(do, q, k, v, key_table, value_table, pattern=F.EVERYWHERE, scale=None):
        T, S = q.shape[2], k.shape[2]
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        where = table_rows(T, S, len(key_table))
        of_keys = (q[:, :, :, None] * key_table[where]).sum(axis=4)
        p, _ = F.softmax((q @ k.mT + of_keys) * scale, mask=pattern.dense(T, S))
        dp = do @ v.mT + (0 if mistake == "values in dp"
                          else (do[:, :, :, None] * value_table[where]).sum(axis=4))
        ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) * scale
        dq = ds @ k + (0 if mistake == "keys in dq"
                       else (ds[..., None] * key_table[where]).sum(axis=3))
        dkeys = table_gradient(ds / scale if mistake == "scale of the table" else ds, q, where,
                               len(key_table))
        return dq, ds.mT @ q, p.mT @ do, dkeys, table_gradient(p, do, where, len(value_table))
    return gradients


def with_the_reach_of_the_keys(q, k, v, key_table, value_table, *more, **options):
    """Distances of the values are clipped to the reach of the keys; an IndexError if it is more."""
    K = len(key_table) // 2
    within = value_table[np.arange(-K, K + 1) + len(value_table) // 2]
    return F.relative_attention(q, k, v, key_table, within, *more, **options)[0]


def with_the_rows_of_the_keys(q, k, v, key_table, value_table, *more, **options):
    within = value_table[np.arange(len(key_table))]
    return F.relative_attention(q, k, v, key_table, within, *more, **options)[0]


TWO_LENGTHS = ("The two tables have different numbers of rows here: distances are clipped to the "
               "reach of each one for itself.")

specify(
    F.relative_attention, ("q", "k", "v", "key_table", "value_table"),
    {"plain": random_attention(),
     "tables of two lengths": Level(random_attention(longer=2), TWO_LENGTHS),
     "a causal pattern": random_attention(pattern=F.CAUSAL),
     "scale=0.3": random_attention(scale=0.3), "dropout": random_attention(dropout=0.4, seed=7),
     "more queries than keys": more_queries(random_attention())},
    cases=[
        Pair("relative attention", [(2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4), (5, 4), (5, 4)]),
        Pair("relative attention, all options",
             [(1, 4, 4, 2), (1, 2, 6, 2), (1, 2, 6, 2), (3, 2), (5, 2)],
             options=dict(pattern=AttentionPattern(causal=True, lengths=[5]), scale=0.8,
                          dropout=0.4, seed=11))],
    mistakes=[(cause, wrong_relative_attention(mistake)) for cause, mistake in [
        ("the value table is missing in the gradient of the weights: they were multiplied by v + a",
         "values in dp"),
        ("the key table is missing in dq: q was multiplied by k + a", "keys in dq"),
        ("the scale is missing in dkey_table", "scale of the table")]],
    forward_mistakes=[
        ("the distances of the values are clipped to the reach K of the key table, but each table "
         "has its own: half its rows", with_the_reach_of_the_keys),
        ("the rows of the value table are those of the key table, but each table has its own K: "
         "half its rows", with_the_rows_of_the_keys)],
    hints=(
        "Attention in which the vector of the distance is added to each key and each value: a "
        "second term in the scores, and one in the output.",
        "Scores: (q k^T + relative_scores(q, key_table, S)) times scale; the scale is for both "
        "terms. Output: p v + relative_values(p, value_table).",
        "Key-value heads are repeated for their group; mask before the softmax over the keys; "
        "dropout on p, and both terms of the output use the dropped weights."),
    backward_hints=(
        "Both lines have two terms, so p gets a gradient from v and from value_table, and q gets "
        "one from k and from key_table: add them.",
        "dp = do v^T + the part from relative_values; dscores = p (dp - sum of p dp over the "
        "keys), times scale; it goes to q and k, and to relative_scores_backward.",
        "dq is dproducts @ k plus what relative_scores_backward returns, with dproducts = dscores "
        "* scale; it returns dkey_table as well. dk = dproducts.mT @ q."))
