"""Assertions for tests of models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _anemone

if TYPE_CHECKING:
    from . import Report


def assert_on_ane(model: Any, chip: str = "m1", *, route: str = "direct", strict: bool = False) -> Report:
    """Fails with the report's table unless every operation runs on the engine of ``chip``.

    ``model`` is what ``anemone.load`` takes, or what it gave; ``route`` and ``strict`` are those of ``Model.check``. Returns the report.

    >>> anemone.assert_on_ane("digits.mlpackage", "m1").ok
    True
    """
    __tracebackhide__ = True
    loaded = model if isinstance(model, _anemone.Model) else _anemone.load(model)
    report = loaded.check(chip, route=route, strict=strict)
    if not report.ok:
        raise AssertionError(report.table())
    return report
