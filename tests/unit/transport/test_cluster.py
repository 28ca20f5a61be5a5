"""Which slot of a cluster a command goes to."""

import pytest

from rta_supervisor.transport import cluster
from rta_wire import keys


@pytest.mark.parametrize(
    ("command", "key"),
    [
        (("FCALL", "rtas_keep_2", 2, "stream:rig", "rtas:gate:{stream:rig}:1", 1), "stream:rig"),
        (("XREADGROUP", "GROUP", "g", "c", "COUNT", 1, "BLOCK", 5, "STREAMS", "rtas:req:p", ">"), "rtas:req:p"),
        (("XINFO", "STREAM", "stream:rig"), "stream:rig"),
        (("XAUTOCLAIM", b"rtas:req:p", "g", "c", 1, "0"), "rtas:req:p"),
        (("HGET", "sessions:a", "json"), "sessions:a"),
    ],
)
def test_a_command_goes_to_the_slot_of_its_key(command: tuple[str | int | bytes, ...], key: str) -> None:
    """The slot is that of the key, wherever in the command it stands."""
    assert cluster.slot_of(command) == keys.key_slot(key)
