"""Other libraries beside crowdassay: their environments, the scripts that run there, and the comparison.

A file whose name ends with `_side` is run by a peer's own interpreter and imports nothing of crowdassay.
"""
