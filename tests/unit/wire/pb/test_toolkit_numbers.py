"""The messages of the services of a Toolkit have the names, numbers and types that those services know.

Both ends of other tests share the generated code, in which a wrong number would go unnoticed.
"""

from types import ModuleType

import pytest
from google.protobuf import descriptor_pb2

from rta_wire.pb import config_service_pb2, session_service_pb2

SESSION_FIELDS = {
    "CreateOrUpdateSessionRequest": {
        1: "string identity",
        2: "Int64Value sequence",
        3: "NewSession create_if_not_exists",
        4: "repeated SessionUpdate updates",
    },
    "NewSession": {1: "int32 state", 2: "string timestamp", 3: "string identifier"},
    "SessionUpdate": {  # one of them
        1: "Empty update_heartbeat",
        2: "int32 set_state",
        3: "string set_timestamp",
        4: "TimeRange set_time_range",
        5: "TimeRange extend_time_range",
        6: "Empty clear_time_range",
        7: "string set_identifier",
        8: "Details set_details",
        9: "Details update_details",
        10: "JsonDetails set_details_json",
        11: "JsonDetails update_details_json",
        12: "DetailKeys delete_details",
        13: "StringValue set_type",
        14: "Empty clear_type",
        15: "double set_quality",
        16: "Empty clear_quality",
        17: "string set_group",
        18: "Empty clear_group",
        19: "string set_version",
        20: "Empty clear_version",
        24: "ConfigBindings set_config_bindings",
        25: "ConfigBindings update_config_bindings",
        26: "ConfigBindingKeys delete_config_bindings",
    },
    "TimeRange": {1: "sfixed64 start_time", 2: "sfixed64 end_time"},
    "Details": {1: "string category", 2: "map<string, string> details"},
    "JsonDetails": {1: "string category", 2: "string json"},
    "DetailKeys": {1: "string category", 2: "repeated string keys"},
    "ConfigBindings": {1: "repeated ConfigBinding bindings"},
    "ConfigBinding": {1: "string identifier", 2: "uint32 channel_offset"},
    "ConfigBindingKeys": {1: "repeated string identifiers"},
}
CONFIG_FIELDS = {
    "PutConfigRequest": {1: "string identifier", 2: "string content_type", 3: "bytes data"},
    "PutConfigStreamRequest": {  # one of them
        1: "ConfigInfo info",
        2: "bytes piece",
    },
    "ConfigInfo": {1: "string identifier", 2: "string content_type"},
    "HasConfigRequest": {1: "string identifier"},
}
ONE_OF_THEM = {"SessionUpdate", "PutConfigStreamRequest"}


def declared(field: descriptor_pb2.FieldDescriptorProto, maps: set[str]) -> str:
    """A field as a `.proto` file has it."""
    kind = field.type_name.rpartition(".")[2] or field.Type.Name(field.type).removeprefix("TYPE_").lower()
    if kind in maps:
        return f"map<string, string> {field.name}"
    repeated = "repeated " if field.label == field.LABEL_REPEATED else ""
    return f"{repeated}{kind} {field.name}"


@pytest.mark.parametrize(
    ("module", "package", "fields"),
    [
        (session_service_pb2, "rta.toolkit.api.session_service", SESSION_FIELDS),
        (config_service_pb2, "rta.toolkit.api.config_service", CONFIG_FIELDS),
    ],
)
def test_fields_of_the_messages(module: ModuleType, package: str, fields: dict[str, dict[int, str]]) -> None:
    """Each field has its number, its type and its name; of the operations of an update there is one."""
    file = descriptor_pb2.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    found: dict[str, dict[int, str]] = {}
    for message in file.message_type:
        maps = {nested.name for nested in message.nested_type if nested.options.map_entry}
        for nested in message.nested_type:
            assert [(field.number, declared(field, set())) for field in nested.field] == [
                (1, "string key"),
                (2, "string value"),
            ]
        found[message.name] = {field.number: declared(field, maps) for field in message.field}
        is_in_oneof = {field.HasField("oneof_index") and not field.proto3_optional for field in message.field}
        assert is_in_oneof == {message.name in ONE_OF_THEM}, message.name
    assert file.package == package
    assert found == fields


def test_a_call_byte_by_byte() -> None:
    """What stands on the wire, written by hand from numbers and types alone."""
    pb = session_service_pb2
    request = pb.CreateOrUpdateSessionRequest(
        identity="r",
        create_if_not_exists=pb.NewSession(state=2, timestamp="t", identifier="i"),
        updates=[
            pb.SessionUpdate(extend_time_range=pb.TimeRange(start_time=1, end_time=-2)),
            pb.SessionUpdate(set_config_bindings=pb.ConfigBindings(bindings=[pb.ConfigBinding(identifier="c")])),
            pb.SessionUpdate(set_state=4),
        ],
    )
    request.sequence.value = 300
    time_range = b"\x09" + (1).to_bytes(8, "little") + b"\x11" + (-2).to_bytes(8, "little", signed=True)
    assert request.SerializeToString() == b"".join(
        (
            b"\x0a\x01r",
            b"\x12\x03\x08\xac\x02",
            b"\x1a\x08\x08\x02\x12\x01t\x1a\x01i",
            b"\x22\x14\x2a\x12" + time_range,
            b"\x22\x08\xc2\x01\x05\x0a\x03\x0a\x01c",
            b"\x22\x02\x10\x04",
        )
    )
