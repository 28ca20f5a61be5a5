"""The wire: names, limits, errors, session model and burst codec. Pure: does no I/O and imports nothing of ours."""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rta_wire.codec import decode, encode
    from rta_wire.codec import event_messages as events
    from rta_wire.codec import layout as plan

__all__ = ["__version__", "decode", "encode", "events", "plan"]
__version__ = "0.2.0.dev0"

_LATER: Final = {
    "decode": "rta_wire.codec.decode",
    "encode": "rta_wire.codec.encode",
    "events": "rta_wire.codec.event_messages",
    "plan": "rta_wire.codec.layout",
}
"""The codec as a library, by the names that its guide shows. Imported when they are used."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return importlib.import_module(_LATER[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
