"""Says which of many documents match a criterion, a column of values at a time. Pure.

A column has the value of one property in each document, None where a document lacks it. A value of another type than
the literal equals nothing and has no order to it. Functions on text ignore case: people type names as they remember
them; `$eq` and `$in` do not.
"""

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from rta_wire.arrays import Bools
from rta_wire.query import property_paths, typed_values
from rta_wire.query.criteria import All, Condition, Criterion, Not, Operator
from rta_wire.session import Json

Column = Sequence[Any]
Columns = Callable[[str], Column]
"""The column of a path."""


def matches(criterion: Criterion, document: Json) -> bool:
    """Whether one document matches."""
    return bool(select(criterion, lambda path: [property_paths.value_at(document, path)], 1)[0])


def select(criterion: Criterion, columns: Columns, count: int) -> Bools:
    """For each of `count` documents whether it matches."""
    if isinstance(criterion, Condition):
        return _select_values(criterion, columns(criterion.path), count)
    if isinstance(criterion, Not):
        return ~select(criterion.criterion, columns, count)
    is_all = isinstance(criterion, All)
    mask: Bools = np.full(count, is_all, np.bool_)
    for part in criterion.criteria:
        if is_all:
            mask &= select(part, columns, count)
        else:
            mask |= select(part, columns, count)
    return mask


def _select_values(condition: Condition, column: Column, count: int) -> Bools:
    if condition.operator is Operator.NOT_EQUAL:
        return ~_select_equal(condition.literal, column, count)
    if condition.operator is Operator.EQUAL:
        return _select_equal(condition.literal, column, count)
    if condition.operator is Operator.NOT_IN:
        return ~_select_in(condition.literal, column, count)
    if condition.operator is Operator.IN:
        return _select_in(condition.literal, column, count)
    compare, literal = _COMPARISONS.get(condition.operator), condition.literal
    if compare is not None and type(literal) in _NUMBERS:
        return _mask((type(value) in _NUMBERS and compare(value, literal) for value in column), count)
    return _mask(map(_PREDICATES[condition.operator](literal), column), count)


def _select_equal(literal: Any, column: Column, count: int) -> Bools:
    if literal is None:
        return _mask((value is None for value in column), count)
    if isinstance(literal, str) and typed_values.instant_ns(literal) is None:
        return _mask((value == literal for value in column), count)
    return _mask((typed_values.is_equal(value, literal) for value in column), count)


def _select_in(literals: Sequence[Any], column: Column, count: int) -> Bools:
    texts = {literal for literal in literals if isinstance(literal, str)}
    instants = {typed_values.instant_ns(text) for text in texts} - {None}
    numbers = {literal for literal in literals if type(literal) in _NUMBERS}
    booleans = {literal for literal in literals if isinstance(literal, bool)}
    mask = _mask((isinstance(value, str) and value in texts for value in column), count)
    if instants:
        mask |= _mask(
            (isinstance(value, str) and typed_values.instant_ns(value) in instants for value in column), count
        )
    if numbers:
        mask |= _mask((type(value) in _NUMBERS and value in numbers for value in column), count)
    if booleans:
        mask |= _mask((isinstance(value, bool) and value in booleans for value in column), count)
    return mask


def _ordered(is_wanted: Callable[[int], bool]) -> Callable[[Any], Callable[[Any], bool]]:
    """A maker of predicates that compare a value with a literal."""

    def make(literal: Any) -> Callable[[Any], bool]:
        return lambda value: (sign := typed_values.order(value, literal)) is not None and is_wanted(sign)

    return make


def _textual(is_wanted: Callable[[str, str], bool]) -> Callable[[Any], Callable[[Any], bool]]:
    """A maker of predicates that look for a literal in a text, in any case."""

    def make(literal: str) -> Callable[[Any], bool]:
        folded = literal.casefold()
        return lambda value: isinstance(value, str) and is_wanted(value.casefold(), folded)

    return make


_NUMBERS: Final = frozenset({int, float})
"""The types that JSON has for numbers; a boolean has another one."""

_COMPARISONS: Final[dict[Operator, Callable[[Any, Any], bool]]] = {
    Operator.GREATER: operator.gt,
    Operator.GREATER_OR_EQUAL: operator.ge,
    Operator.LESS: operator.lt,
    Operator.LESS_OR_EQUAL: operator.le,
}
"""The same as predicates, of numbers alone: most queries are about times."""

_PREDICATES: dict[Operator, Callable[[Any], Callable[[Any], bool]]] = {
    Operator.GREATER: _ordered(lambda sign: sign > 0),
    Operator.GREATER_OR_EQUAL: _ordered(lambda sign: sign >= 0),
    Operator.LESS: _ordered(lambda sign: sign < 0),
    Operator.LESS_OR_EQUAL: _ordered(lambda sign: sign <= 0),
    Operator.STARTS_WITH: _textual(str.startswith),
    Operator.ENDS_WITH: _textual(str.endswith),
    Operator.CONTAINS: _textual(str.__contains__),
}


def _mask(values: Iterable[bool], count: int) -> Bools:
    return np.fromiter(values, np.bool_, count)
