"""The searches and sparse products of a fit on a CUDA GPU.

Needs torch; with Triton, which the CUDA builds of torch bring along, by kernels of its own. Its
modules are imported inside the functions that need them: the rest works without torch.
"""
