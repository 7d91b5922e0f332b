"""A checksum of numbers that are the same on every machine but for their last digits."""

import hashlib

import numpy as np


def checksum(numbers):
    """SHA-256 of all numbers, to six places: sines differ between machines in the last."""
    return hashlib.sha256(np.rint(numbers * 1e6).astype("<i8").tobytes()).hexdigest()
