"""Class selections: which classes the source and the target of a task keep.

Domains whose classes coincide are *closed*. The target of a *partial* task lacks some classes of
the source, the source of an *open* task lacks some of the target, and in a *universal* task both
lack some. A class that only one domain has is *private*.

A selection is written as text after `@classes=` in the name of a task: `partial`, `open` or
`universal` to draw classes by the seed of the split, or the classes themselves, first those of the
source: `dog+horse+house/dog+horse+person`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core.errors import InputError, unknown
from .._core.validation import check_labels, classes_of

ClassDraw = Literal["partial", "open", "universal"]
DRAWS: tuple[str, ...] = get_args(ClassDraw)
_LEAST = 3  # classes to draw from, so that two are left in the source
_SHARED = 0.4  # of the classes of a universal task


def draw_classes(
    draw: ClassDraw, y_source: ArrayLike, y_target: ArrayLike, *, seed: int = 0
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Draw the classes that source and target keep.

    Only the C classes that both domains have are drawn from, so the classes of a domain that the
    other one lacks from the start are kept by neither.

    Parameters
    ----------
    draw : "partial", "open" or "universal"
        "partial": the target lacks floor(C / 2) classes. "open": the source lacks them; with the
        same seed they are the same classes. "universal": 0.4 C classes, rounded, are shared, and
        each domain has half of the others; the source has one more if their number is odd.
    y_source, y_target : arrays of class ids or names
        -1 marks an unknown class.
    seed : int

    Returns
    -------
    source, target : arrays of labels, sorted

    Examples
    --------
    >>> source, target = draw_classes("partial", list("abcde"), list("abcde"), seed=0)
    >>> len(source), len(target), set(target) < set(source)
    (5, 3, True)
    """
    if draw not in DRAWS:
        raise InputError(unknown("draw of classes", str(draw), DRAWS))
    known_s, known_t = _classes(y_source, "y_source"), _classes(y_target, "y_target")
    classes_of(known_s, known_t)  # refuses text in one domain and numbers in the other
    common = np.intersect1d(known_s, known_t)
    n, half = len(common), len(common) // 2
    if n < _LEAST:
        raise InputError(
            f"source and target have {n} classes in common; {draw!r} needs at least {_LEAST}: use "
            "domains with more classes, or name the classes of source and target"
        )
    drawn = np.random.default_rng(seed).spawn(1)[0].permutation(common)  # not that of the queries
    if draw == "partial":
        source, target = drawn, drawn[half:]
    elif draw == "open":
        source, target = drawn[half:], drawn
    else:
        n_shared = round(_SHARED * n)
        n_source = n - (n - n_shared) // 2
        source, target = drawn[:n_source], np.delete(drawn, np.s_[n_shared:n_source])
    return np.sort(source), np.sort(target)


@dataclass(frozen=True)
class ClassSelection:
    """The classes of source and target as text, or how to draw them.

    >>> selection = ClassSelection.parse("dog+horse/dog+person")
    >>> selection.source, selection.target, str(selection)
    (('dog', 'horse'), ('dog', 'person'), 'dog+horse/dog+person')
    >>> ClassSelection.parse("open").draw
    'open'
    """

    source: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    draw: ClassDraw | None = None  # in place of the names

    @classmethod
    def parse(cls, text: str) -> ClassSelection:
        """Return the selection that a text names."""
        if text in DRAWS:
            return cls(draw=text)  # type: ignore[arg-type]
        sides = [tuple(side.split("+")) for side in text.split("/")]
        if len(sides) != 2 or not all(name for side in sides for name in side):
            raise InputError(
                f"{text!r} does not select classes; write {', '.join(DRAWS)}, or the classes of "
                "the source, a slash and those of the target: dog+horse/dog+person"
            )
        return cls(source=sides[0], target=sides[1])

    def __str__(self) -> str:
        return self.draw or "/".join("+".join(side) for side in (self.source, self.target))

    def choose(
        self, y_source: ArrayLike, y_target: ArrayLike, names: Sequence[str] = (), *, seed: int
    ) -> tuple[Collection[Any], Collection[Any]]:
        """Return the labels that source and target keep.

        Parameters
        ----------
        y_source, y_target : arrays of labels
        names : sequence of str
            Names of the classes 0, 1, ... if the labels are numbers.
        seed : int
            Draws the classes, if they are drawn.
        """
        if self.draw is not None:
            return draw_classes(self.draw, y_source, y_target, seed=seed)
        return (
            [_label(name, y_source, names) for name in self.source],
            [_label(name, y_target, names) for name in self.target],
        )


def _label(text: str, y: ArrayLike, names: Sequence[str]) -> Any:
    """Return the label that a text means; the text itself if there is no such number."""
    if np.asarray(y).dtype.kind in "US":
        return text
    if text in names:
        return names.index(text)
    return int(text) if text.isascii() and text.isdigit() else text


def selected_rows(
    y_source: NDArray[Any],
    y_target: NDArray[Any],
    source_classes: Collection[Any] | None,
    target_classes: Collection[Any] | None,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Mark the rows of both domains whose class is kept; None keeps all rows of a domain.

    Rows of unknown class (-1) are dropped from a domain that keeps certain classes.
    """
    sides = (
        ("source_classes", y_source, source_classes),
        ("target_classes", y_target, target_classes),
    )
    kept = [
        set(known) if classes is None else _checked(classes, known, name)
        for name, y, classes in sides
        for known in [_classes(y, name).tolist()]
    ]
    if len(kept[0]) < 2:
        raise InputError(
            f"{len(kept[0])} class; a source needs at least two: name another", "source_classes"
        )
    if kept[0].isdisjoint(kept[1]):
        raise InputError(
            "none of these classes is in the source, so no query has a relevant item; keep at "
            "least one class in both domains",
            "target_classes",
        )
    source, target = (
        np.ones(len(y), dtype=bool) if classes is None else np.isin(y, list(which))
        for (_, y, classes), which in zip(sides, kept, strict=True)
    )
    return source, target


def _checked(classes: Collection[Any], known: list[Any], name: str) -> set[Any]:
    """Return classes of a domain without repetition."""
    if isinstance(classes, str):
        raise InputError(f"{classes!r} is one text; give a list of classes", name)
    for label in classes:
        if label not in known:
            raise InputError(unknown("class", str(label), [str(each) for each in known]), name)
    if not len(classes):
        raise InputError("is empty; name at least one class, or None to keep all", name)
    return set(classes)


def _classes(y: ArrayLike, name: str) -> NDArray[Any]:
    labels = check_labels(y, len(np.asarray(y)), name)
    classes = classes_of(labels)
    assert classes is not None
    return classes
