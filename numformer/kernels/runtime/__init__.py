"""What the kernels are built on: compilation and its cache, memory, the work queue, arithmetic."""
