"""A decoder that reads an image before its text: image and text in, text out.

    model      start here: the options, and the model
"""
