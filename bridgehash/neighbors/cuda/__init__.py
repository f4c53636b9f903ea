"""Nearest-row search and sparse products on a CUDA GPU.

Needs torch. With Triton, which the CUDA builds of torch include, our own kernels are used. The rest
of the package imports these modules only inside functions, so it works without torch.
"""
