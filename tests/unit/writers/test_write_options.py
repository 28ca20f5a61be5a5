"""Options of writers: every mistake is named before any task starts."""

import pytest

from rta_wire import errors
from rta_wire.codec import layout
from rta_writers.options.write import DeliveryGuarantee, WriteOptions

SESSION = {"redisUrl": "redis://localhost", "session": "run-1", "stream": "rig", "streamSessionId": "7"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delivry": "staged"}, "no option 'delivry'. Did you mean 'delivery'"),
        ({"quux": "1"}, "It knows burstBytes, channels"),
        ({"delivery": "twice"}, "it is one of exactly-once, at-least-once, staged.$"),
        ({"delivery": "exactly-one"}, "Option 'delivery' is 'exactly-one'.*Did you mean 'exactly-once'"),
        ({"wait": "yes"}, "Option 'wait' is 'yes': it is true or false"),
        ({"groupRows": "many"}, "Option 'groupRows' is 'many': it is a whole number"),
        ({"groupRows": "0"}, "it is between 1 and"),
        ({"channels": "rpm"}, "Option 'channels' is 'rpm': it is a JSON object, or name=value"),
        ({"channels": "rpm=1,rpm=2"}, "names 'rpm' twice"),
        ({"channels": "rpm=1,speed=1"}, "gives one channel id to two names"),
        ({"channels": '{"rpm": -1}'}, "it is between 0 and 4294967295"),
        ({"sampleType": "rpm=float"}, "Option 'sampleType' speaks of channel 'rpm', which is no id"),
        ({"channels": "rpm=1", "kind": "rmp=row"}, "'rmp', .* Did you mean 'rpm'"),
        ({"sampleType": "flot"}, "Did you mean 'float'"),
        ({"kind": "row", "intervalNs": "5"}, "'kind' and 'intervalNs'.*has an interval but is row"),
        ({"stream": "a/b"}, "Stream name 'a/b' is not valid"),
        ({"waitTimeoutS": "nan"}, "a number of seconds above 0"),
        ({"sessionProperties": "[]"}, "Option 'sessionProperties' is '\\[\\]': it is a JSON object"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], message: str) -> None:
    """The sentence names the option, and the nearest valid one where there is one."""
    with pytest.raises(errors.RtaError, match=message):
        WriteOptions.parse({**SESSION, **options})


@pytest.mark.parametrize("missing", ["redisUrl", "stream", "streamSessionId"])
def test_a_missing_option_is_named(missing: str) -> None:
    """The sentence tells where the options come from."""
    options = {name: value for name, value in SESSION.items() if name != missing}
    with pytest.raises(errors.Usage, match=rf"'{missing}'.*session\.options"):
        WriteOptions.parse(options)


def test_names_are_found_in_any_case_and_sparks_own_are_passed_over() -> None:
    """Spark folds the case of names and hands its own options on."""
    options = WriteOptions.parse({**{name.lower(): text for name, text in SESSION.items()}, "checkpointlocation": "x"})
    assert (options.session, options.stream_session_id, options.delivery) == (
        "run-1",
        7,
        DeliveryGuarantee.EXACTLY_ONCE,
    )


def test_layouts_come_from_names_ids_and_a_default() -> None:
    """Options of a channel override those for all channels."""
    options = WriteOptions.parse(
        {
            **SESSION,
            "channels": '{"rpm": 1, "speed": 2}',
            "sampleType": '{"*": "float", "rpm": "int16", "9": "double"}',
            "kind": "speed=periodic",
            "intervalNs": "speed=1000",
        }
    )
    plan = options.layout_plan()
    assert plan.default == layout.Layout(layout.SampleType.FLOAT)
    assert plan.layout(1) == layout.Layout(layout.SampleType.INT16)
    assert plan.layout(2) == layout.Layout(layout.SampleType.FLOAT, layout.Kind.PERIODIC, 1000)
    assert plan.layout(9) == layout.Layout(layout.SampleType.DOUBLE)
