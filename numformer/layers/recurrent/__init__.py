"""Recurrent layers: `through_time` is the loop over time that `rnn`, `lstm` and `gru` share;
`bidirectional` combines two of them, `attentive_gru` is a decoder with attention.
"""
