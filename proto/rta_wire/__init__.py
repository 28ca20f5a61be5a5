"""The wire: keys, limits, errors, session model, codec of bursts, and control messages.

Owns every name and every byte that writers, supervisor and readers share. Pure: imports neither of the other packages
and does no I/O, but for `credentials`, which reads files with passwords.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rta_wire.codec import decode, encode
    from rta_wire.codec import event_messages as events
    from rta_wire.codec import layout as plan

__all__ = ["__version__", "decode", "encode", "events", "plan"]
__version__ = "0.2.0.dev0"

_LAZY_MODULES: Final = {
    "decode": "rta_wire.codec.decode",
    "encode": "rta_wire.codec.encode",
    "events": "rta_wire.codec.event_messages",
    "plan": "rta_wire.codec.layout",
}
"""The codec as a library: names that `docs/wire.md` shows, and their modules. Imported at first use."""


def __getattr__(name: str) -> Any:
    if name in _LAZY_MODULES:
        return importlib.import_module(_LAZY_MODULES[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
