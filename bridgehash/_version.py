"""The version, read by the build and written into every saved model."""

__version__ = "0.2.0"
