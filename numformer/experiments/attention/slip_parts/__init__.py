"""Parts of a decoder as the lecture notes misprint them: `attention`, `others`; and `checks`, the
tests that may notice."""
