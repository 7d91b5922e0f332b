"""Models of numbers that are no tokens: time series, and sets of points."""

from numformer.recipes.numbers import forecasts, points

PRESETS = {**forecasts.PRESETS, **points.PRESETS}
