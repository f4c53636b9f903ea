"""The data sets by name: `DATASETS`.

A set without published features has no URL. The hint of its `file` says how to get or make it.
"""

from __future__ import annotations

from collections.abc import Mapping

from .dataset import ALONE, DataSet, DataView, views
from .decaf import DECAF
from .external import EXTERNAL
from .files import DataFile
from .mnist_usps import MNIST_USPS

_LITE = ("effnet_lite0", "effnet_lite2")

_OFFICE_CALTECH10 = DataSet(
    name="office-caltech10",
    title="Office-Caltech10, ten classes of objects in photographs of two collections",
    citation=(
        "Gong, Shi, Sha and Grauman, Geodesic flow kernel for unsupervised domain adaptation, "
        "CVPR 2012; Saenko, Kulis, Fritz and Darrell, Adapting visual category models to new "
        "domains, ECCV 2010; Griffin, Holub and Perona, Caltech-256 object category dataset, 2007"
    ),
    licence="released for research; no licence stated",
    views=(
        *views(("amazon", "caltech10"), ("surf800", *_LITE, "mobilenet_v1")),
        DataView("amazon", "googlenet1024"),
    ),
    file=DataFile(
        "office_caltech10.npz",
        "b7a359c85a8b044b2e4ba1360c496a301743856841ad94909d4ed58bcdc9277d",
        size=10_189_944,
        hint=(
            "It holds arrays such as amazon_surf800 (one row per image) and amazon_y (the class). "
            "The SURF histograms are those that Gong et al. released (amazon_SURF_L10.mat, "
            "Caltech10_SURF_L10.mat)."
        ),
    ),
    own_views=views(("amazon", "caltech10"), ("decaf6", "vgg16")),
    class_names=(
        "backpack",
        "bike",
        "calculator",
        "headphones",
        "keyboard",
        "laptop",
        "monitor",
        "mouse",
        "mug",
        "projector",
    ),
    public=DECAF,
)
_PACS = DataSet(
    name="pacs",
    title="PACS, seven classes as photographs, sketches and cartoons",
    citation=(
        "Li, Yang, Song and Hospedales, Deeper, broader and artier domain generalization, ICCV 2017"
    ),
    licence="released for research; no licence stated",
    views=views(("photo", "sketch", "cartoon"), ("gist512", *_LITE, "mobilenet_v1")),
    file=DataFile(
        "pacs.npz",
        "57bb1cf752f4b88cefceafec36b5f2d69a26ea3bb6641b9a39975483ce1236bf",
        size=40_397_398,
        hint="It holds arrays such as photo_gist512 (one row per image) and photo_y (the class).",
    ),
    class_names=("dog", "elephant", "giraffe", "guitar", "horse", "house", "person"),
)
_CIFAR10 = DataSet(
    name="cifar10",
    title="CIFAR-10, 60,000 small photographs of ten classes",
    citation="Krizhevsky, Learning multiple layers of features from tiny images, 2009",
    licence="no licence stated; the author asks for the citation",
    views=(DataView(ALONE, "gist512"),),
    file=DataFile(
        "cifar10_gist512.npz",
        "38de41c449ae615b5b2fe10cc8cfee98e20f374acb7723ed342ad54928acbbe1",
        size=53_765_341,
        hint=(
            "It holds gist512 (one row per image, training and test images together) and y (the "
            "class). The images are https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz "
            "(sha256 6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce); save "
            "each image as a file in a folder named after its class."
        ),
    ),
    n_queries=1_000,
)
_OFFICE_HOME = DataSet(
    name="office-home",
    title="Office-Home, 65 classes as art, clip art, product pictures and photographs",
    citation=(
        "Venkateswara, Eusebio, Chakraborty and Panchanathan, Deep hashing network for "
        "unsupervised domain adaptation, CVPR 2017"
    ),
    licence="fair-use notice of the authors: research and education, not commerce",
    views=views(("art", "clipart", "product", "real_world"), ("vgg16", "resnet50", *_LITE)),
    file=DataFile(
        "office_home.npz",
        hint=(
            "It holds arrays such as art_vgg16 (one row per image) and art_y (the class). The "
            "images are on the page of the authors (OfficeHomeDataset_10072016.zip), one folder "
            "per domain."
        ),
    ),
)
_VISDA2017 = DataSet(
    name="visda2017",
    title="VisDA-2017, twelve classes as synthetic renderings (train) and photographs (validation)",
    citation=(
        "Peng, Usman, Kaushik, Hoffman, Wang and Saenko, VisDA: the visual domain adaptation "
        "challenge, 2017"
    ),
    licence="released for research; the photographs come from COCO and keep their own terms",
    views=views(("train", "validation"), ("vgg16", "resnet50")),
    file=DataFile(
        "visda2017.npz",
        hint=(
            "It holds arrays such as train_resnet50 (one row per image) and train_y (the class). "
            "The paper takes 500 images per class and domain from the train and validation parts "
            "of the classification track."
        ),
    ),
)
_SUN397 = DataSet(
    name="sun397",
    title="SUN397, photographs of 397 kinds of scenes",
    citation=(
        "Xiao, Hays, Ehinger, Oliva and Torralba, SUN database: large-scale context recognition "
        "from abbey to zoo, CVPR 2010"
    ),
    licence="released for research; the photographs keep the terms of their owners",
    views=views((ALONE,), ("features1600", "gist512")),
    file=DataFile(
        "sun397.npz",
        hint=(
            "It holds features1600 or gist512 (one row per image) and y (the class). The paper "
            "uses 1,600 values per image and does not say what they are."
        ),
    ),
    n_queries=1_800,
)
_OWN = DataSet(
    name="own",
    title="Your own features, one file per view",
    citation="",
    licence="yours",
    n_queries=None,
)

_ALL = (
    _OFFICE_CALTECH10,
    _PACS,
    MNIST_USPS,
    _CIFAR10,
    _OFFICE_HOME,
    _VISDA2017,
    _SUN397,
    *EXTERNAL,
    _OWN,
)
DATASETS: Mapping[str, DataSet] = {dataset.name: dataset for dataset in _ALL}
