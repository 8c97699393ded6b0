"""Checkpoints of what is swapped: the files that DeepSpeed writes with `device: cpu`, as streams.

archive: the files that torch.save writes, whose storages the engine moves.
directory: a checkpoint's directory, which gets its name when it is whole.
saving, loading: what DeepSpeed's two calls do while something is swapped.
universal: checkpoints for another number of ranks, as ds_to_universal.py makes them.
"""
