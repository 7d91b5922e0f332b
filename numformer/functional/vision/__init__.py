"""Images: patches, windows, sampled points; boxes of objects, and what they are compared with."""
