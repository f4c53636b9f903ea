"""`bridgehash fit`: learn hash functions for two or more domains and save them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal

from bridgehash._core.errors import BridgeWarning, InputError, named, unknown
from bridgehash.cli import options as opt
from bridgehash.cli.console import counted, may_animate, note, say, show_fields, show_verdict
from bridgehash.cli.domains import MODEL_SUFFIXES, Data

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from bridgehash.ath.fit import RuntimeOptions
    from bridgehash.models.base import BaseTransferHasher


_SHOWN = 4  # names of columns in the summary

DomainRows = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE TARGET | NAME=SPEC...",
        help="Features of the source and of the target, or of two or more domains with names.",
    ),
]
ModelOut = Annotated[Path, typer.Option("--out", help="Model file to write: *.bh")]
MethodName = Annotated[
    str,
    typer.Option(help="A name from `bridgehash methods`; `ath` chooses a preset by the data."),
]
Preset = Annotated[
    str | None,
    typer.Option(
        help=f"Preset of ath: {', '.join(opt.PRESETS)}. `--method ath --preset kernel` is the "
        "same as `--method ath-kernel`."
    ),
]
Published = Annotated[
    bool,
    typer.Option(
        "--published",
        help="As the paper prints it, instead of the tuned settings; for its four variants. The "
        "authors' script is `--method ath-unsupervised-authors`.",
    ),
]
LabelsSource = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC", help="Labels of the source: text, or whole numbers with -1 for unknown."
    ),
]
LabelsTarget = Annotated[
    str | None, typer.Option(metavar="SPEC", help="Labels of the target, of the same kind.")
]
Labels = Annotated[
    list[str] | None,
    typer.Option("--labels", metavar="NAME=SPEC", help="Labels of a named domain; repeatable."),
]
Pairs = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC",
        help="Row numbers from 0, one column per domain: rows that show the same thing. Of more "
        "than two domains, -1 is no row.",
    ),
]
FrozenDomains = Annotated[
    list[str] | None,
    typer.Option(
        "--frozen",
        metavar="NAME=FILE",
        help="Keep the codes of a domain: its model (*.bh), or packed codes. NAME= instead of "
        "NAME=SPEC if only its codes are known; repeatable.",
    ),
]
Hub = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Bridge all other domains to this one, not each to each."),
]
Initial = Annotated[
    Path | None,
    typer.Option(
        metavar="MODEL",
        help="Stay close to an earlier model, for more rows or better labels (ath only).",
    ),
]
Bits = Annotated[
    int, typer.Option(parser=opt.whole(1, opt.MAX_BITS), metavar="N", help="Code length.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set a parameter of the method; repeatable. An unknown key lists all parameters.",
    ),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE", help="Memory the fit may use beyond its inputs, such as 4GiB (ath only)."
    ),
]
Device = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Where to compute: auto, cpu, cuda, cuda:1 (ath only)."),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="Fail, and write nothing, if cross-domain search will not work (red)."
    ),
]
Seed = Annotated[
    int, typer.Option(parser=opt.whole(0, 2**32 - 1), metavar="N", help="Random seed.")
]
Verbose = Annotated[
    bool | None,
    typer.Option(
        "--verbose/--quiet",
        "-v/-q",
        show_default=False,
        help="-v logs each step, -q shows only errors. Default: a progress bar on a terminal.",
    ),
]


def fit(
    domains: DomainRows,
    out: ModelOut,
    method: MethodName = "ath",
    preset: Preset = None,
    published: Published = False,
    labels_source: LabelsSource = None,
    labels_target: LabelsTarget = None,
    labels: Labels = None,
    pairs: Pairs = None,
    frozen: FrozenDomains = None,
    hub: Hub = None,
    initial: Initial = None,
    bits: Bits = 64,
    settings: Settings = None,
    scheduler: opt.Scheduler = None,
    memory_limit: MemoryLimit = None,
    device: Device = None,
    seed: Seed = 0,
    strict: Strict = False,
    verbose: Verbose = None,
) -> None:
    """Learn hash functions for two or more domains and save them.

    Inputs have one row per sample: FILE.npy, FILE.npz:KEY, FILE.parquet:COLUMN, FILE.csv,
    FOLDER.zarr, or a folder of .npy or .parquet files that are read in the order of their names.
    The domains may differ in rows and in columns. Without names they are source and target.

    \b
    Example:
      bridgehash demo --write
      bridgehash fit demo/digits.npz:source demo/digits.npz:target --out model.bh \\
        --labels-source demo/digits.npz:y_source --labels-target demo/digits.npz:y_target
      bridgehash fit pixels=demo/digits.npz:source gradients=demo/digits.npz:target \\
        blurred=demo/digits.npz:target_pixels --out three.bh --bits 32 \\
        --labels pixels=demo/digits.npz:y_source --labels gradients=demo/digits.npz:y_target \\
        --labels blurred=demo/digits.npz:y_target
    """
    from bridgehash import ATH, load, save
    from bridgehash._core.validation import check_parameters
    from bridgehash.ath.fit import RuntimeOptions
    from bridgehash.cli.domains import domain_specs, label_specs, read_data, read_frozen
    from bridgehash.cli.info import fit_fields, fit_record
    from bridgehash.cli.io import check_output
    from bridgehash.registry import inner_estimator

    started = perf_counter()
    path = check_output(out, MODEL_SUFFIXES)
    progress = may_animate() if verbose is None else verbose
    runtime = RuntimeOptions(device, memory_limit, progress)
    check_parameters(runtime)
    in_blocks = bool(scheduler or memory_limit)
    specs = domain_specs(domains)
    if verbose:
        say(f"reading {' and '.join(specs.values())}")
    known = label_specs(specs, labels_source, labels_target, labels)
    data = read_data(specs, known, pairs, in_blocks=in_blocks)
    held = read_frozen(frozen or [], specs)
    name, reason = method_name(
        method, preset, published, data, in_blocks=in_blocks, frozen=bool(held)
    )
    hasher = build(name, bits, seed, settings or [])
    if (held or hub or initial or len(specs) > 2) and not isinstance(hasher, ATH):
        raise InputError(f"{name} learns from two domains anew; use an ath method", "--method")
    more: dict[str, Any] = {}
    if isinstance(hasher, ATH):
        before = None if initial is None else load(initial)
        more = {"frozen": held or None, "hub": hub, "initial": before}
    if verbose is not False:
        for text in unused(hasher, data):
            note(f"{name} does not use {text}; ignored")
    check_runtime(inner_estimator(hasher), name, scheduler, runtime)
    if verbose:
        say("fitting")
    with warnings.catch_warnings(), on_cluster(scheduler):
        from sklearn.exceptions import ConvergenceWarning

        action: Any = "ignore" if verbose is False else "always"
        warnings.simplefilter(action, ConvergenceWarning)
        warnings.simplefilter("error" if strict else action, BridgeWarning)
        problems = _count_bridge_warnings()
        try:
            hasher.fit(**data, **more, **(vars(runtime) if isinstance(hasher, ATH) else {}))
        except BridgeWarning as warning:
            raise InputError(str(warning), "--strict") from warning
        except InputError as error:
            files = {f"X[{domain!r}]": spec for domain, spec in specs.items()}
            files |= {f"y[{domain!r}]": spec for domain, spec in known.items()}
            if "source" not in specs:
                files |= {f"y_{domain}": f"--labels {domain}" for domain in specs}
            argument = files.get(error.argument, error.argument)
            raise InputError(error.problem, argument) from error
    with named(path, writing=True):
        save(hasher, path)
    if verbose is not False:
        show_fields(
            [
                ("method", f"{name} ({reason})" if reason else name),
                *((domain, _size(data, domain, domain in held)) for domain in specs),
                *_columns(data),
                *_classes(data),
                *_counterparts(hasher, list(data.get("y", {})), list(specs)),
                *([("pairs", str(len(data["pairs"])))] if "pairs" in data else []),
                *([("bits changed", _changes(hasher.changed_bits_))] if initial else []),
                ("bits", str(next(iter(hasher.encoders_.values())).n_bits)),
                *fit_fields(fit_record(hasher)),
                ("checks", f"{counted(len(problems), 'warning')}" if problems else "passed"),
                ("written", f"{path} ({decimal(path.stat().st_size)})"),
                ("time", f"{perf_counter() - started:.1f} s"),
            ]
        )
        show_verdict(hasher.bridge_report_)


def method_name(
    method: str,
    preset: str | None,
    published: bool,
    data: Data,
    *,
    in_blocks: bool = False,
    frozen: bool = False,
) -> tuple[str, str]:
    """Return the registered name of a method and, if the data chose it, the reason.

    `--method ath --preset kernel`, `--method ath-kernel` and `--preset kernel` are the same.
    """
    from bridgehash.ath.presets import choose_preset
    from bridgehash.registry import METHODS, ath_name

    reason = ""
    method = method.replace("_", "-")
    if method == "ath":
        if preset is None:
            preset, reason = choose_preset(
                data["X_source"],
                data.get("y"),
                data.get("pairs"),
                published=published,
                in_blocks=in_blocks,
                frozen=frozen,
            )
        known = [name for name in opt.PRESETS if ath_name(name, published=published) in METHODS]
        preset = preset.replace("_", "-")
        if preset not in known:
            kind = "published preset" if published else "preset"
            raise InputError(unknown(kind, preset, known), "preset")
        return ath_name(preset, published=published), reason
    if preset is not None:
        raise InputError(f"{preset!r} needs --method ath, not {method}; drop one of them", "preset")
    if method not in METHODS:
        raise InputError(unknown("method", method, ["ath", *METHODS]), "method")
    if not published or method.endswith("-published"):
        return method, reason
    if f"{method}-published" not in METHODS:
        known = [name for name in METHODS if f"{name}-published" in METHODS]
        raise InputError(f"needs one of {', '.join(known)}, not {method}", "--published")
    return f"{method}-published", reason


def build(name: str, n_bits: int, seed: int, settings: Iterable[str]) -> BaseTransferHasher:
    """Return an unfitted hasher with the parameters of `key=value` settings."""
    from sklearn.base import clone

    from bridgehash._core.validation import check_parameters
    from bridgehash.registry import find_method, inner_estimator

    hasher: BaseTransferHasher = clone(find_method(name).prepared(n_bits, seed))
    estimator = inner_estimator(hasher)
    _apply_settings(estimator, dict(map(_parse, settings)))
    check_parameters(estimator)
    return hasher


def _apply_settings(estimator: BaseEstimator, wanted: Mapping[str, Any]) -> None:
    """Set parameters; `part__key` is a parameter of a part such as a graph."""
    for deep in (False, True):
        chosen = {key: value for key, value in wanted.items() if ("__" in key) == deep}
        if deep and chosen:
            _replace_names(estimator, {key.partition("__")[0] for key in chosen})
        known = estimator.get_params(deep=deep)
        for key, value in chosen.items():
            if key not in known:
                raise InputError(unknown("parameter", key, _all_parameters(estimator)), "--set")
            if isinstance(known[key], bool) and not isinstance(value, bool):
                raise InputError(f"{key}={value!r} is not allowed; use true or false", "--set")
        estimator.set_params(**chosen)


def _parse(setting: str) -> tuple[str, Any]:
    """Return key and value of `key=value`: JSON if it can be parsed, else text.

    >>> _parse("lam=0.5"), _parse("start=pca"), _parse("feature_map=null")
    (('lam', 0.5), ('start', 'pca'), ('feature_map', None))
    """
    key, equals, text = (part.strip() for part in setting.partition("="))
    if not (key and equals):
        raise InputError(f"{setting!r} is not of the form key=value; write --set lam=0.5", "--set")
    try:
        return key, json.loads(text)
    except (ValueError, RecursionError):
        return key, {"None": None, "True": True, "False": False}.get(text, text)


def _replace_names(estimator: BaseEstimator, parts: Collection[str]) -> None:
    """Replace the names of parts by objects, whose parameters can be set."""
    from sklearn.base import clone

    from bridgehash.ath.presets import NAMED_PARTS

    for part, value in estimator.get_params(deep=False).items():
        objects = NAMED_PARTS.get(part, {})
        if part in parts and isinstance(value, str) and value in objects:
            estimator.set_params(**{part: clone(objects[value])})


def _all_parameters(estimator: BaseEstimator) -> list[str]:
    from sklearn.base import clone

    estimator = clone(estimator)
    _replace_names(estimator, estimator.get_params(deep=False))
    return sorted(estimator.get_params(deep=True))


def unused(hasher: BaseTransferHasher, given: Data) -> list[str]:
    """Return which of the given labels and pairs the hasher ignores, in words."""
    used = hasher.used_inputs()
    texts = []
    domains, labels = list(given["X_source"]), given.get("y", {})
    for domain in labels:
        if f"y_{'source' if domain == domains[0] else 'target'}" not in used:
            texts.append(f"labels of {_article(domain)}")
    return [*texts, *(["pairs"] if "pairs" in given and "pairs" not in used else [])]


def _article(domain: str) -> str:
    return f"the {domain}" if domain in ("source", "target") else domain


def check_runtime(
    estimator: BaseEstimator, name: str, scheduler: str | None, runtime: RuntimeOptions
) -> None:
    """Refuse runtime options that the method cannot use, before anything takes time."""
    from bridgehash import ATH
    from bridgehash.ath.memory import check_in_blocks

    values = {
        "--scheduler": scheduler,
        "--memory-limit": runtime.memory_limit,
        "--device": runtime.device,
    }
    given = [option for option, value in values.items() if value]
    if given and not isinstance(estimator, ATH):
        raise InputError(f"works with ath methods only, not {name}; drop it", given[0])
    if scheduler and len(given) > 1:
        raise InputError(f"cannot be combined with {given[1]}; drop one of them", "--scheduler")
    if scheduler:
        try:
            check_in_blocks(estimator)
        except InputError as error:
            raise InputError(
                f"{name} needs all rows in one memory; use --preset unsupervised, semi-supervised "
                "or supervised, or drop --scheduler",
                "--scheduler",
            ) from error


@contextmanager
def on_cluster(scheduler: str | None) -> Iterator[None]:
    """Run what is inside on the workers of a Dask scheduler, if one is given."""
    if scheduler is None:
        yield
        return
    from bridgehash.streaming.dask import cluster, quiet

    with quiet(), cluster(scheduler):
        yield


def _changes(changed: Mapping[str, float]) -> str:
    return ", ".join(f"{100 * share:.1f} % of {domain}" for domain, share in changed.items())


def _count_bridge_warnings() -> list[Warning | str]:
    """Return a list that collects the bridge warnings that are shown, until filters are reset."""
    show, found = warnings.showwarning, list[Warning | str]()

    def count(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if issubclass(category, BridgeWarning):
            found.append(message)
        show(message, category, *rest, **more)

    warnings.showwarning = count
    return found


def _columns(data: Data) -> Iterator[tuple[str, str]]:
    """Yield the names of the columns that were used, by domain, and of those that were not."""
    for domain, X in data["X_source"].items():
        names, unused = getattr(X, "columns", None), getattr(X, "unused", ())
        if names is None:
            continue
        text = _few(names) + (f"; not used: {_few(unused)}" if unused else "")
        yield f"columns of {domain}", text


def _few(names: Sequence[str]) -> str:
    """Return a list of names, shortened.

    >>> _few(["a", "b"]), _few([f"f{i}" for i in range(64)])
    ('a, b', 'f0, f1, f2, f3, ..., f63 (64)')
    """
    if len(names) <= _SHOWN + 2:
        return ", ".join(names)
    return f"{', '.join(names[:_SHOWN])}, ..., {names[-1]} ({len(names)})"


def _classes(data: Data) -> list[tuple[str, str]]:
    """Return the numbers of classes, and how many all labelled domains have in common."""
    import numpy as np

    sets = [
        set(np.unique(y).tolist()) - ({-1} if y.dtype.kind in "iu" else set())
        for y in map(np.asarray, data.get("y", {}).values())
    ]
    if not sets:
        return []
    sizes = " / ".join(str(len(each)) for each in sets)
    common = f", common {len(set.intersection(*sets))}" if len(sets) > 1 else ""
    return [("classes", sizes + common)]


def _counterparts(
    hasher: BaseTransferHasher, labelled: Sequence[str], domains: Sequence[str]
) -> list[tuple[str, str]]:
    """Return what the domains have in common, if that was tested or all of them have labels."""
    shared = getattr(hasher, "shared_classes_", None)
    tested = hasher.rejectors_ or {}
    private, new = getattr(hasher, "private_classes_", {}), getattr(hasher, "new_share_", {})
    doubtful = getattr(hasher, "doubtful_domains_", [])
    if shared is None:
        alone = [f"{100 * share:.0f} % of {name} have none" for name, share in new.items() if share]
        return [("counterparts", "; ".join(alone))] if alone else []
    if not (tested or len(labelled) == len(domains)):
        return []
    if not tested and not any(private.values()):
        return []  # the line `classes` says that
    if len(domains) == 2:
        texts = [
            _found(len(shared), len(private.get(a, [])), a, b)
            for a, b in (domains, domains[::-1])
            if b in tested or (not tested and private.get(a))
            if private.get(a) or b not in doubtful
        ]
    else:
        n = len(shared) + sum(map(len, private.values()))
        texts = [f"{len(shared)} of {n} classes found in two or more domains"]
    texts += [f"{100 * share:.0f} % of {name} look new" for name, share in new.items() if share]
    texts += [f"the classes of {name} may be others" for name in doubtful]
    return [("counterparts", "; ".join(texts))]


def _found(n_shared: int, n_private: int, there: str, here: str) -> str:
    """Return how many classes of one domain the other one has.

    >>> _found(5, 2, "source", "target"), _found(7, 0, "source", "target")
    ('5 of 7 classes of source found in target', 'all 7 classes of source found in target')
    """
    n = n_shared + n_private
    number = f"{n_shared} of {n}" if n_private else f"all {n}"
    return f"{number} classes of {there} found in {here}"


def _size(data: Data, domain: str, frozen: bool) -> str:
    X = data["X_source"][domain]
    size = (
        "codes only"
        if X is None
        else f"{counted(X.shape[0], 'row')}, {counted(X.shape[1], 'column')}"
    )
    labelled = ", labelled" if domain in data.get("y", {}) else ""
    return f"{size}{labelled}{', frozen' if frozen else ''}"
