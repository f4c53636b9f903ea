"""Base classes of all methods, encoders, feature maps and model files.

Names are loaded when they are first used: an index needs the files only, not scikit-learn.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "decoder": ["CodeDecoder"],
        "encoder": ["LinearEncoder"],
        "feature_maps": ["AnchorKernel", "PrincipalMap", "RowsAndKernel", "UnitRows"],
        "persistence": ["load", "save"],
        "rejector": ["Rejector"],
        "training": ["Domains", "TrainingData"],
    },
)
