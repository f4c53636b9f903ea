"""Encoders in formats that other languages read."""

from .onnx import to_onnx

__all__ = ["to_onnx"]
