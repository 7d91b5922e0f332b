"""Names of the table of the decks that are being built: the verb marks them.

A test holds this list: a name that exists has to leave it.
"""

PENDING = frozenset("""
    analysis.fit_scaling_law analysis.induction_scores count:glam-64b-64e count:palm-540b
    data.RecallStream data.world experiment:answer-retrieval experiment:efficient-attention
    experiment:few-shot experiment:head-patterns experiment:length-extrapolation
    experiment:operations-to-loss experiment:pronouns experiment:scaling-law
    experiment:sentence-objectives experiment:three-families experiment:three-ways
    experiment:word-neighbours experiment:word-senses functional.box_loss
    functional.generalized_iou functional.linear_attention functional.low_rank_attention
    functional.match_objects functional.sparse_attention models.BertSpanClassifier
    models.BertTokenClassifier models.DETR plots.losses_by_operations plots.scaling_law_curves
    preset:answers preset:clip preset:detr preset:entailment preset:entities preset:pixels
    preset:pos-tags preset:recall preset:summarize preset:tinybert
""".split())
