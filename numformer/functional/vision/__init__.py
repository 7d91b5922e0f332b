"""Images: patches; boxes of objects, and which prediction is compared with which."""
