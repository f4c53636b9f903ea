"""Models come back as they were saved, and only public classes of the package come back."""

import json

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import Nystroem
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import bridgehash
from bridgehash import (
    ATH,
    ITQ,
    AdaptiveBipartite,
    AnchorKernel,
    GivenStart,
    InputError,
    KNNGraph,
    LabelStart,
    LinearEncoder,
    ModelFileError,
    PCAStart,
    PrincipalMap,
    Propagation,
    Shared,
    UnitRows,
    load,
    save,
)
from bridgehash.models.model_file import load_model, save_model
from tests.cases import METHODS, two_domains

MAPS = {
    "UnitRows": UnitRows(),
    "PrincipalMap": PrincipalMap(n_components=4),
    "AnchorKernel": AnchorKernel(n_anchors=6, random_state=0),
}


@pytest.fixture(scope="module")
def data():
    return two_domains()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def through_a_file(model, path):
    save(model, path)
    return load(path)


def fitted(data, **parameters):
    parameters = {"n_bits": 8, "max_iter": 3, "tol": 0.0, "random_state": 0} | parameters
    return ATH(**parameters).fit(data.X_source, data.X_target, y_source=data.y_source)


# --- what comes back


@pytest.mark.filterwarnings("ignore::bridgehash.PairsWarning")
@pytest.mark.parametrize("name", METHODS)
def test_a_saved_model_gives_the_same_codes(data, path, name):
    model = METHODS[name].fit(data)
    loaded = through_a_file(model, path)
    for X, domain in ((data.X_source, "source"), (data.X_query, "target")):
        np.testing.assert_array_equal(loaded.encode(X, domain), model.encode(X, domain))


def test_the_record_of_the_fit_comes_back(data, path):
    model = fitted(data)
    loaded = through_a_file(model, path)
    assert loaded.objective_.dtype == model.objective_.dtype
    np.testing.assert_array_equal(loaded.objective_, model.objective_)
    assert (loaded.n_iter_, loaded.converged_) == (model.n_iter_, model.converged_) == (3, False)


def test_the_graph_of_the_training_rows_stays_behind(data, path):
    loaded = through_a_file(fitted(data), path)
    assert not hasattr(loaded, "bipartite_graph_")
    stored = load_model(path).arrays.values()
    assert not [array for array in stored if len(data.X_source) in array.shape]


def test_parameter_objects_come_back_with_their_parameters(data, path):
    model = fitted(
        data,
        source_graph=KNNGraph(n_neighbors=5),
        target_graph=KNNGraph(n_neighbors=4, mutual=True),
        bipartite=AdaptiveBipartite(n_neighbors=3, gamma="mean"),
        start=PCAStart(basis="domain", rotation=None),
        feature_map=AnchorKernel(n_anchors=9, bandwidth=0.5),
        lam=0.25,
        unit_rows=False,
    )
    loaded = through_a_file(model, path)
    assert isinstance(loaded.source_graph, KNNGraph)
    assert loaded.source_graph.n_neighbors == 5
    assert repr(loaded.get_params()) == repr(model.get_params())
    assert type(loaded.unit_rows) is bool
    loaded.fit(data.X_source, data.X_target)  # the parameters are alive
    np.testing.assert_array_equal(
        loaded.encode(data.X_query, "target"), model.encode(data.X_query, "target")
    )


@pytest.mark.parametrize("start", [LabelStart(), PCAStart("domain", None)], ids=repr)
def test_starts_come_back(data, path, start):
    assert repr(through_a_file(fitted(data, start=start), path).start) == repr(start)


def test_what_only_the_fit_needs_is_left_out(data, path):
    W = csr_array(np.ones((len(data.X_source), len(data.X_target))))
    model = fitted(data, start=GivenStart(W), random_state=np.random.RandomState(0))
    loaded = through_a_file(model, path)
    assert "not saved" in repr(loaded.start.W)
    assert loaded.random_state is None
    np.testing.assert_array_equal(
        loaded.encode(data.X_source, "source"), model.encode(data.X_source, "source")
    )


def test_a_shared_method_keeps_the_method_inside(data, path):
    model = Shared(ITQ(n_bits=8, max_iter=7, random_state=0)).fit(data.X_source, data.X_target)
    loaded = through_a_file(model, path)
    assert repr(loaded) == repr(model)
    assert isinstance(loaded.hasher_, ITQ)
    assert loaded.source_encoder_.maps[0].n_features_in_ == data.X_source.shape[1]
    Z = data.X_target[:, :5]
    np.testing.assert_array_equal(loaded.hasher_.encode(Z), model.hasher_.encode(Z))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("names", [(), ("UnitRows",), ("AnchorKernel",), tuple(MAPS)], ids=str)
def test_an_encoder_comes_back_with_its_maps(data, path, names, dtype):
    Z, maps = data.X_source.astype(dtype), []
    for name in names:
        maps.append(type(MAPS[name])(**MAPS[name].get_params()).fit(Z))
        Z = maps[-1].transform(Z)
    projection = np.random.default_rng(0).normal(size=(Z.shape[1], 5)).astype(dtype)
    encoder = LinearEncoder(projection, Z.mean(axis=0), scale=0.3, maps=maps)
    loaded = through_a_file(encoder, path)
    assert [type(m).__name__ for m in loaded.maps] == list(names)
    assert loaded.projection.dtype == loaded.mean.dtype == dtype
    np.testing.assert_array_equal(loaded.projection, projection)
    X = data.X_source.astype(dtype)
    np.testing.assert_array_equal(loaded.decision_function(X), encoder.decision_function(X))


@pytest.mark.parametrize("name", MAPS)
def test_a_feature_map_comes_back_whole(data, path, name):
    model = MAPS[name].fit(data.X_source)
    loaded = through_a_file(model, path)
    np.testing.assert_array_equal(loaded.transform(data.X_source), model.transform(data.X_source))
    np.testing.assert_array_equal(loaded.get_feature_names_out(), model.get_feature_names_out())


def test_equal_models_give_equal_files(data, tmp_path):
    for name in "ab":
        save(fitted(data), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


# --- what is refused


def test_an_unfitted_model_is_not_saved(path):
    with pytest.raises(NotFittedError):
        ATH().save(path)
    assert not path.exists()


def test_a_file_of_another_class_is_refused_by_name(data, path):
    model = fitted(data)
    model.target_encoder_.save(path)
    assert isinstance(LinearEncoder.load(path), LinearEncoder)
    for wrong in (ATH, Shared, ITQ):
        with pytest.raises(ModelFileError, match=f"holds LinearEncoder, not {wrong.__name__}"):
            wrong.load(path)
    model.save(path)
    with pytest.raises(ModelFileError, match="holds ATH, not LinearEncoder"):
        LinearEncoder.load(path)


FOREIGN = ["OrderedDict", "StandardScaler", "BaseHasher", "load", "__version__", "os.system", ""]


@pytest.mark.parametrize("name", FOREIGN)
def test_an_unknown_class_is_refused(path, name):
    save_model(path, name, {"class": name, "parameters": {}, "learned": {}}, {})
    with pytest.raises(ModelFileError, match="not a class that is stored"):
        load(path)


def test_an_unknown_class_is_refused_inside_another(path):
    inner = {"class": "StandardScaler", "parameters": {}, "learned": {}}
    header = {"class": "Shared", "parameters": {"hasher": inner}, "learned": {}}
    save_model(path, "Shared", header, {})
    with pytest.raises(ModelFileError, match="StandardScaler is not a class"):
        load(path)


def test_every_public_estimator_may_be_in_a_file():
    from bridgehash.models.persistence import _class_of

    for name in bridgehash.__all__:
        value = getattr(bridgehash, name)
        if isinstance(value, type) and issubclass(value, BaseEstimator):
            assert _class_of(name) is value


DAMAGED = {
    "no class": {},
    "no parameters": {"class": "ATH"},
    "unknown parameter": {"class": "ATH", "parameters": {"n_bites": 8}, "learned": {}},
    "missing array": {
        "class": "LinearEncoder",
        "parameters": {"projection": {"array": "gone", "fields": []}, "mean": None},
        "learned": {},
    },
    "a number": {"class": 7, "parameters": {}, "learned": {}},
    "parameters that are a list": {"class": "ATH", "parameters": [], "learned": {}},
}


@pytest.mark.parametrize("header", DAMAGED.values(), ids=list(DAMAGED))
def test_a_header_that_describes_no_model_is_refused(path, header):
    save_model(path, "ATH", header, {})
    with pytest.raises(ModelFileError, match=str(path)):
        load(path)


class OwnMap(TransformerMixin, BaseEstimator):
    """A transformer of a user."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return X


class OwnStart:
    """A start of a user."""

    def begin(self, context):
        return PCAStart().begin(context)


def test_what_could_not_be_loaded_is_not_saved(data, path):
    model = fitted(data, feature_map=OwnMap())
    with pytest.raises(InputError, match=r"OwnMap cannot be saved.* use pickle"):
        save(model, path)
    keeps_private_state = fitted(data, feature_map=PolynomialFeatures(2, include_bias=False))
    with pytest.raises(InputError, match="PolynomialFeatures cannot be saved"):
        save(keeps_private_state, path)
    assert not path.exists()


@pytest.mark.parametrize("feature_map", [StandardScaler(), PCA(4), Nystroem(n_components=9)])
def test_a_transformer_of_scikit_learn_is_saved(data, path, feature_map):
    model = fitted(data, feature_map=feature_map)
    loaded = through_a_file(model, path)
    np.testing.assert_array_equal(
        loaded.encode(data.X_query, "target"), model.encode(data.X_query, "target")
    )


def test_propagation_is_saved_with_its_parameters(path):
    one_space = two_domains(d_t=7)
    model = fitted(one_space, completion=Propagation(n_neighbors=4), bipartite="labels")
    assert through_a_file(model, path).completion.n_neighbors == 4


def test_a_start_of_the_user_is_asked_for_when_a_loaded_model_is_fitted(data, path):
    model = fitted(data, start=OwnStart())
    loaded = through_a_file(model, path)
    np.testing.assert_array_equal(
        loaded.encode(data.X_source, "source"), model.encode(data.X_source, "source")
    )
    with pytest.raises(InputError, match="start: <OwnStart: not saved with the model>"):
        loaded.fit(data.X_source, data.X_target)
    save(loaded, path)  # a loaded model can be saved again
    assert "OwnStart" in repr(load(path).start)


def test_the_header_says_what_the_file_is(data, path):
    fitted(data).save(path)
    file = load_model(path)
    assert file.kind == file.header["class"] == "ATH"
    assert file.package_version == bridgehash.__version__
    assert json.loads(json.dumps(file.header)) == file.header
