"""The query dialect, against a plain model of it that shares no code."""

import contextlib
import datetime as dt
import itertools
import json
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rta_wire import errors, limits
from rta_wire.query import criteria, evaluate, property_paths, sort_order

NAMES = ["Lap", "Rig", "Driver", "Day", "a.b"]
GROUPS = ["Car", "Tyre.Front"]
TIMES = ["2026-01-01", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "2025-12-31T23:59:59.999999999Z"]
texts = st.one_of(st.sampled_from(["warm", "Warm-up", "WARM-UP 2", "", "2", *TIMES]), st.text(max_size=3))
scalars = st.one_of(st.booleans(), st.integers(-3, 3), st.sampled_from([0.0, 1.0, 1.5, -0.0, 2.5]), texts)
details = st.dictionaries(st.sampled_from(NAMES), scalars, max_size=4)
documents = st.fixed_dictionaries(
    {"identity": texts, "state": st.sampled_from(["open", "closed"])},
    optional={
        "identifier": texts,
        "details": details,
        "quality": st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0])),
        "extDetails": st.dictionaries(st.sampled_from(GROUPS), details, max_size=2),
    },
)
paths = st.one_of(
    st.sampled_from(["identity", "identifier", "state", "quality", "nowhere", "details.nowhere"]),
    st.sampled_from(NAMES).map("details.{}".format),
    st.tuples(st.sampled_from(GROUPS), st.sampled_from(NAMES)).map(lambda pair: "extDetails.{}.{}".format(*pair)),
)
operations = st.one_of(
    st.tuples(st.sampled_from(["$eq", "$neq"]), st.one_of(st.none(), scalars)),
    st.tuples(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), scalars),
    st.tuples(st.sampled_from(["$startsWith", "$endsWith", "$contains"]), texts),
    st.tuples(st.sampled_from(["$in", "$nin"]), st.lists(scalars, max_size=3)),
)
conditions = st.recursive(
    st.one_of(scalars, st.none(), st.lists(operations, max_size=2).map(dict)),
    lambda inner: st.builds(lambda condition: {"$not": condition}, inner),
    max_leaves=2,
)
queries = st.recursive(
    st.dictionaries(paths, conditions, max_size=2),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["$and", "$or", "$nor"]), st.lists(inner, max_size=3)).map(lambda pair: dict([pair])),
        inner.map(lambda query: {"$not": query}),
        st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
    ),
    max_leaves=6,
)


def model_value(document: dict[str, Any], path: str) -> Any:
    """The value of a path, by what its first word says."""
    if path.startswith("details."):
        return document.get("details", {}).get(path[len("details.") :])
    if path.startswith("extDetails."):
        for group, values in document.get("extDetails", {}).items():
            if path.startswith(f"extDetails.{group}."):
                return values.get(path[len(f"extDetails.{group}.") :])
        return None
    return document.get(path)


def model_instant(value: Any) -> Any:
    """Seconds and nanoseconds of one of our times."""
    if value not in TIMES or not isinstance(value, str):
        return None
    whole, _, fraction = value.partition(".")
    moment = dt.datetime.fromisoformat(whole + ("" if not fraction else "Z"))
    moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return moment.timestamp(), fraction


def model_type(value: Any) -> str:
    return "bool" if isinstance(value, bool) else "number" if isinstance(value, int | float) else type(value).__name__


def model_compare(operator: str, value: Any, literal: Any) -> bool:
    if operator == "$in":
        return any(model_compare("$eq", value, one) for one in literal)
    if operator == "$nin":
        return not model_compare("$in", value, literal)
    if operator == "$neq":
        return not model_compare("$eq", value, literal)
    if operator in ("$startsWith", "$endsWith", "$contains"):
        if not isinstance(value, str):
            return False
        low, part = value.casefold(), literal.casefold()
        by_operator = {"$startsWith": low[: len(part)] == part, "$contains": part in low}
        return bool(by_operator.get(operator, part == "" or low[-len(part) :] == part))
    if literal is None or value is None:
        return operator == "$eq" and value is literal
    if model_type(value) != model_type(literal):
        return False
    instants = model_instant(value), model_instant(literal)
    left, right = instants if None not in instants else (value, literal)
    results = {
        "$eq": left == right,
        "$gt": left > right,
        "$gte": left >= right,
        "$lt": left < right,
        "$lte": left <= right,
    }
    return bool(results[operator])


def model_condition(value: Any, condition: Any) -> bool:
    if not isinstance(condition, dict):
        return model_compare("$eq", value, condition)
    return all(
        not model_condition(value, part) if name == "$not" else model_compare(name, value, part)
        for name, part in condition.items()
    )


def model(query: dict[str, Any], document: dict[str, Any]) -> bool:
    """Whether a document matches, said as plainly as possible."""
    results = []
    for name, part in query.items():
        if name == "$not":
            results.append(not model(part, document))
        elif name == "$and":
            results.append(all(model(one, document) for one in part))
        elif name == "$or":
            results.append(any(model(one, document) for one in part))
        elif name == "$nor":
            results.append(not any(model(one, document) for one in part))
        else:
            results.append(model_condition(model_value(document, name), part))
    return all(results)


@given(queries, documents)
@example({"details.Lap": True}, {"identity": "", "state": "open", "details": {"Lap": 1}})
@example({"details.Lap": {"$in": [1]}}, {"identity": "", "state": "open", "details": {"Lap": 1.0}})
@example({"identifier": {"$not": {"$eq": None}}}, {"identity": "", "state": "open"})
def test_a_query_matches_what_the_model_says(query: dict[str, Any], document: dict[str, Any]) -> None:
    """Every operator, nested in any way, on documents with all types of values."""
    assert evaluate.matches(criteria.parse(json.dumps(query)), document) == model(query, document)


@given(queries, st.lists(documents, max_size=6))
def test_columns_give_the_same_as_single_documents(query: dict[str, Any], many: list[dict[str, Any]]) -> None:
    """Many documents at once are what each of them is by itself."""
    criterion = criteria.parse(json.dumps(query))
    mask = evaluate.select(
        criterion, lambda path: [property_paths.value_at(document, path) for document in many], len(many)
    )
    assert mask.tolist() == [evaluate.matches(criterion, document) for document in many]


@given(st.lists(scalars | st.none(), max_size=8), st.booleans())
def test_a_sort_is_typed_and_stable(values: list[Any], is_descending: bool) -> None:
    """Values of one type come in their order, equal ones in the order they had, and what is absent comes last."""
    order = sort_order.sort(
        list(range(len(values))), [sort_order.SortKey("details.X", is_descending)], lambda _: values
    )
    assert sorted(order) == list(range(len(values)))
    present = [row for row in order if values[row] is not None]
    assert present == order[: len(present)]
    for first, second in itertools.pairwise(present):
        low, high = (second, first) if is_descending else (first, second)
        if model_type(values[low]) == model_type(values[high]) and (
            None not in (model_instant(values[low]), model_instant(values[high])) or not isinstance(values[low], str)
        ):
            assert model_compare("$lte", values[low], values[high])
        if model_compare("$eq", values[first], values[second]):
            assert first < second


dotted = st.text("a.", max_size=4)
nested = st.recursive(st.integers(0, 3) | st.none(), lambda inner: st.dictionaries(dotted, inner, max_size=4))


def model_dotted(value: Any, path: str) -> Any:
    """The value of a path whose names may have dots in them, every way of dividing it tried, the longest name first."""
    if not isinstance(value, dict):
        return None
    if path in value:
        return value[path]
    ends = [end for end in range(len(path) - 1, 0, -1) if path[end] == "." and path[:end] in value]
    found = (model_dotted(value[path[:end]], path[end + 1 :]) for end in ends)
    return next((each for each in found if each is not None), None)


@given(st.dictionaries(dotted, nested, max_size=5), st.text("a.", max_size=9))
def test_names_with_dots_are_found_in_any_path(document: dict[str, Any], path: str) -> None:
    """Whether a path has more parts than an object has names, or fewer."""
    assert property_paths.value_at(document, path) == model_dotted(document, path)


@pytest.mark.parametrize("path", ["." * 16_000, "details." + "Lap." * 4000, "details." + "x" * 16_000])
def test_a_path_of_many_dots_costs_no_more_than_the_names_of_a_document(path: str) -> None:
    """Each part of it tried in each document was 27 ms for each, and three quarters of an hour for 100,000."""
    document = {"identity": "s", "details": {"Lap": 1, "Lap.Lap": {"Lap": 2}, "Rig": "x"}}
    began_s = time.process_time()
    assert [property_paths.value_at(document, path) for _ in range(1000)] == [None] * 1000
    assert time.process_time() - began_s < 1


def test_a_long_list_costs_no_more_than_a_short_one() -> None:
    """Each number of it compared with each value took minutes among 100,000 sessions."""
    query = json.dumps({"details.Lap": {"$in": [*range(1900), True, "2026-01-01"]}})
    values = [*range(10_000), True, False, 7.0, "2026-01-01T00:00:00Z", "7", None]
    began_s = time.process_time()
    mask = evaluate.select(criteria.parse(query), lambda _: values, len(values))
    assert time.process_time() - began_s < 1
    assert mask.tolist() == [True] * 1900 + [False] * 8100 + [True, False, True, True, False, False]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[]", "$"),
        ("{", "line 1"),
        ('{"a": NaN}', "$"),
        ('{"a": {"$gt": null}}', "$.a.$gt"),
        ('{"a": {"$in": [null]}}', "$.a.$in[0]"),
        ('{"a": {"$in": 3}}', "$.a.$in"),
        ('{"a": {"$contains": 3}}', "$.a.$contains"),
        ('{"a": {"$near": 3}}', "$.a.$near"),
        ('{"a": [1]}', "$.a"),
        ('{"a": {"b": 1}}', "$.a.b"),
        ('{"$xor": []}', "$.$xor"),
        ('{"$and": {}}', "$.$and"),
        ('{"$or": [1]}', "$.$or[0]"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, where: str) -> None:
    """Each kind of mistake says where it is."""
    with pytest.raises(errors.BadQuery) as caught:
        criteria.parse(text)
    assert where in str(caught.value)


def test_a_query_has_bounds() -> None:
    """Too long, too deep, too many parts and too many properties are refused before any document is looked at."""
    for text in (
        json.dumps({"a": "x" * 100_000}),
        '{"$not": ' * 70 + "{}" + "}" * 70,
        "[" * 100_000,
        json.dumps({"a": {"$in": list(range(5000))}}),
        json.dumps({f"details.{number}": 1 for number in range(limits.QUERY_MAX_PATHS + 1)}),
    ):
        with pytest.raises(errors.BadQuery):
            criteria.parse(text)


@given(st.text(max_size=60))
def test_any_text_is_a_query_or_a_named_mistake(text: str) -> None:
    """No text makes the parser fail in another way."""
    with contextlib.suppress(errors.BadQuery):
        criteria.parse(text)
