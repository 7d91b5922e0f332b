"""Names of the table of the decks that are being built: the verb marks them.

A test holds this list: a name that exists has to leave it.
"""

PENDING = frozenset("""
    analysis.fit_scaling_law analysis.induction_scores analysis.lstm_gates count:glam-64b-64e
    count:palm-540b data.RecallStream data.world experiment:answer-retrieval
    experiment:attention-weights experiment:batch-norm experiment:efficient-attention
    experiment:few-images experiment:few-shot experiment:head-patterns
    experiment:length-extrapolation experiment:operations-to-loss experiment:pronouns
    experiment:recurrent-gradients experiment:scaling-law experiment:sentence-objectives
    experiment:skip-connections experiment:slips experiment:three-families experiment:three-ways
    experiment:word-neighbours experiment:word-senses figures/architecture_2017.png
    figures/architecture_bert.png figures/architecture_gpt.png figures/architecture_t5.png
    figures/architecture_vit.png figures/lstm_gates.png figures/masks.png
    figures/model_sizes.png figures/permutation.png figures/sinusoid_curves.png
    figures/unrolled_rnn.png functional.box_loss functional.convolution_2d
    functional.distance_weights functional.generalized_iou functional.linear_attention
    functional.low_rank_attention functional.match_objects functional.sparse_attention
    functional.uniform_weights functional.window_partition layers.Convolution2D
    layers.FixedWeightAttention layers.PlainBlock models.BertSpanClassifier
    models.BertTokenClassifier models.ConvolutionClassifier models.DETR models.Swin
    plots.architecture_diagram plots.attention_maps plots.losses_by_operations
    plots.lstm_gate_maps plots.mask_panels plots.model_growth plots.norm_comparison
    plots.norm_cube plots.permutation_panels plots.position_waves plots.scaling_law_curves
    plots.shifted_windows plots.unrolled_rnn preset:answers preset:clip preset:detr
    preset:digits-cnn preset:entailment preset:entities preset:pixels preset:pos-tags
    preset:recall preset:summarize preset:swin preset:tinybert
""".split())
