"""Other packages' users: what makes loomgen run where they call flash-linear-attention or transformers today.

Both packages are optional and imported when a function here is called. Nothing of either is copied.
"""
