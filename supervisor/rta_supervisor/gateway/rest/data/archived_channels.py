"""What the archive says about the channels of a session: configurations beside its files, and types of samples.

Needed where neither Redis nor the catalogue has a configuration. Kinds are not taken from the archive: without a
configuration a channel is served as timestamped from the stream, and has to be the same from everywhere. All functions
block.
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rta_wire.archive import names
from rta_wire.channels import config_json
from rta_wire.codec.layout import Layout, Plan, SampleType

_COLUMNS = ["channel", "sample_type", "row_set"]


def read_config(folder: str, identifier: str) -> bytes | None:
    """The configuration that was archived with a session; None where it was not, or is not what its name says."""
    try:
        data = Path(folder, names.config_file(identifier)).read_bytes()
    except OSError:
        return None
    return data if config_json.identifier(data) == identifier else None


def read_layouts(message_files: Sequence[str]) -> Plan:
    """Layouts with the types that the samples of a session had in its stream."""
    types: dict[int, SampleType] = {}
    for path in message_files:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            if _is_all_double(file.metadata):
                continue
            table = file.read(columns=_COLUMNS)
        # Of dictionaries a group is found by the text.
        table = pa.table([table[name].cast(pa.string()) for name in _COLUMNS], _COLUMNS)
        for row in table.group_by(_COLUMNS).aggregate([]).to_pylist():
            channels = row["row_set"].split(",") if row["row_set"] is not None else [row["channel"]]
            names_of_types = row["sample_type"].split(",")
            if len(names_of_types) == 1:
                names_of_types *= len(channels)
            types |= {
                int(channel): SampleType(name)
                for channel, name in zip(channels, names_of_types, strict=True)
                if channel
            }
    return Plan((channel, Layout(sample_type)) for channel, sample_type in types.items())


def _is_all_double(metadata: pq.FileMetaData) -> bool:
    """Whether the footer says that all samples are doubles, as most are."""
    column = [metadata.schema.column(number).name for number in range(metadata.num_columns)].index("sample_type")
    for number in range(metadata.num_row_groups):
        statistics = metadata.row_group(number).column(column).statistics
        if statistics is None or not statistics.has_min_max:
            return False
        if (statistics.min, statistics.max) != (SampleType.DOUBLE.value, SampleType.DOUBLE.value):
            return False
    return True
