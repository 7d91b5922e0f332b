"""A decoder of numbers: forecasts of a time series, each with its uncertainty.

    model      start here: the options, and the model
"""
