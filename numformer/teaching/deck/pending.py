"""Names of the table of the decks that are being built: the verb marks them.

A test holds this list: a name that exists has to leave it.
"""

PENDING = frozenset("""
    analysis.fit_scaling_law count:glam count:palm count:switch-c data.world
    experiment:attention-weights experiment:batch-norm experiment:contextual-meaning
    experiment:efficient-attention experiment:families experiment:few-shot
    experiment:length-extrapolation experiment:operations-to-loss experiment:recurrent-gradients
    experiment:scaling-law experiment:sentences experiment:skip-connections experiment:slips
    experiment:three-ways functional.convolution2d functional.distance_weights
    functional.linear_attention functional.sparse_attention functional.uniform_weights
    models.BertSpanClassifier models.BertTokenClassifier models.ConvolutionClassifier
    models.DETR models.DecoderClassifier models.Swin plots.architecture plots.lstm_gates
    plots.mask_panels plots.model_growth plots.norm_axes plots.permuted_attention
    plots.position_waves plots.scaling_law_curves plots.unrolled_rnn plots.word_neighbours
    plots.word_senses preset:answers preset:clip preset:detr preset:digits-cnn preset:entailment
    preset:entities preset:pixels preset:pos-tags preset:recall preset:summarize preset:swin
    preset:tinybert
""".split())
