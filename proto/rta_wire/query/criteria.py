"""Parses a query: JSON text to a tree of criteria, within bounds of length, depth and size. Pure.

    {"state": "open", "details.Lap": {"$gte": 3}, "$or": [{"identifier": {"$contains": "warm"}}, …]}

Several keys are all to hold. `evaluate` says which documents match a tree.
"""

import enum
import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from rta_wire import errors, limits, quoting


class Operator(enum.StrEnum):
    """What a condition asks of a value."""

    EQUAL = "$eq"
    NOT_EQUAL = "$neq"
    GREATER = "$gt"
    GREATER_OR_EQUAL = "$gte"
    LESS = "$lt"
    LESS_OR_EQUAL = "$lte"
    STARTS_WITH = "$startsWith"
    ENDS_WITH = "$endsWith"
    CONTAINS = "$contains"
    IN = "$in"
    NOT_IN = "$nin"


class Condition(msgspec.Struct, frozen=True):
    """One operator on the property of one path. The literal of `IN` and `NOT_IN` is a tuple."""

    path: str
    operator: Operator
    literal: Any


class All(msgspec.Struct, frozen=True):
    """Every criterion holds."""

    criteria: tuple["Criterion", ...] = ()


class AnyOf(msgspec.Struct, frozen=True):
    """At least one criterion holds."""

    criteria: tuple["Criterion", ...]


class Not(msgspec.Struct, frozen=True):
    """The criterion does not hold."""

    criterion: "Criterion"


Criterion = Condition | All | AnyOf | Not

EVERYTHING: Final = All()

_NOT: Final = "$not"
_TEXT_OPERATORS: Final = {Operator.STARTS_WITH, Operator.ENDS_WITH, Operator.CONTAINS}
_LIST_OPERATORS: Final = {Operator.IN, Operator.NOT_IN}
_WITH_NULL: Final = {Operator.EQUAL, Operator.NOT_EQUAL}


def parse(text: str, *, max_chars: int = limits.QUERY_MAX_CHARS, max_depth: int = limits.QUERY_MAX_DEPTH) -> Criterion:
    """The criterion that a query says. Empty text matches everything. Raises `BadQuery`."""
    if not text.strip():
        return EVERYTHING
    if len(text) > max_chars:
        raise _bad("$", f"it has more than {max_chars} characters")
    if text.count("{") + text.count("[") > limits.QUERY_MAX_NODES:
        raise _bad("$", f"it has more than {limits.QUERY_MAX_NODES} objects and lists")
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise _bad(f"line {error.lineno}, column {error.colno}", error.msg) from error
    except (ValueError, RecursionError) as error:  # a number with thousands of digits
        raise _bad("$", str(error)) from error
    criterion = _Parser(min(max_depth, limits.QUERY_MAX_DEPTH)).criterion(value, "$", 1)
    if len(paths(criterion)) > limits.QUERY_MAX_PATHS:
        raise _bad("$", f"it looks at more than {limits.QUERY_MAX_PATHS} properties")
    return criterion


class _Parser:
    """Counts what it has met, so that a short text can't ask for much work."""

    def __init__(self, max_depth: int) -> None:
        self._max_depth = max_depth
        self._nodes = 0

    def criterion(self, value: Any, where: str, depth: int) -> Criterion:
        self._count(where, depth)
        if not isinstance(value, dict):
            raise _bad(where, "a criterion is an object")
        return _all([self._member(name, part, f"{where}.{name}", depth + 1) for name, part in value.items()])

    def _member(self, name: str, value: Any, where: str, depth: int) -> Criterion:
        if name == _NOT:
            return Not(self.criterion(value, where, depth))
        if name in ("$and", "$or", "$nor"):
            if not isinstance(value, list):
                raise _bad(where, "it takes a list of criteria")
            parts = tuple(self.criterion(part, f"{where}[{at}]", depth) for at, part in enumerate(value))
            return All(parts) if name == "$and" else AnyOf(parts) if name == "$or" else Not(AnyOf(parts))
        if name.startswith("$"):
            raise _bad(where, f"{name} is no criterion; $and, $or, $nor and $not are")
        return self._condition(name, value, where, depth)

    def _condition(self, path: str, value: Any, where: str, depth: int) -> Criterion:
        self._count(where, depth)
        if not isinstance(value, dict):
            return Condition(path, Operator.EQUAL, _literal(value, where))
        return _all([self._operation(path, name, part, f"{where}.{name}", depth + 1) for name, part in value.items()])

    def _operation(self, path: str, name: str, value: Any, where: str, depth: int) -> Criterion:
        self._count(where, depth)
        if name == _NOT:
            return Not(self._condition(path, value, where, depth))
        try:
            operator = Operator(name)
        except ValueError:
            raise _bad(where, f"{name} is no operator; {', '.join(Operator)} and $not are") from None
        if operator in _LIST_OPERATORS:
            return Condition(path, operator, self._literals(value, where, depth))
        literal = _literal(value, where)
        if literal is None and operator not in _WITH_NULL:
            raise _bad(where, "null goes with $eq and $neq only")
        if operator in _TEXT_OPERATORS and not isinstance(literal, str):
            raise _bad(where, f"{name} takes text")
        return Condition(path, operator, literal)

    def _literals(self, value: Any, where: str, depth: int) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise _bad(where, "it takes a list of values")
        for at, part in enumerate(value):
            self._count(where, depth)
            if _literal(part, f"{where}[{at}]") is None:
                raise _bad(f"{where}[{at}]", "null goes with $eq and $neq only")
        return tuple(value)

    def _count(self, where: str, depth: int) -> None:
        self._nodes += 1
        if depth > self._max_depth:
            raise _bad(where, f"it nests deeper than {self._max_depth}")
        if self._nodes > limits.QUERY_MAX_NODES:
            raise _bad(where, f"it has more than {limits.QUERY_MAX_NODES} parts")


def paths(criterion: Criterion) -> set[str]:
    """Every path that a criterion looks at."""
    if isinstance(criterion, Condition):
        return {criterion.path}
    if isinstance(criterion, Not):
        return paths(criterion.criterion)
    return set().union(*(paths(part) for part in criterion.criteria))


def _all(criteria: list[Criterion]) -> Criterion:
    return criteria[0] if len(criteria) == 1 else All(tuple(criteria))


def _literal(value: Any, where: str) -> Any:
    if isinstance(value, Mapping | list):
        raise _bad(where, "a value is text, a number, true, false or null")
    return value


def _no_constant(name: str) -> None:
    raise _bad("$", f"JSON has no {name}")


def _bad(where: str, reason: str) -> errors.BadQuery:
    return errors.BadQuery(where=quoting.cut(where, quoting.NAME_MAX_CHARS), reason=reason)
