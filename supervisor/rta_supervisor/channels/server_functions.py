"""Calls of the server functions on configurations."""

from rta_supervisor.transport import commands
from rta_wire import keys


def count_published(
    names: keys.Keys,
    principal: str,
    identifier: str,
    size_bytes: int,
    *,
    span_s: int,
    max_configs: int,
    max_bytes: int,
) -> commands.Command:
    """Count a configuration that a principal publishes, unless it would be too many or too much within `span_s`."""
    arguments = (identifier, size_bytes, span_s, max_configs, max_bytes)
    return ("FCALL", "rtas_config_count_1", 1, names.configs_published(principal), *arguments)
