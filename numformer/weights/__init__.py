"""The language of tables of published weights; `numformer.interop` reads and writes with them.

A table is a page of a family's folder, such as `numformer/models/decoder/gpt_weights.py`.

    table         start here: a row for each parameter, and the published tensor that it is
    operations    what lies between both: a transpose, a part, a factor
    keys          what the keys of a config.json mean to us
    rotary        keys about rotary positions, and the scale of scores
    local_layers  keys about layers that attend within a window
    family        all of it together
"""
