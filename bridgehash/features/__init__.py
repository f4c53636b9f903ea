"""Images and texts to vectors: descriptors, networks, and extraction from folders and files."""

from .backbones import BACKBONES, Backbone, find_backbone
from .extract import Extraction, extract, read_header
from .folder import Unreadable, list_images, read_image
from .gist import gist
from .hog import hog
from .loaders import LOADERS

__all__ = [
    "BACKBONES",
    "LOADERS",
    "Backbone",
    "Extraction",
    "Unreadable",
    "extract",
    "find_backbone",
    "gist",
    "hog",
    "list_images",
    "read_header",
    "read_image",
]
